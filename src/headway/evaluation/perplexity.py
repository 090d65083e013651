"""Perplexity and bits per byte of held-out text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch


@torch.inference_mode()
def mean_nats(loss: Callable[[Any], tuple[float, int]], batches: Iterable[object]) -> float:
    """Return the negative log-likelihood per target token in nats; exp of it is the perplexity.

    loss: computes the sum and the number of targets of one batch. The mean is over tokens, not over
    batches. Raises ValueError if there are no targets.
    """
    total, count = 0.0, 0
    for batch in batches:
        nats, targets = loss(batch)
        total, count = total + nats, count + targets
    if not count:
        raise ValueError("the batches have no targets, so the mean is undefined")
    return total / count


def bits_per_byte(nats: float, num_bytes: int) -> float:
    """Return nats / (ln 2 * num_bytes), the bits per byte of a text.

    nats: total negative log-likelihood of the text. num_bytes: length of the text in UTF-8. Unlike
    perplexity, bits per byte can be compared between tokenizers. Gao et al. 2020 (The Pile),
    section 3.1.
    """
    if num_bytes < 1:
        raise ValueError(f"{num_bytes=} must be at least 1")
    return nats / (math.log(2) * num_bytes)
