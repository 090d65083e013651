"""How far an alignment of words agrees with people's: alignment error rate."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from headway.errors import DataError
from headway.files import read_bytes

Link = tuple[int, int]
"""Place of a source word and of a target word, both from 0."""

FILE_LIMIT = 256 * 2**20
_LINK = re.compile(r"(\d{1,6})([-?p])(\d{1,6})")


@dataclass(frozen=True)
class Gold:
    """What people linked in one pair of sentences: what is sure, and what is possible, in which all
    that is sure is contained."""

    sure: frozenset[Link]
    possible: frozenset[Link]


def read_gold(path: Path, *, first: int = 0) -> list[Gold]:
    """Alignments as they are usually kept: a line a pair, "0-0 1-2 1?3", source before target, "-"
    sure, "?" or "p" possible. first: the number of a sentence's first word, 0 or 1.

    DataError with file and line for anything else.
    """
    try:
        text = read_bytes(path, FILE_LIMIT).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError("not a text in UTF-8", str(path)) from error
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return [
        parse_gold(line, first=first, where=f"{path}:{number}")
        for number, line in enumerate(lines, 1)
    ]


def parse_gold(line: str, *, first: int = 0, where: str | None = None) -> Gold:
    """One line of `read_gold`."""
    links: dict[str, set[Link]] = {"-": set(), "?": set()}
    for word in line.split():
        found = _LINK.fullmatch(word)
        if found is None:
            raise DataError(
                f"{word[:40]!r} is no link of words", where, "write 0-2 (sure), 0?2 or 0p2"
            )
        source, target = int(found[1]) - first, int(found[3]) - first
        if source < 0 or target < 0:
            raise DataError(f"{word!r}: words are counted from {first} here", where)
        links["-" if found[2] == "-" else "?"].add((source, target))
    return Gold(frozenset(links["-"]), frozenset(links["-"] | links["?"]))


@dataclass(frozen=True)
class LinkScores:
    """error_rate: 1 - (|A n S| + |A n P|) / (|A| + |S|), 0 is best. precision: |A n P| / |A|;
    recall: |A n S| / |S|."""

    error_rate: float
    precision: float
    recall: float


def score_links(found: Sequence[AbstractSet[Link]], gold: Sequence[Gold]) -> LinkScores:
    """A the links found, S the sure and P the possible ones, each counted over all pairs of
    sentences. Och and Ney 2003, equation 20. Where nothing was found and nothing is sure the error
    rate is 0. ValueError unless there are as many of both."""
    pairs = list(zip(found, gold, strict=True))
    a, s = sum(len(own) for own in found), sum(len(own.sure) for own in gold)
    sure = _count(own & theirs.sure for own, theirs in pairs)
    possible = _count(own & theirs.possible for own, theirs in pairs)
    return LinkScores(
        error_rate=1 - (sure + possible) / (a + s) if a + s else 0.0,
        precision=possible / a if a else 1.0,
        recall=sure / s if s else 1.0,
    )


def _count(sets: Iterable[AbstractSet[Link]]) -> int:
    return sum(map(len, sets))
