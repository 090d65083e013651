"""Spans of words from tags that say where they begin and go on: B-person I-person O."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

OUTSIDE = "O"
_TAG = re.compile(r"([BIESLU])-(.+)", re.DOTALL)
_FIRST, _LAST = frozenset("BSU"), frozenset("ELSU")


@dataclass(frozen=True, order=True)
class WordSpan:
    """The words start, start + 1, ... end - 1, and what they are together."""

    start: int
    end: int
    label: str


def tags_spans(names: Collection[str]) -> bool:
    """Whether tags mark spans: each is O or like B-person, and one is not O."""
    return any(name != OUTSIDE for name in names) and all(
        name == OUTSIDE or _TAG.fullmatch(name) for name in names
    )


def spans_of(tags: Sequence[str]) -> list[WordSpan]:
    """The spans of one sentence, by the rules of the program that scored CoNLL-2000.

    A span begins at B, and at a word whose tag does not go on with the span before it: after O, or
    after another label. So IOB1 and IOB2 are read alike, and what a model says without a B counts.
    Of IOBES and BILOU, S and U begin and end one, E and L end it. Tjong Kim Sang and Buchholz 2000.
    """
    found: list[WordSpan] = []
    begun: tuple[int, str] | None = None
    for place, tag in enumerate([*tags, OUTSIDE]):
        match = _TAG.fullmatch(tag)
        kind, label = (match[1], match[2]) if match else (OUTSIDE, "")
        goes_on = begun is not None and label == begun[1] and kind not in _FIRST
        if begun is not None and not goes_on:
            found.append(WordSpan(begun[0], place, begun[1]))
            begun = None
        if match and begun is None:
            begun = (place, label)
        if begun is not None and kind in _LAST:
            found.append(WordSpan(begun[0], place + 1, begun[1]))
            begun = None
    return found
