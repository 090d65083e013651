"""Positions inside attention: rotations of queries and keys, or a bias for each distance."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence

import torch
from torch import nn

from headway.shapes import Float, Int, Tensor


def places(past: Sequence[int], num_tokens: int, device: torch.device) -> Int[Tensor, "#B T"]:
    """Positions of T new tokens in rows that already hold `past` tokens each.

    One row if all rows agree; `past` may be one number for all.
    """
    first = past if len(set(past)) > 1 else past[:1]
    start = torch.tensor(first, device=device)[:, None]
    return start + torch.arange(num_tokens, device=device)


class AttentionPositions(nn.Module, abc.ABC):
    """How self-attention itself knows where tokens stand. Any length, none is too long.

    A scheme turns the queries and keys (`rotate`) or biases the scores (`bias`); what it does not
    do stays as it is here.
    """

    def rotate(
        self, x: Float[Tensor, "B H T K"], positions: Int[Tensor, "#B T"]
    ) -> Float[Tensor, "B H T K"]:
        """Queries or keys, turned by their positions."""
        return x

    def bias(self, queries: Int[Tensor, "#B T"], num_keys: int) -> Float[Tensor, "#B H T S"] | None:
        """What is added to the scores of queries at these positions and keys at 0 ... S - 1."""
        return None


class Rotary(AttentionPositions):
    """Pair i of a vector at position t is turned by t / base^(2i/K).

    The dot product of a query and a key then depends on their distance alone. Pairs are dimensions
    i and i + K/2, as in Llama's weights. Su et al. 2021, section 3.2 (RoPE). Angles are taken in
    float64 where there is one.
    """

    def __init__(self, head_dim: int, base: float = 10_000.0) -> None:
        super().__init__()
        if head_dim % 2:
            raise ValueError(f"{head_dim=} must be even: dimensions are turned in pairs")
        self.head_dim = head_dim
        self.base = base

    def rotate(
        self, x: Float[Tensor, "B H T K"], positions: Int[Tensor, "#B T"]
    ) -> Float[Tensor, "B H T K"]:
        exact = torch.float32 if positions.device.type == "mps" else torch.float64
        even = torch.arange(0, self.head_dim, 2, dtype=exact, device=positions.device)
        angle = positions[..., None] * torch.exp(even * (-math.log(self.base) / self.head_dim))
        angle = angle[:, None]  # #B T K/2 -> #B 1 T K/2
        dtype = torch.promote_types(x.dtype, torch.float32)
        cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)
        one, other = x.to(dtype).chunk(2, dim=-1)
        turned = torch.cat((one * cos - other * sin, other * cos + one * sin), dim=-1)
        return turned.to(x.dtype)


class Alibi(AttentionPositions):
    """-m_h |t - s| is added to the scores: near tokens count more, by a fixed slope a head.

    Slopes are 2^(-8/H), 2^(-16/H), ...; where H is no power of two, those of the power below and
    then every other one of the power above. Press et al. 2022, section 3.
    """

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads

    def bias(self, queries: Int[Tensor, "#B T"], num_keys: int) -> Float[Tensor, "#B H T S"]:
        slopes = torch.tensor(alibi_slopes(self.num_heads), device=queries.device)
        distance = queries[..., None] - torch.arange(num_keys, device=queries.device)  # #B T S
        return -slopes[:, None, None] * distance.abs()[:, None].float()


def alibi_slopes(num_heads: int) -> list[float]:
    """The slope of each head."""
    below = 2 ** int(math.log2(num_heads))
    slopes = [2 ** (-8 * (h + 1) / below) for h in range(below)]
    between = [2 ** (-4 * (h + 1) / below) for h in range(0, 2 * below, 2)]
    return slopes + between[: num_heads - below]


class RelativeBuckets(AttentionPositions):
    """A learned number a head for each bucket of distances is added to the scores.

    Near distances have a bucket each, farther ones share buckets that grow logarithmically up to
    `max_distance`; all beyond share the last. Raffel et al. 2020 (T5), section 2.1. `causal`: all
    buckets for keys behind the query, otherwise half of them for each side.
    """

    def __init__(
        self, num_heads: int, *, causal: bool, num_buckets: int = 32, max_distance: int = 128
    ) -> None:
        super().__init__()
        if num_buckets < 4 or num_buckets % 2:
            raise ValueError(f"{num_buckets=} must be even and at least 4")
        self.causal = causal
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.table = nn.Parameter(torch.zeros(num_buckets, num_heads))

    def init_weights(self) -> None:
        nn.init.normal_(self.table, std=0.02)

    def buckets(self, ahead: Int[Tensor, "*B"]) -> Int[Tensor, "*B"]:
        """The bucket of a key `ahead` positions after the query (before it: negative)."""
        count = self.num_buckets
        offset = torch.zeros_like(ahead)
        if self.causal:
            distance = (-ahead).clamp(min=0)
        else:
            count //= 2
            offset = (ahead > 0).long() * count
            distance = ahead.abs()
        near = count // 2
        growth = (count - near) / math.log(self.max_distance / near)
        far = near + ((distance.clamp(min=1) / near).log() * growth).long()
        return offset + torch.where(distance < near, distance, far.clamp(max=count - 1))

    def bias(self, queries: Int[Tensor, "#B T"], num_keys: int) -> Float[Tensor, "#B H T S"]:
        ahead = torch.arange(num_keys, device=queries.device) - queries[..., None]  # #B T S
        return self.table[self.buckets(ahead)].movedim(-1, 1)  # #B T S H -> #B H T S
