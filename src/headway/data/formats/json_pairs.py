"""Reads sentence pairs from .jsonl files: one JSON object per line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headway.data.formats.lines import location
from headway.data.formats.parallel import InlineTags, Pair, PairFiles
from headway.data.formats.tables import read_rows
from headway.errors import DataError

NESTED = "translation"
"""The key of an object by language, {"translation": {"en": ..., "de": ...}}."""


def json_files(
    path: Path, source: str | None, target: str | None, inline_tags: InlineTags
) -> PairFiles:
    """Return the corpus of a .jsonl file. source, target: the keys; by default these two words."""
    return PairFiles(
        paths=(path,), source=source or "source", target=target or "target", format="jsonl"
    )


def read_json_pairs(corpus: PairFiles) -> Iterator[Pair]:
    """Stream the pairs of objects like {"en": "...", "de": "..."}, or the same inside
    {"translation": {...}}.

    Raises DataError with file and line for invalid JSON, and for an object without the two texts.
    """
    (path,) = corpus.paths
    for number, row in read_rows(path, {}):
        inner = row.get(NESTED)
        values = inner if isinstance(inner, dict) and corpus.source not in row else row
        sides = [_text(values, name, location(path, number)) for name in _names(corpus)]
        yield Pair(sides[0].strip(), sides[1].strip(), number)


def _names(corpus: PairFiles) -> tuple[str, str]:
    return corpus.source, corpus.target


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
