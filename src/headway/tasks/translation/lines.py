"""Texts of several lines, each of which is translated alone, and the translations of the whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.decoding import Hypothesis


@dataclass(frozen=True)
class Translated:
    """A sentence and its translations, best first; their log-probabilities are in nats.

    line: the number of the input. alignment: source and target words, and the attention weights of
    each target word (`inspection.Alignment.as_dict`); None if it was not requested, if the
    translation is empty, or if the text was split.
    """

    line: int
    source: str
    translations: tuple[Hypothesis, ...]
    alignment: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Line:
    """A line of a text. parts: what is translated of it: the line, its sentences if it is too long,
    or nothing of a blank line. start, end: the white space around them, with the line break."""

    parts: Sequence[str]
    start: str = ""
    end: str = ""


def _joined(parts: Sequence[Hypothesis], text: str) -> Hypothesis:
    """Return the translation of a text that was split. Its score is the mean of its parts'."""
    return Hypothesis(
        tuple(token for part in parts for token in part.tokens),
        sum(part.log_probability for part in parts),
        sum(part.score for part in parts) / len(parts),
        all(part.finished for part in parts),
        text,
    )


def ranked_line(line: Line, lists: Iterator[list[Hypothesis]]) -> tuple[Hypothesis, ...]:
    """Return the translations of a line, best first; one for a line that was split, none for a
    blank one."""
    of_parts = [next(lists) for _ in line.parts]
    if len(of_parts) == 1:
        return tuple(of_parts[0])
    best = [translations[0] for translations in of_parts]
    return (_joined(best, " ".join(part.text for part in best)),) if best else ()


def text_of_lines(
    lines: Sequence[Line], of_lines: Sequence[tuple[Hypothesis, ...]]
) -> tuple[Hypothesis, ...]:
    """Return the translations of a text from those of its lines.

    The n-th one has the n-th translation of each line, or its last one.
    """
    if len(lines) == 1:
        return of_lines[0]
    outputs = []
    for rank in range(max(map(len, of_lines))):
        chosen = [ranked[min(rank, len(ranked) - 1)] if ranked else None for ranked in of_lines]
        written = [
            line.start + ("" if best is None else best.text) + line.end
            for line, best in zip(lines, chosen, strict=True)
        ]
        best_of_lines = [best for best in chosen if best is not None]
        outputs.append(_joined(best_of_lines, "".join(written)))
    return tuple(outputs)
