"""Pairs of texts that are alike, or of which a number says how much: tables and .jsonl."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.data.formats.lines import place
from headway.data.formats.tables import number_of, read_rows, text_of


@dataclass(frozen=True)
class SimilarTexts:
    """Two texts and how alike they are: None where the file does not say, and they are.

    `where` is the file and line that they stand in.
    """

    first: str
    second: str
    score: float | None
    where: str


def read_similar(
    paths: Sequence[Path], first: str = "first", second: str = "second", score: str = "score"
) -> Iterator[SimilarTexts]:
    """The pairs of .tsv, .csv and .jsonl files in order, blanks around texts removed.

    first, second, score: names of columns, or of keys in the objects of a .jsonl file; a file need
    have no scores. UsageError for a missing file or column; DataError with file and line for an
    empty text, for a score that is no number, and for what is no row.
    """
    columns = {first: "--data.first", second: "--data.second"}
    for path in paths:
        for number, row in read_rows(path, columns):
            where = place(path, number)
            texts = text_of(row, first, where), text_of(row, second, where)
            yield SimilarTexts(*texts, _score(row, score, where), where)


def _score(row: dict[str, object], name: str, where: str) -> float | None:
    if name not in row:
        return None
    return number_of(row[name], "the score", where)
