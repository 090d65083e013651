"""Alignment error rate: agreement of word alignments with those of human annotators."""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from headway.base.errors import DataError
from headway.data.formats.lines import location, read_lines

Link = tuple[int, int]
"""Positions of a source word and of a target word, both counted from 0."""

_LINK = re.compile(r"(\d{1,6})([-?p])(\d{1,6})")


@dataclass(frozen=True)
class Gold:
    """The links that annotators made in one sentence pair.

    sure: unambiguous links. possible: all links, including the sure ones.
    """

    sure: frozenset[Link]
    possible: frozenset[Link]


def read_gold(path: Path, *, first: int = 0) -> list[Gold]:
    """Read gold alignments in the usual format, one sentence pair per line: "0-0 1-2 1?3".

    A link is the source position, "-" (sure) or "?" or "p" (possible), and the target position.
    first: the number of a sentence's first word, 0 or 1. Raises DataError with file and line for
    any other content, and what `read_lines` raises.
    """
    return [
        parse_gold(line, first=first, where=location(path, number))
        for number, line in enumerate(read_lines(path), 1)
    ]


def parse_gold(line: str, *, first: int = 0, where: str | None = None) -> Gold:
    """Parse one line of the format of `read_gold`. where: location for the error, file and line."""
    links: dict[str, set[Link]] = {"-": set(), "?": set()}
    for word in line.split():
        link = _LINK.fullmatch(word)
        if link is None:
            raise DataError(
                f"{word[:40]!r} is no link between two words",
                where,
                "write 0-2 for a sure link, 0?2 or 0p2 for a possible one",
            )
        source, target = int(link[1]) - first, int(link[3]) - first
        if source < 0 or target < 0:
            raise DataError(
                f"{word!r} is a link to word {first - 1}, but words are counted from {first}",
                where,
                f"number the words from {first}, or set the number of the first word",
            )
        links["-" if link[2] == "-" else "?"].add((source, target))
    return Gold(frozenset(links["-"]), frozenset(links["-"] | links["?"]))


@dataclass(frozen=True)
class LinkScores:
    """Scores of the predicted links A against the sure links S and the possible links P.

    error_rate: alignment error rate, 1 - (|A n S| + |A n P|) / (|A| + |S|); 0 is best. precision:
    |A n P| / |A|. recall: |A n S| / |S|.
    """

    error_rate: float
    precision: float
    recall: float


def score_links(predicted: Sequence[AbstractSet[Link]], gold: Sequence[Gold]) -> LinkScores:
    """Score the predicted links of all sentence pairs together. Och and Ney 2003, equation 20.

    The error rate is 0 if there are neither predicted nor sure links. Raises ValueError if the two
    lists differ in length.
    """
    pairs = list(zip(predicted, gold, strict=True))
    a, s = sum(map(len, predicted)), sum(len(links.sure) for links in gold)
    sure = sum(len(links & true.sure) for links, true in pairs)
    possible = sum(len(links & true.possible) for links, true in pairs)
    return LinkScores(
        error_rate=1 - (sure + possible) / (a + s) if a + s else 0.0,
        precision=possible / a if a else 1.0,
        recall=sure / s if s else 1.0,
    )
