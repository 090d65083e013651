"""Word alignments of sentence pairs: read in step with them, spread over their tokens, and
compared with those of human annotators (alignment error rate)."""

import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

import torch

from headway.base.errors import DataError
from headway.base.shapes import Float, Tensor
from headway.data.formats.lines import location, read_lines
from headway.tasks.translation.pair_files import Pair
from headway.text import SentenceTokenizer


def with_links(pairs: Iterable[Pair], path: Path) -> Iterator[Pair]:
    """Yield the pairs with the links of the file of alignments, which has one line per pair.

    Possible links count as links. Raises DataError, with file and line, for a file with more or
    fewer lines than pairs, and for a link to a word that its sentence does not have.
    """
    count = 0
    for count, (pair, line) in enumerate(zip_longest(pairs, read_lines(path)), start=1):
        where = location(path, count)
        if pair is None:
            raise DataError(
                f"there are {count - 1:,} training pairs, but the alignments have more lines",
                where,
                "one line per pair, in the order of the pairs",
            )
        if line is None:
            raise DataError(
                f"the alignments end after {count - 1:,} lines, but there are more training pairs",
                where,
                "one line per pair, in the order of the pairs; an empty line for a pair without "
                "links",
            )
        yield replace(pair, links=_links(pair, line, where))


def _links(pair: Pair, line: str, where: str) -> tuple[tuple[int, int], ...]:
    """Parse the links of a pair. Raises DataError for one to a word that does not exist."""
    links = sorted(parse_gold(line, where=where).possible)
    for side, text in enumerate((pair.source, pair.target)):
        words = len(split_words(text))
        for link in links:
            if link[side] >= words:
                raise DataError(
                    f"the link {link[0]}-{link[1]} is to {('source', 'target')[side]} word "
                    f"{link[side]}, but the sentence in line {pair.line} has {words:,} words, "
                    "counted from 0",
                    where,
                    "a link is the position of the source word, a hyphen, and that of the target "
                    "word; words are what is between spaces",
                )
    return tuple(links)


def split_words(text: str) -> list[str]:
    """Return the words that alignments of `text` count: what is between spaces."""
    return [word for word in text.split(" ") if word]


def word_of_each_token(tokenizer: SentenceTokenizer, ids: Sequence[int]) -> list[int | None]:
    """Return, for each token, the number of its word in `split_words` of the text, from 0.

    None for special tokens, such as a language tag, and for spaces without a word.
    """
    special = set(tokenizer.special_ids.values())
    numbers: list[int | None] = [None] * len(ids)
    count = 0
    for word, positions in tokenizer.words(ids):
        if ids[positions[0]] in special or not word.strip(" "):
            continue
        for position in positions:
            numbers[position] = count
        count += 1
    return numbers


def token_alignment(
    links: Iterable[tuple[int, int]],
    source_words: Sequence[int | None],
    target_words: Sequence[int | None],
) -> Float[Tensor, "T S"]:
    """Return G[t, s], the gold fraction of the attention of target token t on source token s.

        G[t, s] = [word(s) is linked to word(t)] / number of tokens of all words linked to word(t)

    Each row sums to 1, or is 0 if the word of the target token has no link. Garg et al. 2019.
    links: positions of a source word and of a target word. source_words, target_words:
    the word of each token (`word_of_each_token`).
    """
    linked = set(links)
    gold = torch.tensor(
        [[float((s, t) in linked) for s in source_words] for t in target_words]
    ).view(len(target_words), len(source_words))
    return gold / gold.sum(-1, keepdim=True).clamp_min(1)


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
