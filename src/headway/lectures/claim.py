"""The interface of the claims of the lectures, which `headway lecture` runs."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from headway.inspection.work import Report, unreported


@dataclass(frozen=True, kw_only=True)
class Result(ABC):
    """The measurements of a claim, with a verdict."""

    @property
    @abstractmethod
    def verdict(self) -> str:
        """One sentence computed from the numbers: "holds: ..." or "does not hold: ...", with the
        numbers that decide it."""

    def as_dict(self) -> dict[str, object]:
        """The settings and the rows of the table, as plain JSON values."""
        return asdict(self)

    @abstractmethod
    def markdown(self) -> str:
        """The rows as a Markdown table, with a line on how they were measured."""


class Claim(Protocol):
    """A claim of the lectures as an experiment; each is a module.

    `measure` needs no argument: its defaults are the settings of the published numbers. It reports
    its progress.
    `plot` draws the result of `measure` to an SVG file.
    """

    TITLE: str
    CLAIM: str

    def measure(self, *, report: Report = unreported) -> Result: ...

    def plot(self, result: Any, path: Path) -> None: ...


def table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; floats have three significant digits."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def judged(holds: bool, figures: str) -> str:
    """The sentence of a verdict."""
    return f"{'holds' if holds else 'does not hold'}: {figures}"


def _cell(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
