"""What every search takes and gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

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
    """Where outputs begin and end. `max_lengths`: most tokens for each input, </s> not counted."""

    bos: int
    eos: int
    max_lengths: Sequence[int]
    forbidden: Sequence[int] = ()

    def __post_init__(self) -> None:
        if any(length < 0 for length in self.max_lengths):
            raise ValueError(f"{self.max_lengths=} must not be negative")


def length_penalty(num_tokens: int, alpha: float) -> float:
    """((5 + n) / 6)^alpha, n counting </s>. Wu et al. 2016, equation 14.

    alpha = 0 ranks by probability alone, which favours short outputs.
    """
    return float(((5 + num_tokens) / 6) ** alpha)


def next_log_probabilities(
    logits: Float[Tensor, "N T V"], forbidden: Sequence[int]
) -> Float[Tensor, "N V"]:
    """log P(next token) after the last of the T tokens, forbidden tokens ruled out first."""
    last = logits[:, -1].float()
    if forbidden:
        last[:, list(forbidden)] = -torch.inf
    return last.log_softmax(-1)
