"""Spans of words from tags in the IOB, IOBES and BILOU schemes: B-person I-person O."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

OUTSIDE = "O"
_TAG = re.compile(r"([BIESLU])-(.+)", re.DOTALL)
_FIRST, _LAST = frozenset("BSU"), frozenset("ELSU")


@dataclass(frozen=True, order=True)
class WordSpan:
    """The span of the words start, start + 1, ... end - 1, and its label."""

    start: int
    end: int
    label: str


def are_span_tags(names: Collection[str]) -> bool:
    """Return whether tags describe spans: all are O or like B-person, and at least one is not
    O."""
    return any(name != OUTSIDE for name in names) and all(
        name == OUTSIDE or _TAG.fullmatch(name) for name in names
    )


def spans_of(tags: Sequence[str]) -> list[WordSpan]:
    """Return the spans of one sentence, by the rules of the CoNLL-2000 evaluation script.

    A span begins at B, and at a tag that does not continue the span before it: after O, or after
    another label. So IOB1 and IOB2 give the same spans, and a predicted span without a B counts. In
    IOBES and BILOU, S and U begin and end a span, E and L end it. Tjong Kim Sang and Buchholz 2000.
    """
    spans: list[WordSpan] = []
    open_span: tuple[int, str] | None = None
    for index, tag in enumerate([*tags, OUTSIDE]):
        match = _TAG.fullmatch(tag)
        kind, label = (match[1], match[2]) if match else (OUTSIDE, "")
        continues = open_span is not None and label == open_span[1] and kind not in _FIRST
        if open_span is not None and not continues:
            spans.append(WordSpan(open_span[0], index, open_span[1]))
            open_span = None
        if match and open_span is None:
            open_span = (index, label)
        if open_span is not None and kind in _LAST:
            spans.append(WordSpan(open_span[0], index + 1, open_span[1]))
            open_span = None
    return spans
