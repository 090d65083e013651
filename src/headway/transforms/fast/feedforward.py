"""Fast twins of the feed-forward networks: one product for two, and blocks of rows."""

import torch

from headway.base.shapes import Float, Tensor
from headway.blocks.feedforward import FeedForward, GatedFeedForward
from headway.transforms.autocast import autocast_dtype
from headway.transforms.fast.joint import has_hooks, linears
from headway.transforms.fast.linear import FastLinear, trains_by_kernel
from headway.transforms.fast.quantized import FastCodedLinear
from headway.transforms.kernels import activation_name
from headway.transforms.tracing import tracing

ROWS = 1024
"""Vectors that a quantised network computes at a time: their activations stay in the cache."""


class FastFeedForward(FeedForward):
    """`FeedForward` with fewer passes over the F activations.

    If it is quantised and outside autograd, it computes `ROWS` vectors at a time, since a quantised
    layer passes over its output several times. On a GPU one kernel computes the gradients of
    activation and bias.
    """

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        if (activated := self._activated(x)) is not None:
            return self.contract(self.dropout(activated))
        rows = x.numel() // max(x.shape[-1], 1)
        is_quantised = isinstance(self.expand, FastCodedLinear)
        if not is_quantised or rows <= ROWS or torch.is_grad_enabled() or tracing(x):
            return super().forward(x)
        blocks = torch.split(x.reshape(1, rows, -1), ROWS, dim=1)
        compute = super().forward
        return torch.cat([compute(block) for block in blocks], dim=1).view(x.shape)

    def _activated(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T F"] | None:
        """Return activation(x W_1 + b_1) if a kernel computes its gradients, or None."""
        expand = self.expand
        if not x.is_cuda or type(expand) is not FastLinear or has_hooks(expand):
            return None
        if not trains_by_kernel(x, expand.weight, expand.bias):
            return None
        from headway.transforms.kernels.linear import linear_for_training

        if activation_name(self.activation) is None:
            return None
        dtype = autocast_dtype("cuda") or x.dtype
        return linear_for_training(x, expand.weight, expand.bias, dtype, self.activation)


class FastGatedFeedForward(GatedFeedForward):
    """`GatedFeedForward` whose gate and expansion are one product where adjacent in memory."""

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        gate, expanded = linears(x, (self.gate, self.expand))
        gated = self.activation(gate) * expanded
        return self.contract(self.dropout(gated))
