"""Lexical constraints: phrases that an output must contain (Post and Vilar 2018).

Without help, a beam search would drop every prefix that begins a required phrase, because others
are more probable. So the beam is divided into banks by how many tokens of the phrases a prefix has
("dynamic beam allocation"), and each bank keeps its best prefixes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import torch

from headway.base.transfers import upload
from headway.decoding.rule import Logits, PartialOutput, as_ends

T = TypeVar("T")


@dataclass(frozen=True)
class Phrases:
    """A `Rule`: an output may end only when it contains all phrases of its input.

    phrases[i]: sequences of tokens for input i, each of at least one token; they may overlap in the
    output. eos: the token that ends an output, or several. Greedy search and sampling only refuse
    the end; `beam_search` looks for the phrases.
    """

    phrases: Sequence[Sequence[Sequence[int]]]
    eos: int | Sequence[int]
    depends_on_output: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if any(not phrase for phrases in self.phrases for phrase in phrases):
            raise ValueError("a phrase must have at least one token")

    def __call__(self, logits: Logits, written: Sequence[PartialOutput]) -> Logits:
        unfinished = [i for i, w in enumerate(written) if not self.complete(w.item, w.tokens)]
        if not unfinished:
            return logits
        allowed = logits.clone()
        rows = upload(torch.tensor(unfinished), logits.device)
        for end in as_ends(self.eos):
            allowed[rows, end] = -torch.inf
        return allowed

    def matched(self, item: int, tokens: Sequence[int]) -> list[int]:
        """Return for each phrase of an input how many of its tokens an output has.

        All if the phrase is in the output; else as many as the output ends with.
        """
        return [_matched(tuple(phrase), tuple(tokens)) for phrase in self.phrases[item]]

    def complete(self, item: int, tokens: Sequence[int]) -> bool:
        """Return whether an output contains all phrases of its input."""
        lengths = map(len, self.phrases[item])
        return all(
            n == length for n, length in zip(self.matched(item, tokens), lengths, strict=True)
        )

    def progress(self, item: int, tokens: Sequence[int]) -> int:
        """Return how many tokens of the phrases an output has: its bank."""
        return sum(self.matched(item, tokens))

    def wanted(self, item: int, tokens: Sequence[int]) -> list[int]:
        """Return the tokens that begin or continue a phrase; the end if there are none left."""
        wanted = set()
        for phrase, n in zip(self.phrases[item], self.matched(item, tokens), strict=True):
            if n < len(phrase):
                wanted |= {phrase[0], phrase[n]}
        return sorted(wanted) or list(as_ends(self.eos))

    def banks(self, item: int) -> int:
        """Return the number of banks of an input."""
        return 1 + sum(map(len, self.phrases[item]))


@dataclass
class Banks:
    """Divides the places of a beam among prefixes by progress. num_banks: 1 + all tokens."""

    num_banks: int
    width: int

    def keep(self, ranked: Sequence[tuple[int, T]]) -> list[T]:
        """Return `width` of the prefixes, each with its progress, best first; all if fewer.

        Every bank has W / banks places, those with more progress one more if W is no multiple.
        Places that a bank does not need go to the others, those with more progress first.
        """
        queues: list[list[int]] = [[] for _ in range(self.num_banks)]
        for position, (progress, _) in enumerate(ranked):
            queues[progress].append(position)
        share, more = divmod(self.width, self.num_banks)
        kept: list[int] = []
        for bank, queue in enumerate(queues):
            places = share + (bank >= self.num_banks - more)
            kept += queue[:places]
            del queue[:places]
        for queue in reversed(queues):
            free = self.width - len(kept)
            kept += queue[:free]
        return [ranked[position][1] for position in sorted(kept)]


def _matched(phrase: tuple[int, ...], tokens: tuple[int, ...]) -> int:
    length = len(phrase)
    if any(tokens[i : i + length] == phrase for i in range(len(tokens) - length + 1)):
        return length
    for n in range(min(length - 1, len(tokens)), 0, -1):
        if tokens[-n:] == phrase[:n]:
            return n
    return 0
