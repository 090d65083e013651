"""Rows by name: tables with a header (.tsv, .csv) and .jsonl, plain or .gz."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from headway.data.formats.labels import Row, _commas, _ending, _objects, _tabs, check_labelled
from headway.data.formats.lines import place
from headway.errors import DataError, UsageError


def read_rows(path: Path, columns: Mapping[str, str]) -> Iterator[Row]:
    """(line, values by name) of every row. Cells, quotes and lines as `read_labelled` has them.

    columns: names that the first line of a table must hold, each with the flag that says it; in a
    .jsonl file the objects need not hold them. UsageError and DataError as `read_labelled`'s.
    """
    check_labelled(path)
    if _ending(path) == ".jsonl":
        yield from _objects(path)
        return
    header: list[str] | None = None
    for number, cells in _commas(path) if _ending(path) == ".csv" else _tabs(path):
        if header is None:
            header = [cell.strip() for cell in cells]
            _check_header(header, columns, place(path, number))
        elif len(cells) != len(header):
            what = f"the row has {len(cells)} cells, the first line {len(header)}"
            raise DataError(what, place(path, number))
        else:
            yield number, dict(zip(header, cells, strict=True))


def _check_header(header: list[str], columns: Mapping[str, str], where: str) -> None:
    for name, flag in columns.items():
        if header.count(name) != 1:
            many = "no column" if name not in header else "more than one column"
            raise UsageError(
                f"{many} {name!r} in the first line, which holds {', '.join(header)[:200]}",
                where,
                f"{flag} NAME says which it is",
            )


def text_of(row: Mapping[str, object], name: str, where: str) -> str:
    """What stands there, blanks around it removed. DataError if it is empty or no text."""
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        what = "empty" if isinstance(value, str) else "no text"
        raise DataError(f"{name!r} is {what}", where, "fill it in, or delete the row")
    return value.strip()
