"""Texts that a person names: words of the command line, files of them, standard input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.cli.console import talk
from headway.cli.inputs import standard_input
from headway.errors import DataError, UsageError

PLAIN = (".txt", ".md")
ARRAYS = ".npz"
BY_FILE = "file"  # a label: in which of several plain files a text stands


@dataclass(frozen=True)
class Texts:
    """labels: what each text is, None where nobody asked."""

    texts: list[str]
    labels: list[str] | None


def gather(things: Sequence[str], column: str = "text", label: str | None = None) -> Texts:
    """What `things` are: a file's texts where one of that name is there, else a text itself.

    A plain file holds one text a line, and with the label "file" these are of its name; tables and
    .jsonl hold them in `column`, and what they are in `label`. Blank lines are left out. Without
    things standard input is read. UsageError for what looks like a file and is not there, DataError
    where there is no text at all.
    """
    from headway.data.formats import TABLES, ending

    found: list[tuple[str, str | None]] = []
    for thing in things:
        path = Path(thing)
        if _is_file(thing) and ending(path) == ARRAYS:
            raise UsageError(
                "arrays, not texts", thing, "headway similar RUN QUERY searches vectors"
            )
        if _is_file(thing):
            rows = _rows(path, column, label)
            talk.print(f"read      {path}: {len(rows):,} texts", markup=False)
            found += rows
        elif ending(path) in (*TABLES, *PLAIN) and not any(c.isspace() for c in thing):
            raise UsageError("no such file", thing, "check the path")
        else:
            found.append((thing, None))
    if not things:
        found = [(line.strip(), None) for line in standard_input("text") if line.strip()]
    if not found:
        raise DataError("there is no text", ", ".join(things) or "standard input")
    if label is not None and any(each is None for _, each in found):
        raise UsageError(
            f"--label {label}: not all texts have one",
            hint="labels stand in tables and .jsonl; --label file takes the names of files",
        )
    labels = None if label is None else [str(each) for _, each in found]
    return Texts([text for text, _ in found], labels)


def _is_file(thing: str) -> bool:
    try:
        return Path(thing).is_file()
    except (OSError, ValueError):  # a long text is no name
        return False


def _rows(path: Path, column: str, label: str | None) -> list[tuple[str, str | None]]:
    """The texts of one file."""
    from headway.data.formats import TABLES, ending, read_lines, read_rows, text_of

    if ending(path) not in TABLES:
        kind = path.name if label == BY_FILE else None
        return [(line.strip(), kind) for line in read_lines(path) if line.strip()]
    columns = {column: "--column", **({} if label is None else {label: "--label"})}
    found: list[tuple[str, str | None]] = []
    for number, row in read_rows(path, columns):
        where = f"{path}:{number}"
        kind = None
        if label is not None:
            value = row.get(label)
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise DataError(f"{label!r} is no text or number", where, "fill it in")
            kind = str(value).strip()
        found.append((text_of(row, column, where), kind))
    return found
