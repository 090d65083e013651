"""Positions inside attention: rotate queries and keys, or bias the scores by distance.

Attention itself ignores order. A position scheme makes the score of query t and key s depend on
their distance t - s: by rotating both vectors by angles that grow with the position (rotary), by a
penalty of m |t - s| (ALiBi), or by a learned number for each distance (relative positions).

>>> import torch
>>> from headway.attention import Alibi, Rotary
>>> Alibi(num_heads=8).bias(torch.tensor([[0, 1, 2]]), 3)[0, 0]  # three words, slope 1/2
tensor([[-0.0000, -0.5000, -1.0000],
        [-0.5000, -0.0000, -0.5000],
        [-1.0000, -0.5000, -0.0000]])
>>> word = torch.tensor([[[[1.0, 0.0]]]]).expand(1, 1, 3, 2)  # the same word at three positions
>>> Rotary(head_dim=2).rotate(word, torch.tensor([[0, 1, 2]]))[0, 0].round(decimals=2)
tensor([[ 1.0000,  0.0000],
        [ 0.5400,  0.8400],
        [-0.4200,  0.9100]])
"""

import abc
import math
from collections.abc import Sequence

import torch
from torch import nn

from headway.attention.rotary_scaling import RotaryScaling
from headway.base.devices import most_exact
from headway.base.shapes import Float, Int, Tensor
from headway.base.transfers import upload

Past = Sequence[int] | Int[Tensor, " B"]
"""The number of earlier tokens of each sequence: numbers, one if all agree, or a tensor of the
device, which a recorded step can read again with other numbers."""


def positions_after(past: Past, num_tokens: int, device: torch.device) -> Int[Tensor, "#B T"]:
    """Return the positions of T new tokens in sequences that already hold `past` tokens.

    One row if all sequences agree.
    """
    if isinstance(past, Tensor):
        return past[:, None] + torch.arange(num_tokens, device=device)
    if len(set(past)) == 1:
        return torch.arange(past[0], past[0] + num_tokens, device=device)[None]
    start = upload(torch.tensor(past, dtype=torch.long), device)[:, None]
    return start + torch.arange(num_tokens, device=device)


def added(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """Return the sum of two biases, either of which may be missing."""
    if a is None or b is None:
        return b if a is None else a
    return a + b


CosSin = tuple[Float[Tensor, "#B 1 T P"], Float[Tensor, "#B 1 T P"]]
"""Cosines and sines of the angles of all P = K/2 pairs of dimensions."""


class AttentionPositions(nn.Module, abc.ABC):
    """How self-attention depends on positions. No scheme limits the length.

    A scheme overrides `rotate` (with `cos_sin`, if its angles can be shared by the layers) or
    `bias`; the others leave queries, keys and scores unchanged.
    """

    def cos_sin(self, positions: Int[Tensor, "#B T"], dtype: torch.dtype) -> CosSin | None:
        """Return what `rotate` needs of the positions, which is computed once for all layers.

        dtype: of the queries and keys.
        """
        return None

    def rotate(
        self,
        x: Float[Tensor, "B H T K"],
        positions: Int[Tensor, "#B T"],
        cos_sin: CosSin | None = None,
    ) -> Float[Tensor, "B H T K"]:
        """Return queries or keys, rotated by their positions.

        cos_sin: the result of `cos_sin`, if it is known.
        """
        return x

    def bias(self, queries: Int[Tensor, "#B T"], num_keys: int) -> Float[Tensor, "#B H T S"] | None:
        """Return what is added to the scores of queries at these positions and keys 0 ... S - 1."""
        return None


class Rotary(AttentionPositions):
    """Rotary positions (RoPE): pair i of a vector at position t is rotated by t / base^(2i/K).

    The dot product of a rotated query and a rotated key depends on their distance alone. Pairs are
    dimensions i and i + K/2, as in Llama's weights. Su et al. 2021, section 3.2. Angles are
    computed in float64 where the device has it. scaling: lowers the frequencies for long texts.
    """

    def __init__(
        self, head_dim: int, base: float = 10_000.0, scaling: RotaryScaling | None = None
    ) -> None:
        super().__init__()
        if head_dim % 2:
            raise ValueError(f"{head_dim=} must be even: dimensions are rotated in pairs")
        self.head_dim = head_dim
        self.base = base
        self.scaling = RotaryScaling() if scaling is None else scaling
        self.scaling.check(head_dim // 2)

    def rotate(
        self,
        x: Float[Tensor, "B H T K"],
        positions: Int[Tensor, "#B T"],
        cos_sin: CosSin | None = None,
    ) -> Float[Tensor, "B H T K"]:
        cos, sin = self.cos_sin(positions, x.dtype) if cos_sin is None else cos_sin
        first, second = x.to(cos.dtype).chunk(2, dim=-1)
        rotated = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
        return rotated.to(x.dtype)

    def cos_sin(self, positions: Int[Tensor, "#B T"], dtype: torch.dtype) -> CosSin:
        dtype = torch.promote_types(dtype, torch.float32)
        exact = most_exact(positions.device)
        even = torch.arange(0, self.head_dim, 2, dtype=exact, device=positions.device)
        frequency = torch.exp(even * (-math.log(self.base) / self.head_dim))
        angle = positions[..., None] * self.scaling.frequencies(frequency, self.base)
        angle = angle[:, None]  # #B T K/2 -> #B 1 T K/2
        cos, sin, amplitude = angle.cos(), angle.sin(), self.scaling.amplitude
        if amplitude != 1:
            cos, sin = cos * amplitude, sin * amplitude
        return cos.to(dtype), sin.to(dtype)


class Alibi(AttentionPositions):
    """ALiBi: -m_h |t - s| is added to the scores of head h.

    Slopes m_h are 2^(-8/H), 2^(-16/H), ...; if H is no power of two, those of the power below and
    then every other one of the power above. Press et al. 2022, section 3.
    """

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads

    def bias(self, queries: Int[Tensor, "#B T"], num_keys: int) -> Float[Tensor, "#B H T S"]:
        slopes = alibi_slopes(self.num_heads, queries.device)
        distance = queries[..., None] - torch.arange(num_keys, device=queries.device)  # #B T S
        return -slopes[:, None, None] * distance.abs()[:, None].float()


def alibi_slopes(num_heads: int, device: torch.device) -> Float[Tensor, " H"]:
    """Return the slope of each head."""
    below = 2 ** int(math.log2(num_heads))
    steps = torch.arange(1, 2 * below + 1, dtype=most_exact(device), device=device)
    exponents = torch.cat((-8 / below * steps[:below], -4 / below * steps[::2]))
    return torch.exp2(exponents[:num_heads]).float()


class RelativeBuckets(AttentionPositions):
    """Relative positions: a learned number for each head and bucket of distances is added.

    Short distances have a bucket each; longer ones share buckets that grow logarithmically up to
    `max_distance`, and all beyond share the last. `causal`: all buckets are for keys before the
    query; otherwise half of them for each side. Raffel et al. 2020 (T5), section 2.1.
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
        """Return the bucket of keys `ahead` positions after the query (negative: before it)."""
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
