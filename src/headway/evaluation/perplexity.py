"""How surprised a model is by held-out text."""

from __future__ import annotations

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
