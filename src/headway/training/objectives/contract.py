"""The contract between an objective and the training loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from headway.shapes import Float, Tensor


@dataclass(frozen=True)
class Loss:
    """A sum over targets, never a mean.

    The loop divides once, by the number of targets of the whole accumulation window, so that
    micro-batches of different sizes give exactly the full batch's gradient.

    total: what is minimised, in nats. nats: the plain negative log-likelihood, for perplexity.
    """

    total: Float[Tensor, ""]
    nats: Float[Tensor, ""]
    count: int


@runtime_checkable
class Objective(Protocol):
    def __call__(self, model: Any, batch: Any) -> Loss: ...
