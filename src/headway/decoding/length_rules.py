"""Logit rules for the beginning, the end and the length of outputs."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from headway.base.transfers import upload
from headway.decoding.rule import Logits, PartialOutput, as_ends
from headway.decoding.rules import check_inside, without


@dataclass(frozen=True)
class ForbiddenFirst:
    """Forbids tokens at the beginning of an output. prefix: number of forced tokens before it."""

    tokens: Sequence[int]
    prefix: int = 0

    def __call__(self, logits: Logits, written: Sequence[PartialOutput]) -> Logits:
        check_inside(self.tokens, logits)
        banned = set(self.tokens)
        return without(logits, [banned if len(w.tokens) == self.prefix else set() for w in written])


@dataclass(frozen=True)
class ForcedEnd:
    """Forces an output of input i to end, at no cost, when it has `lengths[i]` tokens."""

    lengths: Sequence[int]
    eos: int | Sequence[int]

    def __call__(self, logits: Logits, written: Sequence[PartialOutput]) -> Logits:
        full = [n for n, w in enumerate(written) if len(w.tokens) == self.lengths[w.item]]
        if not full:
            return logits
        rows = upload(torch.tensor(full), logits.device)
        forced = logits.index_fill(0, rows, -torch.inf)
        for end in as_ends(self.eos):
            forced[rows, end] = 0.0
        return forced


@dataclass(frozen=True)
class MinLength:
    """Minimum length: forbids </s> until an output has `count` tokens.

    eos: the token that ends an output, or several. with_prompt: whether the tokens of the prompt
    are counted, too.
    """

    count: int
    eos: int | Sequence[int]
    with_prompt: bool = False

    def __call__(self, logits: Logits, written: Sequence[PartialOutput]) -> Logits:
        ends = set(as_ends(self.eos))
        lengths = [len(w.seen) if self.with_prompt else len(w.tokens) for w in written]
        short = [ends if length < self.count else set() for length in lengths]
        return without(logits, short)
