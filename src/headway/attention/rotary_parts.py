"""Partial rotary positions: [rotary(x_1 ... x_R), x_(R+1) ... x_K]; and adjacent pairs.

GPT-NeoX rotates the first quarter of a head's dimensions only; the others compare words wherever
they are. GPT-J pairs dimensions 2i and 2i + 1, Llama i and i + K/2: it is the same rotation with
the dimensions in another order.

>>> import torch
>>> from headway.attention import AdjacentRotary, PartialRotary, Rotary
>>> word = torch.tensor([[[[1.0, 0.0, 1.0, 0.0]]]]).expand(1, 1, 2, 4)  # B H T K, two positions
>>> where = torch.tensor([[0, 1]])
>>> PartialRotary(Rotary(2)).rotate(word, where)[0, 0].round(decimals=2)  # 2 of 4 dimensions turn
tensor([[1.0000, 0.0000, 1.0000, 0.0000],
        [0.5400, 0.8400, 1.0000, 0.0000]])
>>> AdjacentRotary(4).rotate(word, where)[0, 0].round(decimals=2)  # the second pair is slow
tensor([[1.0000, 0.0000, 1.0000, 0.0000],
        [0.5400, 0.8400, 1.0000, 0.0100]])
"""

import torch

from headway.attention.relative import AttentionPositions, CosSin, Rotary
from headway.base.shapes import Float, Int, Tensor


class AdjacentRotary(Rotary):
    """`Rotary` whose pairs are dimensions 2i and 2i + 1. Su et al. 2021, equation 15; GPT-J."""

    def rotate(
        self,
        x: Float[Tensor, "B H T K"],
        positions: Int[Tensor, "#B T"],
        cos_sin: CosSin | None = None,
    ) -> Float[Tensor, "B H T K"]:
        cos, sin = self.cos_sin(positions, x.dtype) if cos_sin is None else cos_sin
        first, second = x.to(cos.dtype).reshape(*x.shape[:-1], -1, 2).unbind(-1)  # -> B H T K/2
        turned = (first * cos - second * sin, second * cos + first * sin)
        return torch.stack(turned, dim=-1).flatten(-2).to(x.dtype)


class PartialRotary(AttentionPositions):
    """[rotary(x_1 ... x_R), x_(R+1) ... x_K]: rotary positions of the first R of K dimensions.

    rotary: of R dimensions. Black et al. 2022 (GPT-NeoX-20B), section 2.1.
    """

    def __init__(self, rotary: Rotary) -> None:
        super().__init__()
        self.rotary = rotary

    def cos_sin(self, positions: Int[Tensor, "#B T"], dtype: torch.dtype) -> CosSin:
        return self.rotary.cos_sin(positions, dtype)

    def rotate(
        self,
        x: Float[Tensor, "B H T K"],
        positions: Int[Tensor, "#B T"],
        cos_sin: CosSin | None = None,
    ) -> Float[Tensor, "B H T K"]:
        turned = self.rotary.rotate(x[..., : self.rotary.head_dim], positions, cos_sin)
        return torch.cat((turned, x[..., self.rotary.head_dim :]), dim=-1)
