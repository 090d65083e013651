"""Perplexity and bits per byte: `headway eval` of a language model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.console import data, data_json, talk
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.bundle import TextBundle
    from headway.machine import Machine


def show_perplexity(
    bundle: TextBundle,
    run: Path,
    path: Path | None,
    length: int | None,
    machine: Machine,
    json: bool,
) -> None:
    """Perplexity, nats per token and bits per byte of a text, or of what a run held out."""
    from headway.recipes import saved
    from headway.recipes.language_scores import score_held_out, score_text, windows_of

    config = saved(run) if (run / "run.yaml").is_file() else None
    window = windows_of(bundle, config, length).length
    with talk.status(f"scoring {path or 'held-out text'} in windows of {window} tokens"):
        if path is not None:
            scores = score_text(bundle, path, config, length, machine)
        elif config is not None:
            scores = score_held_out(bundle, run, config, length, machine)
        else:
            raise UsageError(
                f"{run} is no run, so there is no held-out text", hint="name a text file or folder"
            )
    if json:
        finite = scores.perplexity if scores.perplexity < float("inf") else None
        data_json({"perplexity": finite, **asdict(scores), "window": window})
        return
    data(
        f"perplexity {scores.perplexity:.2f}   {scores.nats:.4f} nats per token, "
        f"{scores.bits_per_byte:.4f} bits per byte"
    )
    data(
        f"{scores.tokens:,} tokens scored in windows of {window}; the text has {scores.bytes:,} "
        "bytes"
    )
