"""Fast twins of the feed-forward networks: one product for two, and blocks of rows."""

from __future__ import annotations

import torch

from headway.blocks.feedforward import FeedForward, GatedFeedForward
from headway.shapes import Float, Tensor
from headway.transforms.fast.joint import linears
from headway.transforms.fast.quantized import FastQuantizedLinear
from headway.transforms.tracing import tracing

ROWS = 1024
"""Vectors that a quantised network computes at a time: their activations stay in the cache."""


class FastFeedForward(FeedForward):
    """`FeedForward` that computes `ROWS` vectors at a time if it is quantised, outside autograd.

    A quantised layer passes over its output several times.
    """

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        rows = x.numel() // max(x.shape[-1], 1)
        is_quantised = isinstance(self.expand, FastQuantizedLinear)
        if not is_quantised or rows <= ROWS or torch.is_grad_enabled() or tracing(x):
            return super().forward(x)
        blocks = torch.split(x.reshape(1, rows, -1), ROWS, dim=1)
        compute = super().forward
        return torch.cat([compute(block) for block in blocks], dim=1).view(x.shape)


class FastGatedFeedForward(GatedFeedForward):
    """`GatedFeedForward` whose gate and expansion are one product where adjacent in memory."""

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        gate, expanded = linears(x, (self.gate, self.expand))
        gated = self.activation(gate) * expanded
        out: Tensor = self.contract(self.dropout(gated))
        return out
