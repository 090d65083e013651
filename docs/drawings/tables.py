"""The tables of a Markdown page, so that charts and sentences use the numbers that they have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Table:
    """A table. columns: their names. rows: the cells of each row, without Markdown."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def row(self, first: str) -> dict[str, str]:
        """The row whose first cell is `first`, as column -> cell. ValueError if there is none."""
        for row in self.rows:
            if row[0] == first:
                return dict(zip(self.columns, row, strict=True))
        raise ValueError(f"no row of the table with {', '.join(self.columns)} is {first!r}")


def plain(cell: str) -> str:
    """A cell as text: without emphasis, code quotes, daggers and the targets of links."""
    return re.sub(r"[*`†]", "", re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", cell)).strip()


def tables(text: str) -> Iterator[Table]:
    """Every table of a Markdown text."""
    for block in re.findall(r"(?:^\|.*\|$\n?)+", text, re.MULTILINE):
        lines = [
            [plain(cell) for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]
            for line in block.strip().split("\n")
        ]
        yield Table(lines[0], lines[2:])


def table(page: str, column: str) -> Table:
    """The first table with a column of this name in a page below docs/. ValueError without one."""
    for one in tables((DOCS / page).read_text(encoding="utf-8")):
        if column in one.columns:
            return one
    raise ValueError(f"docs/{page} has no table with a column {column!r}")
