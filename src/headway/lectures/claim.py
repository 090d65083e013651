"""What every claim of the lectures looks like, so that one command can run them all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Result(Protocol):
    """What was measured: a frozen dataclass that can judge itself."""

    @property
    def verdict(self) -> str:
        """One sentence computed from the numbers: "holds: ..." or "does not hold: ...", with the
        figures that decide it."""
        ...

    def as_dict(self) -> dict[str, Any]:
        """Settings and rows, as plain JSON values."""
        ...

    def markdown(self) -> str:
        """The rows as a table, with a line on how they were measured."""
        ...


@runtime_checkable
class Claim(Protocol):
    """One sentence of the lectures as an experiment; a module is one.

    `measure` needs no argument: its defaults are the settings of the published numbers.
    `picture` draws what `measure` returned, into an SVG file.
    """

    TITLE: str
    CLAIM: str

    def measure(self) -> Result: ...

    def picture(self, result: Any, path: Path) -> None: ...


def table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table. A float is written with three significant digits."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def judged(holds: bool, figures: str) -> str:
    """The verdict's sentence."""
    return f"{'holds' if holds else 'does not hold'}: {figures}"


def _cell(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
