"""The contract between an objective and the training loop."""

from dataclasses import dataclass
from typing import Any, Protocol

from headway.base.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class Loss:
    """The loss of a batch: a sum over targets, not a mean.

    The loop divides once, by the number of targets of the whole accumulation window, so that
    micro-batches of different sizes give exactly the gradient of the full batch.

    total: the loss that is minimised. nats: the negative log-likelihood without smoothing and
    weights, for perplexity. count: the number of targets.
    """

    total: Float[Tensor, ""]
    nats: Float[Tensor, ""]
    count: int


class FramedTexts(Protocol):
    """Framed texts, one per row (`data.padding.EncoderBatch`).

    keys: True at tokens, False at padding. types: segment ids; None if there are no pairs.
    """

    @property
    def tokens(self) -> Int[Tensor, "B T"]: ...

    @property
    def keys(self) -> Bool[Tensor, "B T"]: ...

    @property
    def types(self) -> Int[Tensor, "B T"] | None: ...


class Objective(Protocol):
    """A training objective: computes the loss of a model on a batch."""

    def __call__(self, model: Any, batch: Any) -> Loss: ...
