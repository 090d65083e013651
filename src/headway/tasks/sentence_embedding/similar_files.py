"""Reads pairs of similar texts, with or without a similarity score, from tables and .jsonl."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.data.bad_rows import NONE_LEFT_OUT, BadRows
from headway.data.rows import Row, parsed_number, read_rows


@dataclass(frozen=True)
class SimilarTexts:
    """A pair of texts and its similarity score; `where` is the file and line.

    score: None if the file has no scores; then the two texts count as similar.
    """

    first: str
    second: str
    score: float | None
    where: str


def read_similar(
    paths: Sequence[Path],
    first: str = "first",
    second: str = "second",
    score: str = "score",
    bad_rows: BadRows = NONE_LEFT_OUT,
) -> Iterator[SimilarTexts]:
    """Yield the pairs of .tsv, .csv and .jsonl files in order, stripped of surrounding whitespace.

    first, second, score: names of columns, or of keys in the objects of a .jsonl file. Scores are
    optional. Raises UsageError for a missing file or column; DataError with file and line for an
    empty text, a score that is not a number, or a malformed row.
    """
    columns = {first: "--data.first", second: "--data.second"}

    def similar(row: Row) -> SimilarTexts:
        number = None
        if score in row.values:
            number = parsed_number(row.values[score], "the score", row.where)
        return SimilarTexts(row.text(first), row.text(second), number, row.where)

    for path in paths:
        yield from bad_rows.parsed(read_rows(path, columns, bad_rows), similar)
