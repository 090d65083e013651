"""What every search takes and gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from headway.decoding.rules import Rule, Writing, apply_rules, not_finite
from headway.errors import UsageError
from headway.settings import BEAMS, PENALTY
from headway.shapes import Float, Tensor


@dataclass(frozen=True)
class Hypothesis:
    """One finished output: its tokens without <s> and </s>, and how likely the model found it.

    log_probability: natural log of P(tokens and </s> | input).
    score: log_probability / length_penalty, what the beam ranks by.
    finished: False when it was cut at the longest allowed length, before </s>.
    """

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    finished: bool = True


@dataclass(frozen=True)
class Limits:
    """Where outputs begin and end.

    bos: the token read before the first one is written: one for all inputs, or one for each, as
    where an output continues a prompt and its last token is read first. max_lengths: most tokens
    for each input, </s> not counted. rules: what changes the scores before a token is chosen;
    log-probabilities are those after it. prompts: all that stood before each output, for what looks
    back at it; empty for nothing. cut: a beam's output of the longest length is cut there, instead
    of having to end with </s>.
    """

    bos: int | Sequence[int]
    eos: int
    max_lengths: Sequence[int]
    rules: Sequence[Rule] = ()
    prompts: Sequence[Sequence[int]] = ()
    cut: bool = False

    def __post_init__(self) -> None:
        count = len(self.max_lengths)
        if any(length < 0 for length in self.max_lengths):
            raise ValueError(f"{self.max_lengths=} must not be negative")
        if not isinstance(self.bos, int) and len(self.bos) != count:
            raise ValueError(f"{len(self.bos)} first tokens for {count} inputs")
        if self.prompts and len(self.prompts) != count:
            raise ValueError(f"{len(self.prompts)} prompts for {count} inputs")

    @property
    def first_tokens(self) -> list[int]:
        """What is read first, for each input."""
        if isinstance(self.bos, int):
            return [self.bos] * len(self.max_lengths)
        return list(self.bos)

    def prompt(self, item: int) -> Sequence[int]:
        """What stood before the outputs of input `item`."""
        return self.prompts[item] if self.prompts else ()


def check_search(beam: int, num_best: int, alpha: float) -> None:
    """UsageError for a beam width, a number of outputs or a length penalty out of range."""
    if not 1 <= num_best <= beam:
        raise UsageError(f"{num_best=} must be between 1 and {beam=}")
    if beam > BEAMS:
        raise UsageError(f"{beam=} must be at most {BEAMS:,} ({BEAMS.reason})")
    if not 0 <= alpha <= PENALTY:  # nor NaN
        raise UsageError(f"length_penalty={alpha} must be from 0 to {PENALTY} ({PENALTY.reason})")


def length_penalty(num_tokens: int, alpha: float) -> float:
    """((5 + n) / 6)^alpha, n counting </s>. Wu et al. 2016, equation 14.

    alpha = 0 ranks by probability alone, which favours short outputs.
    """
    return float(((5 + num_tokens) / 6) ** alpha)


def next_log_probabilities(
    logits: Float[Tensor, "N T V"], rules: Sequence[Rule], written: Sequence[Writing]
) -> Float[Tensor, "N V"]:
    """log P(next token) after the last of the T tokens, by the rules.

    UsageError when a row has no token left.
    """
    return apply_rules(rules, logits[:, -1].float(), written).log_softmax(-1)


def beam_log_probabilities(
    logits: Float[Tensor, "N T V"], rules: Sequence[Rule], written: Sequence[Writing]
) -> Float[Tensor, "N V"]:
    """The same, but a row that has no token left is a beginning that dies: -inf everywhere."""
    scores = logits[:, -1].float()
    if not bool(scores.amax(-1).isfinite().all()):
        raise not_finite()
    for rule in rules:
        scores = rule(scores, written)
    log_p = scores.log_softmax(-1)
    dead = scores.amax(-1, keepdim=True) == -torch.inf
    return log_p.masked_fill(dead, -torch.inf) if rules and bool(dead.any()) else log_p
