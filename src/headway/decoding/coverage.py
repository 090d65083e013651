"""Coverage penalty: an output that leaves parts of its source unattended has a lower score.

    score(Y) = log P(Y | X) / length_penalty + beta sum over i of log(min(sum over t of a_ti, 1))

a_ti is the attention of output token t to source token i. A source token that the output attended
to with a total weight of 1 or more costs nothing; a forgotten one costs much. Wu et al. 2016,
equation 14. Of a Transformer, a is the mean over the heads of the last cross-attention layer.

>>> from headway.decoding.coverage import Coverage
>>> coverage = Coverage(weight=0.2)
>>> coverage.add(torch.tensor([[[[0.9, 0.1]]], [[[0.5, 0.5]]]]))  # N H T S: two outputs, one token
>>> [round(coverage.penalty(row), 3) for row in (0, 1)]  # 0.2 log(0.9 x 0.1), 0.2 log(0.5 x 0.5)
[-0.482, -0.277]
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import nn

from headway.attention import Kernel, KernelArguments, at_attention, attention_layers
from headway.base.errors import UsageError
from headway.base.shapes import Bool, Float, Tensor
from headway.base.transfers import upload
from headway.models.contracts import Stepper

LEAST = 1e-6
"""The smallest total attention that is told from none: the logarithm of 0 is no number."""


@dataclass
class Coverage:
    """The attention that each live output has given to each source token so far.

    weight: beta. attended: the sums over the tokens of the outputs; None before the first.
    """

    weight: float
    attended: Float[Tensor, "N S"] | None = None
    _real: Bool[Tensor, "N S"] | None = None
    _penalties: list[float] = field(default_factory=list)

    def add(
        self, weights: Float[Tensor, "M H W S"], keys: Bool[Tensor, "M S"] | None = None
    ) -> None:
        """Add the attention of one token of each output: W consecutive ones for each source.

        keys: True where a source position is a real token; None if nothing is padded.
        """
        share = weights.shape[2]
        one = weights.mean(1).flatten(0, 1)  # M W S -> N S
        self.attended = one if self.attended is None else self.attended + one
        self._real = None if keys is None else keys.repeat_interleave(share, dim=0)
        self._penalties = []

    def penalty(self, row: int) -> float:
        """Return what is added to the score of the output in that row; at most 0."""
        if not self._penalties:
            assert self.attended is not None
            log_coverage = self.attended.clamp(LEAST, 1).log()
            if self._real is not None:
                log_coverage = log_coverage.masked_fill(~self._real, 0.0)
            self._penalties = (self.weight * log_coverage.sum(-1)).tolist()
        return self._penalties[row]

    def reorder(self, rows: Sequence[int]) -> None:
        """Make output i the former output rows[i]."""
        assert self.attended is not None
        self.attended = self.attended.index_select(
            0, upload(torch.tensor(rows), self.attended.device)
        )


@contextmanager
def covered(model: Stepper, weight: float) -> Iterator[Coverage | None]:
    """Collect the coverage of all outputs of the steps inside the `with` block.

    Yields None if the weight is 0. Raises UsageError for a model without cross-attention, and if
    its attention weights do not sum to 1.
    """
    if not weight:
        yield None
        return
    assert isinstance(model, nn.Module)
    layers = [name for name in attention_layers(model) if name.rpartition(".")[2] == "cross"]
    if not layers:
        raise UsageError(
            "the coverage penalty needs a model with cross-attention, and this one has none",
            hint="leave out --coverage",
        )
    last = layers[-1]
    if not attention_layers(model)[last].normalised:
        raise UsageError(
            "the coverage penalty needs attention weights that sum to 1, which this model's do not",
            hint="leave out --coverage",
        )
    coverage = Coverage(weight)

    def add(name: str, kernel: Kernel, inputs: KernelArguments, output: Tensor) -> None:
        q, k, _, mask, *rest = inputs
        coverage.add(kernel.weights(q, k, mask, *rest), mask.keys)

    with at_attention(model, [last], add):
        yield coverage
