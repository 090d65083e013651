"""Fast twin of the gated feed-forward network: one product for its two projections."""

from __future__ import annotations

from headway.blocks.feedforward import GatedFeedForward
from headway.shapes import Float, Tensor
from headway.transforms.fast.joint import linears


class FastGatedFeedForward(GatedFeedForward):
    """`GatedFeedForward` whose gate and expansion are one product where adjacent in memory."""

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        gate, expanded = linears(x, (self.gate, self.expand))
        gated = self.activation(gate) * expanded
        out: Tensor = self.contract(self.dropout(gated))
        return out
