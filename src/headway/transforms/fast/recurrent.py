"""Fast twins of recurrent layers and of the recurrent decoder.

The cells' are torch's own `nn.GRU` and `nn.LSTM`. torch computes an LSTM by oneDNN, a GRU by one
product after the other; `FastGRU` has oneDNN compute those.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from torch import nn

from headway.blocks.recurrent_decoder import RecurrentDecoder
from headway.shapes import Float, Tensor
from headway.transforms.fast.batched import prefers_onednn, torch_uses_onednn
from headway.transforms.fast.cache import PreallocatedTokens
from headway.transforms.tracing import tracing

STATES, WORK = 1 << 11, 1 << 26
"""States of fewer numbers, B x H, are not worth oneDNN's longer call, and fewer multiplications of
all steps together not the kernels that it makes for a new batch size."""


class FastGRU(nn.GRU):
    """torch's GRU, whose products are those of the faster library (`batched.py`).

    by_onednn: whether those of the last batch were oneDNN's.
    """

    by_onednn = False

    def forward(  # type: ignore[override]
        self, x: Float[Tensor, "B T E"], state: Float[Tensor, "1 B H"]
    ) -> tuple[Float[Tensor, "B T H"], Float[Tensor, "1 B H"]]:
        if tracing(x, state):
            return super().forward(x, state)
        work = 3 * x.shape[1] * state.numel() * self.hidden_size  # of the states with their matrix
        is_large = state.numel() >= STATES and work >= WORK
        self.by_onednn = is_large and prefers_onednn(work, x, state)
        with torch_uses_onednn() if self.by_onednn else nullcontext():
            return super().forward(x, state)


def fast_gradients(model: nn.Module) -> AbstractContextManager[None]:
    """Return the context in which the gradient of the last batch takes least time.

    Only the products of a `FastGRU` need it: other twins have their own gradients.
    """
    is_needed = any(isinstance(layer, FastGRU) and layer.by_onednn for layer in model.modules())
    return torch_uses_onednn() if is_needed else nullcontext()


class FastRecurrentDecoder(RecurrentDecoder):
    """`RecurrentDecoder` with a preallocated history."""

    history_type = PreallocatedTokens
