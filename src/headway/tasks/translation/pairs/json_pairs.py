"""Reads sentence pairs from .jsonl files: one JSON object per line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headway.base.errors import DataError, UsageError
from headway.data.bad_rows import BadRows
from headway.data.formats.lines import location
from headway.data.formats.tables import Row, read_rows
from headway.tasks.translation.pair_files import (
    InlineTags,
    Pair,
    PairFiles,
    names_of,
    with_markers,
)

NESTED = "translation"
"""The key of an object by language, {"translation": {"en": ..., "de": ...}}."""


def json_files(
    path: Path, source: str | None, target: str | None, inline_tags: InlineTags
) -> PairFiles:
    """Return the corpus of a .jsonl file.

    source, target: the keys; by default these two words. A source of several keys has them
    separated by commas. Raises UsageError for a key that is named twice.
    """
    names = [*names_of(source or "source", ()), target or "target"]
    if len(set(names)) < len(names):
        raise UsageError(
            f"the keys of source and target must differ, but in {source!r} and {target!r} one is "
            "named twice",
            str(path),
            "name each key once",
        )
    return PairFiles(
        paths=(path,), source=source or "source", target=target or "target", format="jsonl"
    )


def read_json_pairs(corpus: PairFiles, bad_rows: BadRows) -> Iterator[Pair]:
    """Stream the pairs of objects like {"en": "...", "de": "..."}, or the same inside
    {"translation": {...}}.

    bad_rows: the policy for records that are no pair. Raises DataError with file and line for
    invalid JSON, and for an object without the two texts.
    """
    (path,) = corpus.paths

    def pair(row: Row) -> Pair:
        number, record = row
        inner = record.get(NESTED)
        values = inner if isinstance(inner, dict) and corpus.source not in record else record
        names, where = names_of(corpus.source, values), location(path, number)
        source = with_markers(names, [_text(values, name, where) for name in names])
        return Pair(source, _text(values, corpus.target, where).strip(), number)

    yield from bad_rows.parsed(read_rows(path, {}, bad_rows), pair)


def _text(values: dict[str, Any], name: str, where: str) -> str:
    value = values.get(name)
    if not isinstance(value, str):
        problem = "is not a text" if name in values else "is missing"
        keys = ", ".join(repr(key)[:30] for key in list(values)[:8])
        raise DataError(
            f"the object must have a text under {name!r}, but it {problem}; its keys are {keys}",
            where,
            "name the two keys with --source and --target, or correct the line",
        )
    return value
