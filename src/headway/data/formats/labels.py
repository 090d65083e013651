"""Texts with a label each: tables with a header (.tsv, .csv) and .jsonl, plain or .gz."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.data.formats.lines import place, read_lines
from headway.errors import DataError, UsageError

ENDINGS = (".tsv", ".tab", ".csv", ".jsonl")
Row = tuple[int, dict[str, object]]  # line, and its values by name


@dataclass(frozen=True)
class LabelledText:
    """A text and what it is; `where` is the file and line that it stands in."""

    text: str
    label: str
    where: str


def read_labelled(
    paths: Sequence[Path], text: str = "text", label: str = "label"
) -> Iterator[LabelledText]:
    """The labelled texts of files in order, blanks around them removed. Empty lines are left out.

    text, label: the names of their columns, which the first line of a table tells, or of their keys
    in the objects of a .jsonl file. Tabs end the cells of a .tsv file, and quotes are letters
    there; those of a .csv file may be quoted, and then hold commas and ends of line.

    UsageError for a missing file, an ending that is none of these, or a column that is not there;
    DataError with file and line for a row with more or fewer cells than the header, for an empty
    text or label, and for what is no JSON.
    """
    for path in paths:
        for number, row in _rows(path, (text, label)):
            where = place(path, number)
            values = [_plain(row.get(name)) for name in (text, label)]
            for name, value in zip((text, label), values, strict=True):
                if value is None or not value:
                    what = "no text or number" if value is None else "empty"
                    raise DataError(f"{name!r} is {what}", where, "fill it in, or delete the row")
            yield LabelledText(str(values[0]), str(values[1]), where)


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
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) else None


def _rows(path: Path, names: tuple[str, str]) -> Iterator[Row]:
    check_labelled(path)
    if _ending(path) == ".jsonl":
        return _objects(path)
    return _table(path, _commas(path) if _ending(path) == ".csv" else _tabs(path), names)


def _table(
    path: Path, rows: Iterator[tuple[int, list[str]]], names: tuple[str, str]
) -> Iterator[Row]:
    header: list[str] | None = None
    for number, cells in rows:
        if header is None:
            header = [cell.strip() for cell in cells]
            _check_header(path, header, names)
        elif len(cells) != len(header):
            raise DataError(
                f"the row has {len(cells)} cells, the first line {len(header)}", place(path, number)
            )
        else:
            yield number, dict(zip(header, cells, strict=True))


def _check_header(path: Path, header: list[str], names: tuple[str, str]) -> None:
    for name, flag in zip(names, ("text", "label"), strict=True):
        if header.count(name) != 1:
            many = "no column" if name not in header else "more than one column"
            raise UsageError(
                f"{many} {name!r} in the first line, which holds {', '.join(header)[:200]}",
                place(path, 1),
                f"--data.{flag} NAME says which holds the {flag}",
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
