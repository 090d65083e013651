"""Fast twin of the pre-norm residual connection: fewer passes over x on a GPU."""

from __future__ import annotations

from headway.blocks import LayerNorm, PreNorm, RMSNorm
from headway.blocks.residual import Sublayer
from headway.shapes import Float, Tensor
from headway.transforms.autocast import autocast_dtype
from headway.transforms.fast.joint import has_hooks
from headway.transforms.kernels import computes

LARGE = 2**23
"""Numbers of x from which kernels of our own save a GPU more than the CPU takes to launch them."""


class FastPreNorm(PreNorm):
    """`PreNorm` by two kernels around the sublayer, and one for the gradient, on a GPU.

    Under autocast the sublayer gets norm(x) in autocast's dtype, to which its linear layers would
    convert it.
    """

    def forward(self, x: Float[Tensor, "B T D"], sublayer: Sublayer) -> Float[Tensor, "B T D"]:
        if x.numel() < LARGE or not computes(x) or not self._has_kernel():
            return super().forward(x, sublayer)
        from headway.transforms.kernels.norms import added, normed_and_kept

        dtype = autocast_dtype(x.device.type) or x.dtype
        normed, kept = normed_and_kept(x, self.norm, dtype)
        return added(kept, self.dropout(sublayer(normed)))

    def _has_kernel(self) -> bool:
        return type(self.norm) in (LayerNorm, RMSNorm) and not has_hooks(self.norm)
