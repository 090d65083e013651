"""Inputs of a classifier, read from lines of standard input and from tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.base.errors import DataError
from headway.base.settings import setting
from headway.tasks.classification.bundle import ClassifierBundle, ClassInput
from headway.tasks.classification.data import columns_of
from headway.tasks.classification.label_files import Columns, read_labelled


@dataclass(frozen=True, kw_only=True)
class ClassColumns:
    """Names of the columns of a table of inputs."""

    text: str | None = setting(
        None, "Column of --file that holds the text; if unset, as in training."
    )
    second: str | None = setting(
        None, "Column of --file that holds the second text; if unset, as in training."
    )


def read_line(bundle: ClassifierBundle, line: str, where: str) -> ClassInput:
    """Parse a line of standard input.

    A model of text pairs reads two texts separated by a tab. A model that does not declare whether
    it reads pairs reads two texts if the line has a tab. Raises DataError for a line that has not
    exactly one tab where two texts are expected.
    """
    first, tab, second = line.partition("\t")
    reads_pairs = bundle.reader.pairs
    if not (reads_pairs or (reads_pairs is None and tab)):
        return ClassInput(text=line)
    if not tab or "\t" in second:
        raise DataError("expected two texts separated by one tab", where)
    return ClassInput(text=first, second=second)


def read_table(
    bundle: ClassifierBundle, path: Path, config: Any, columns: ClassColumns
) -> Iterator[ClassInput]:
    """Read the inputs of a table, whose columns are named as in training where unset."""
    names = columns_of(bundle, path, config)
    second = columns.second or names.second
    for text in read_labelled([path], Columns(columns.text or names.text, None, second)):
        yield ClassInput(text=text.text, second=text.second)
