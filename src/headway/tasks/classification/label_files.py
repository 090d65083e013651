"""Reads labelled texts from tables with a header (.tsv, .csv) and from records (.jsonl, .json,
.parquet), plain or .gz."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from headway.base.errors import UsageError
from headway.data.bad_rows import NONE_LEFT_OUT, BadRows
from headway.data.formats.lines import check_file, ending, location, read_lines
from headway.data.rows import ENDINGS, Row, parsed_number, read_rows

LINES = ".txt"


@dataclass(frozen=True)
class Columns:
    """Names of the columns of a table, or of the keys in a .jsonl file.

    text: column of the text. second: column of the second text of a pair, or None for single texts.
    label: column of the label, or None for unlabelled texts.
    """

    text: str = "text"
    label: str | None = "label"
    second: str | None = None

    @property
    def named(self) -> dict[str, str]:
        """Map the role of each column in use ("text", "second", "label") to its name."""
        names = {"text": self.text, "second": self.second, "label": self.label}
        return {role: name for role, name in names.items() if name is not None}


@dataclass(frozen=True)
class LabelledText:
    """A text or a pair of texts with its label ("" if unlabelled); `where` is file and line."""

    text: str
    label: str
    where: str
    second: str | None = None

    @property
    def texts(self) -> str | tuple[str, str]:
        """The input of a model: one text, or a pair of texts."""
        return self.text if self.second is None else (self.text, self.second)

    @property
    def number(self) -> float:
        """The label as a number. DataError with file and line if it is none (`parsed_number`)."""
        return parsed_number(self.label, "the label", self.where)


COLUMNS = Columns()


def read_labelled(
    paths: Sequence[Path], columns: Columns = COLUMNS, bad_rows: BadRows = NONE_LEFT_OUT
) -> Iterator[LabelledText]:
    """Yield the labelled texts of files in order, stripped of surrounding whitespace.

    Empty lines are skipped. columns: names in the first line of a table, or keys of records. A
    number or a Boolean may be a label (`plain_text`). Raises what `read_rows` raises, and DataError
    with file and line for an empty text or label.
    """
    flags = {name: f"--data.{role}" for role, name in columns.named.items()}
    for path in paths:
        rows = read_rows(path, flags, bad_rows)
        yield from bad_rows.parsed(rows, partial(_labelled, columns))


def _labelled(columns: Columns, row: Row) -> LabelledText:
    cells = {role: row.label(name) for role, name in columns.named.items()}
    return LabelledText(cells["text"], cells.get("label", ""), row.where, cells.get("second"))


def check_unlabelled(path: Path) -> None:
    """Raise UsageError unless the file exists and has a suffix that `read_unlabelled` reads."""
    check_file(path, (LINES, *ENDINGS), "texts")


def read_unlabelled(paths: Sequence[Path], columns: Columns = COLUMNS) -> Iterator[LabelledText]:
    """Yield the texts of files without labels.

    Tables and .jsonl files are read as by `read_labelled`, and their labels are ignored. Of a .txt
    file, each line that is not empty is one text. Raises UsageError for a .txt file if `columns`
    names a second text.
    """
    for path in paths:
        check_unlabelled(path)
        if ending(path) != LINES:
            yield from read_labelled([path], replace(columns, label=None))
            continue
        if columns.second is not None:
            raise UsageError(
                "the input must be pairs of texts, but each line of this file is one text",
                str(path),
                f"give a table with two text columns ({', '.join(ENDINGS)})",
            )
        for number, line in enumerate(read_lines(path), start=1):
            if line.strip():
                yield LabelledText(line.strip(), "", location(path, number))
