"""Texts with a label each: tables with a header (.tsv, .csv) and .jsonl, plain or .gz."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headway.data.formats.lines import check_file, ending, place, read_lines
from headway.data.formats.tables import ENDINGS, number_of, read_rows
from headway.errors import DataError, UsageError

LINES = ".txt"


@dataclass(frozen=True)
class Columns:
    """What the columns of a table are called, or the keys of an object.

    second: of a second text, None where there is one text only. label: None where nothing says what
    the texts are.
    """

    text: str = "text"
    label: str | None = "label"
    second: str | None = None

    @property
    def named(self) -> dict[str, str]:
        """Of those there are: what stands in it, and its name."""
        every = {"text": self.text, "second": self.second, "label": self.label}
        return {what: name for what, name in every.items() if name is not None}


@dataclass(frozen=True)
class LabelledText:
    """A text, or two, and what it is ("" where nothing says); `where` is the file and line."""

    text: str
    label: str
    where: str
    second: str | None = None

    @property
    def texts(self) -> str | tuple[str, str]:
        """What is to be read: one text, or two."""
        return self.text if self.second is None else (self.text, self.second)

    @property
    def number(self) -> float:
        """The label as a number. DataError with file and line if it is none: `number_of`."""
        return number_of(self.label, "the label", self.where)


COLUMNS = Columns()


def read_labelled(paths: Sequence[Path], columns: Columns = COLUMNS) -> Iterator[LabelledText]:
    """The labelled texts of files in order, blanks around them removed. Empty lines are left out.

    columns: of a table, whose first line tells them, or keys of the objects of a .jsonl file; both
    as `read_rows` reads them, and refuses them. DataError with file and line for an empty text or
    label too.
    """
    for path in paths:
        flags = {name: f"--data.{what}" for what, name in columns.named.items()}
        for number, row in read_rows(path, flags):
            where, found = place(path, number), {}
            for what, name in columns.named.items():
                value = _plain(row.get(name))
                if not value:
                    fault = "no text or number" if value is None else "empty"
                    raise DataError(f"{name!r} is {fault}", where, "fill it in, or delete the row")
                found[what] = value
            yield LabelledText(found["text"], found.get("label", ""), where, found.get("second"))


def check_unlabelled(path: Path) -> None:
    """UsageError unless the file is there and has an ending that `read_unlabelled` reads."""
    check_file(path, (LINES, *ENDINGS), "texts")


def read_unlabelled(paths: Sequence[Path], columns: Columns = COLUMNS) -> Iterator[LabelledText]:
    """The texts of files, whatever they are: tables as `read_labelled` reads them, their labels not
    looked at; of .txt files every line that is not empty.

    UsageError for lines where pairs of texts are read.
    """
    for path in paths:
        check_unlabelled(path)
        if ending(path) != LINES:
            yield from read_labelled([path], replace(columns, label=None))
            continue
        if columns.second is not None:
            raise UsageError("a line is one text, and pairs are read", str(path), "a table")
        for number, line in enumerate(read_lines(path), start=1):
            if line.strip():
                yield LabelledText(line.strip(), "", place(path, number))


def _plain(value: object) -> str | None:
    """A number is its digits: labels are often 0 and 1."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) else None
