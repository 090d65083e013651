"""Word alignments of training pairs: read in step with them, and spread over their tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import torch

from headway.base.errors import DataError
from headway.base.shapes import Float, Tensor
from headway.data.formats.lines import location, read_lines
from headway.tasks.translation.alignment_error import parse_gold
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
