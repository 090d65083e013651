"""Input and output types of every search, and the length penalty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from headway.base.errors import UsageError
from headway.base.settings import BEAMS, PENALTY
from headway.base.shapes import Bool, Float, Tensor
from headway.decoding.rule import PartialOutput, Rule, as_ends, ruled_logits

Normalisation = Literal["gnmt", "average", "transformers"]
"""Forms of `length_penalty`. transformers: average, in a beam search that chooses the outputs of
`generate` of transformers (`Limits.as_transformers`)."""

NORMALISATION_HELP = (
    "Length penalty: gnmt is ((5 + length) / 6) ** length_penalty, average is "
    "length ** length_penalty, transformers is average in a search that chooses the outputs of "
    "generate() of transformers, the default of a Hugging Face folder."
)

EarlyStopping = bool | Literal["never"]
"""When a beam search ends before it is settled, see `beam_search`; "never" for `generate` only."""


@dataclass(frozen=True)
class Hypothesis:
    """One finished output: its tokens without <s> and </s>, and its probability.

    log_probability: natural log of P(tokens and </s> | input).
    score: log_probability / length_penalty, by which beam search ranks.
    finished: False if the output was cut at its maximum length, before </s>.
    """

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    finished: bool = True


@dataclass(frozen=True)
class Limits:
    """First and last tokens, lengths and logit rules of the outputs of a search.

    bos: the token that the decoder reads first: one for all inputs, or one for each (the last token
    of a prompt that is continued). eos: the token that ends an output, or several. max_lengths:
    maximum number of tokens for each input, without </s>. rules: change the logits before a token
    is chosen; log-probabilities are computed after them (see `as_transformers`). prompts: all
    tokens before each output, for rules that depend on them; empty if there are none. cut: whether
    a search cuts an output of maximum length, instead of requiring </s>. normalisation: the form of
    `length_penalty`. renormalise: for `as_transformers`, whether the rules leave a distribution
    whose probabilities add up to 1.
    """

    bos: int | Sequence[int]
    eos: int | Sequence[int]
    max_lengths: Sequence[int]
    rules: Sequence[Rule] = ()
    prompts: Sequence[Sequence[int]] = ()
    cut: bool = False
    normalisation: Normalisation = "gnmt"
    renormalise: bool = False

    @property
    def as_transformers(self) -> bool:
        """Whether a beam search follows `generate` of transformers (`_beam_search`, 5.24).

        It differs from ours in four points. Rules change the log-probabilities, not the logits, so
        that those of the other tokens stay as they are. An output is finished only if it is one of
        the W best continuations, not of all 2 W. One of maximum length is cut. The search ends
        early (`InputSearch.ends_as_transformers`).
        """
        return self.normalisation == "transformers"

    def penalty(self, num_tokens: int, alpha: float) -> float:
        """Return the length penalty of an output of n tokens, </s> included."""
        return length_penalty(num_tokens, alpha, self.normalisation)

    def __post_init__(self) -> None:
        count = len(self.max_lengths)
        if any(length < 0 for length in self.max_lengths):
            raise ValueError(f"{self.max_lengths=} must not be negative")
        if not isinstance(self.bos, int) and len(self.bos) != count:
            raise ValueError(f"{len(self.bos)} first tokens for {count} inputs")
        if self.prompts and len(self.prompts) != count:
            raise ValueError(f"{len(self.prompts)} prompts for {count} inputs")

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end an output."""
        return as_ends(self.eos)

    @property
    def first_tokens(self) -> list[int]:
        """The token that the decoder reads first, for each input."""
        if isinstance(self.bos, int):
            return [self.bos] * len(self.max_lengths)
        return list(self.bos)

    def prompt(self, item: int) -> Sequence[int]:
        """The tokens before the outputs of input `item`."""
        return self.prompts[item] if self.prompts else ()


def check_search(beam: int, num_best: int, alpha: float) -> None:
    """Raise UsageError for a beam width, a number of outputs or a length penalty out of range."""
    if not 1 <= num_best <= beam:
        raise UsageError(f"{num_best=} must be between 1 and {beam=}")
    if beam > BEAMS:
        raise UsageError(f"{beam=} must be at most {BEAMS:,} ({BEAMS.reason})")
    if not 0 <= alpha <= PENALTY:  # nor NaN
        raise UsageError(f"length_penalty={alpha} must be from 0 to {PENALTY} ({PENALTY.reason})")


def length_penalty(num_tokens: int, alpha: float, normalisation: Normalisation = "gnmt") -> float:
    """Return the number by which the log-probability of n tokens, </s> included, is divided.

    gnmt: ((5 + n) / 6)^alpha (Wu et al. 2016, equation 14). average, transformers: n^alpha; with
    alpha = 1 the score is the mean log-probability of a token. alpha = 0 ranks by probability
    alone, which favours short outputs.
    """
    if normalisation == "gnmt":
        return float(((5 + num_tokens) / 6) ** alpha)
    return float(max(num_tokens, 1) ** alpha)


def beam_log_probabilities(
    logits: Float[Tensor, "N T V"],
    rules: Sequence[Rule],
    written: Sequence[PartialOutput],
    limits: Limits,
) -> tuple[Float[Tensor, "N V"], Bool[Tensor, ""]]:
    """Return log P(next token) after the last of the T tokens, with the rules applied, and whether
    it is finite, as far as the rules allow.

    A row whose tokens are all forbidden is -inf everywhere: its prefix is dropped.
    """
    scores = logits[:, -1].float()
    if limits.as_transformers:
        scores = log_p = ruled_logits(rules, scores.log_softmax(-1), written)
    else:
        scores = ruled_logits(rules, scores, written)
    if limits.renormalise or not limits.as_transformers:
        log_p = scores.log_softmax(-1)
    # A logit of NaN or +inf makes the whole row NaN, and so does a row of -inf alone.
    undefined = log_p[:, :1].isnan()
    if not rules or (undefined.device.type == "cpu" and not bool(undefined.any())):
        return log_p, ~undefined.any()
    dead = scores.amax(-1, keepdim=True) == -torch.inf
    return log_p.masked_fill(dead, -torch.inf), ~(undefined & ~dead).any()
