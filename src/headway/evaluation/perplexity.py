"""How surprised a model is by held-out text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch


@torch.inference_mode()
def mean_nats(loss: Callable[[Any], tuple[float, int]], batches: Iterable[Any]) -> float:
    """Negative log-likelihood a target token in nats; perplexity is its exponential.

    `loss` gives the sum and the number of targets of one batch, so the mean is over tokens, not
    over batches.
    """
    total, count = 0.0, 0
    for batch in batches:
        nats, targets = loss(batch)
        total, count = total + nats, count + targets
    if not count:
        raise ValueError("no targets to evaluate on")
    return total / count


def bits_per_byte(nats: float, num_bytes: int) -> float:
    """nats / (ln 2 * bytes): bits that the model needs for a byte of a text.

    nats: negative log-likelihood of the whole text, all its tokens together. num_bytes: of the
    same text in UTF-8. Unlike perplexity it compares models whose tokens differ. Gao et al. 2020
    (The Pile), section 3.1.
    """
    if num_bytes < 1:
        raise ValueError(f"{num_bytes=} must be at least 1")
    return nats / (math.log(2) * num_bytes)
