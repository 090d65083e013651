"""Training that a person watches: `headway train` and `headway.train` call this function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from headway.runs import AnyRunConfig, DryRun, Outcome, train
from headway.terminal.progress import Screen
from headway.training import Event


def train_on_screen(
    config: AnyRunConfig,
    folder: Path,
    *,
    listeners: Sequence[Callable[[Event], None]] = (),
    history: Sequence[str] = (),
    dry_run: DryRun | None = None,
    quiet: bool = False,
) -> Outcome:
    """Train a run as `headway.runs.train` does, and show its progress on standard error.

    quiet: show nothing.
    """
    screen = Screen(quiet)
    try:
        return train(
            config,
            folder,
            listeners=[screen, *listeners],
            observers=[screen],
            history=history,
            dry_run=dry_run,
        )
    finally:
        screen.close()
