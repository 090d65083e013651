"""Perplexity and bits per byte of held-out text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import torch

from headway.base.sharing import WHOLE, Share

B = TypeVar("B")


@dataclass(frozen=True)
class Nats:
    """A negative log-likelihood in nats, and the number of target tokens."""

    total: float = 0.0
    count: int = 0

    def __add__(self, other: Nats) -> Nats:
        return Nats(self.total + other.total, self.count + other.count)

    @property
    def mean(self) -> float:
        """Per target token, not per batch; exp of it is the perplexity."""
        return self.total / self.count


@torch.inference_mode()
def nats_of(
    loss: Callable[[B], tuple[float, int]],
    batches: Iterable[B],
    share: Share = WHOLE,
    size: Callable[[B], int] = lambda batch: 1,
) -> Nats:
    """Return the negative log-likelihood of all batches.

    loss: computes the sum and the number of targets of one batch. size: the number of examples of a
    batch, for the progress. Raises ValueError if there are no targets.
    """
    sums = Nats()
    for nats, targets in share.each(batches, loss, size):
        sums += Nats(nats, targets)
    if not sums.count:
        raise ValueError("the batches have no targets, so the mean is undefined")
    return sums


def bits_per_byte(nats: float, num_bytes: int) -> float:
    """Return nats / (ln 2 * num_bytes), the bits per byte of a text.

    nats: total negative log-likelihood of the text. num_bytes: length of the text in UTF-8. Unlike
    perplexity, bits per byte can be compared between tokenizers. Gao et al. 2020 (The Pile),
    section 3.1.
    """
    if num_bytes < 1:
        raise ValueError(f"{num_bytes=} must be at least 1")
    return nats / (math.log(2) * num_bytes)
