"""Fast twins of recurrent layers and of the recurrent decoder.

The cells' are torch's own `nn.GRU` and `nn.LSTM`. torch computes an LSTM by oneDNN, a GRU by one
product after the other; `FastGRU` has oneDNN compute those.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from torch import nn

from headway.base.shapes import Float, Tensor
from headway.blocks.recurrent_decoder import RecurrentDecoder
from headway.transforms.fast.batched import prefers_onednn, torch_uses_onednn
from headway.transforms.fast.cache import FastCache
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
        if x.is_cuda:
            _compact(self)
        work = 3 * x.shape[1] * state.numel() * self.hidden_size  # of the states with their matrix
        is_large = state.numel() >= STATES and work >= WORK
        self.by_onednn = is_large and prefers_onednn(work, x, state)
        with torch_uses_onednn() if self.by_onednn else nullcontext():
            return super().forward(x, state)


class FastLSTM(nn.LSTM):
    """torch's LSTM."""

    def forward(  # type: ignore[override]
        self,
        x: Float[Tensor, "B T E"],
        state: tuple[Float[Tensor, "1 B H"], Float[Tensor, "1 B H"]],
    ) -> tuple[Float[Tensor, "B T H"], tuple[Float[Tensor, "1 B H"], Float[Tensor, "1 B H"]]]:
        if x.is_cuda and not tracing(x):
            _compact(self)
        return super().forward(x, state)


def _compact(layer: nn.RNNBase) -> None:
    """Move the weights on a CUDA device into one piece of memory, which cuDNN would copy them to at
    each call. They leave it when others take their place, as averaged ones do for an evaluation."""
    storages = {weight.untyped_storage().data_ptr() for weight in layer.parameters()}
    if len(storages) > 1:
        layer.flatten_parameters()


def fast_gradients(model: nn.Module) -> Callable[[], AbstractContextManager[None]]:
    """Return a function: after a forward pass, it returns the context in which the gradient takes
    least time.

    Only the products of a `FastGRU` need it: other twins have their own gradients.
    """
    layers = [layer for layer in model.modules() if isinstance(layer, FastGRU)]

    def context() -> AbstractContextManager[None]:
        return torch_uses_onednn() if any(x.by_onednn for x in layers) else nullcontext()

    return context


class FastRecurrentDecoder(RecurrentDecoder):
    """`RecurrentDecoder` whose decode states have a `FastCache`."""

    cache_type = FastCache
