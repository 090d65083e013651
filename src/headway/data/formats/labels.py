"""Texts with a label each: tables with a header (.tsv, .csv) and .jsonl, plain or .gz."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.data.formats.lines import place, read_lines
from headway.errors import DataError, UsageError

_SAID = {"text": "text", "second": "second text", "label": "label"}
ENDINGS = (".tsv", ".tab", ".csv", ".jsonl")
Row = tuple[int, dict[str, object]]  # line, and its values by name


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
        """The label as a number. DataError with file and line if it is none."""
        try:
            value = float(self.label)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise DataError(f"the label {self.label[:60]!r} is no number", self.where)
        return value


COLUMNS = Columns()


def read_labelled(paths: Sequence[Path], columns: Columns = COLUMNS) -> Iterator[LabelledText]:
    """The labelled texts of files in order, blanks around them removed. Empty lines are left out.

    columns: of a table, whose first line tells them, or keys of the objects of a .jsonl file. Tabs
    end the cells of a .tsv file, and quotes are letters there; those of a .csv file may be quoted,
    and then hold commas and ends of line.

    UsageError for a missing file, an ending that is none of these, or a column that is not there;
    DataError with file and line for a row with more or fewer cells than the header, for an empty
    text or label, and for what is no JSON.
    """
    for path in paths:
        for number, row in _rows(path, columns):
            where, found = place(path, number), {}
            for what, name in columns.named.items():
                value = _plain(row.get(name))
                if not value:
                    fault = "no text or number" if value is None else "empty"
                    raise DataError(f"{name!r} is {fault}", where, "fill it in, or delete the row")
                found[what] = value
            yield LabelledText(found["text"], found.get("label", ""), where, found.get("second"))


def check_labelled(path: Path) -> None:
    """UsageError unless the file is there and has one of the endings."""
    if not path.is_file():
        what = "a folder, not a file" if path.is_dir() else "no such file"
        raise UsageError(what, str(path), f"a file that ends in {', '.join(ENDINGS)}")
    if _ending(path) not in ENDINGS:
        raise UsageError(
            f"{path.suffix or 'no ending'}: labelled texts stand in {', '.join(ENDINGS)} "
            "(or the same with .gz)",
            str(path),
        )


def _ending(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _plain(value: object) -> str | None:
    """A number is its digits: labels are often 0 and 1."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) else None


def _rows(path: Path, columns: Columns) -> Iterator[Row]:
    check_labelled(path)
    if _ending(path) == ".jsonl":
        return _objects(path)
    return _table(path, _commas(path) if _ending(path) == ".csv" else _tabs(path), columns)


def _table(path: Path, rows: Iterator[tuple[int, list[str]]], columns: Columns) -> Iterator[Row]:
    header: list[str] | None = None
    for number, cells in rows:
        if header is None:
            header = [cell.strip() for cell in cells]
            _check_header(path, header, columns)
        elif len(cells) != len(header):
            raise DataError(
                f"the row has {len(cells)} cells, the first line {len(header)}", place(path, number)
            )
        else:
            yield number, dict(zip(header, cells, strict=True))


def _check_header(path: Path, header: list[str], columns: Columns) -> None:
    for what, name in columns.named.items():
        if header.count(name) != 1:
            many = "no column" if name not in header else "more than one column"
            raise UsageError(
                f"{many} {name!r} in the first line, which holds {', '.join(header)[:200]}",
                place(path, 1),
                f"--data.{what} NAME says which holds the {_SAID[what]}",
            )


def _tabs(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            yield number, line.split("\t")


def _commas(path: Path) -> Iterator[tuple[int, list[str]]]:
    """A row's number is that of its last line."""
    reader = csv.reader((line + "\n" for line in read_lines(path)), strict=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise DataError(f"not CSV: {error}", place(path, reader.line_num)) from error


def _objects(path: Path) -> Iterator[Row]:
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"not JSON: {error}", place(path, number)) from error
        if not isinstance(row, dict):
            raise DataError("not a JSON object", place(path, number))
        yield number, row
