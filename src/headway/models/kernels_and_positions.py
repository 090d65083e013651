"""Registries of attention kernels and position encodings: names in configurations -> objects.

Names are resolved only here: blocks and attention layers receive objects.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from headway.attention import (
    Additive,
    AdjacentRotary,
    Alibi,
    AttentionPositions,
    Bilinear,
    CappedDot,
    Dot,
    Kernel,
    LinearDot,
    LinearElu,
    PartialRotary,
    RelativeBuckets,
    Rotary,
    RotaryScaling,
    ScaledDot,
    SinkDot,
    SlidingWindow,
)
from headway.base.extensions import Extended, Names
from headway.blocks import Added, Concatenated, LearnedTable, NoPositions, SinusoidalTable
from headway.blocks.positions import SinusoidLayout

KernelFactory = Callable[[int, int], Kernel]
"""(num_heads, head_dim) -> the kernel of one attention layer, whose queries, keys and values have
head_dim dimensions in each head."""

KERNELS: Extended[KernelFactory] = Extended(
    {
        "scaled-dot": lambda num_heads, head_dim: ScaledDot(),
        "dot": lambda num_heads, head_dim: Dot(),
        "bilinear": lambda num_heads, head_dim: Bilinear(num_heads, head_dim, head_dim),
        "additive": lambda num_heads, head_dim: Additive(num_heads, head_dim, head_dim, head_dim),
        "linear": lambda num_heads, head_dim: LinearDot(),
        "linear-elu": lambda num_heads, head_dim: LinearElu(),
        "window": lambda num_heads, head_dim: (
            ScaledDot()
        ),  # for cross-attention; self-attention: `kernel`
    },
    "headway.kernels",
)
SCORES = Names(KERNELS, ("none",))
"""Values of a translator's `attention`; "none": an RNN decoder without attention."""


def check_heads(model_dim: int, num_heads: int, head_dim: int | None, positions: str) -> None:
    """Raise ValueError unless each head has a whole number of dimensions, and an even one for
    rotary positions. head_dim: their number; None: model_dim / num_heads."""
    if head_dim is None and model_dim % num_heads:
        near = [h for h in range(1, 2 * num_heads) if model_dim % h == 0]
        raise ValueError(
            f"{model_dim=} must be a multiple of {num_heads=}; "
            f"num_heads could be {' or '.join(map(str, near[-2:]))}, or set head_dim"
        )
    width = head_dim or model_dim // num_heads
    if positions == "rotary" and width % 2:
        raise ValueError(
            "positions=rotary rotates pairs of dimensions: the dimension of a head, "
            f"{width}, must be even"
        )


def repeated(layers: str, num_layers: int) -> str:
    """Return the letters of `layers`, repeated until there is one for each layer."""
    return (layers * -(-num_layers // len(layers)))[:num_layers]


class PositionFactory(Protocol):
    """Makes the position encoding inside self-attention, shared by the layers of a stack."""

    def __call__(self, num_heads: int, head_dim: int, *, causal: bool) -> AttentionPositions: ...


def _rotary(num_heads: int, head_dim: int, *, causal: bool) -> AttentionPositions:
    return Rotary(head_dim)


def _alibi(num_heads: int, head_dim: int, *, causal: bool) -> AttentionPositions:
    return Alibi(num_heads)


def _relative(num_heads: int, head_dim: int, *, causal: bool) -> AttentionPositions:
    return RelativeBuckets(num_heads, causal=causal)


POSITIONS: Extended[PositionFactory] = Extended(
    {"rotary": _rotary, "alibi": _alibi, "relative": _relative}, "headway.positions"
)
SCHEMES = Names(POSITIONS, ("sinusoidal", "learned", "none"))
"""Values of `positions`: encodings inside attention, and encodings of the input."""


@dataclass(frozen=True)
class Limits:
    """What a layer does with scaled dot products: their scale and soft limit, its window, sinks."""

    scale: float | None = None
    cap: float | None = None
    window: int | None = None
    sinks: bool = False


def kernel(
    score: str, num_heads: int, head_dim: int, window: int | None, limits: Limits = Limits()
) -> Kernel:
    """Make the kernel named `score`, with queries and keys of width head_dim.

    window: window size of score="window"; None in cross-attention, which has no window. With "none"
    (an RNN decoder without attention) the attention layers of the encoder use the scaled dot
    product. limits: of score="scaled-dot".
    """
    if limits.sinks:
        return SinkDot(num_heads, scale=limits.scale, cap=limits.cap, window=limits.window)
    if score == "scaled-dot" and (limits.scale is not None or limits.cap is not None):
        return CappedDot(scale=limits.scale, cap=limits.cap, window=limits.window)
    window = window if score == "window" else limits.window
    if window is not None:
        return SlidingWindow(window)
    return ScaledDot() if score == "none" else _made(score, num_heads, head_dim)


def _made(score: str, num_heads: int, head_dim: int) -> Kernel:
    return KERNELS.call(score, KERNELS[score], Kernel, num_heads, head_dim)


def input_positions(
    scheme: str,
    model_dim: int,
    position_dim: int,
    max_length: int,
    layout: SinusoidLayout = "pairs",
    first: int = 0,
) -> Added | Concatenated | NoPositions:
    """Make the position encoding of the input; NoPositions for encodings inside attention.

    position_dim: P > 0 concatenates position vectors of width P; 0 adds vectors of width model_dim.
    max_length: the number of positions of a learned table. layout: of a `SinusoidalTable`. first:
    the position of the first token.
    """
    width = position_dim or model_dim
    if scheme == "sinusoidal":
        table: LearnedTable | SinusoidalTable = SinusoidalTable(width, layout, first)
    elif scheme == "learned":
        table = LearnedTable(width, max_length, first)
    else:
        return NoPositions()
    return Concatenated(table) if position_dim else Added(table)


@dataclass(frozen=True)
class RotaryKind:
    """Which rotary positions: their base, the number of rotated dimensions (None: all), whether
    pairs are adjacent, and how frequencies are scaled."""

    base: float = 10_000.0
    rotated: int | None = None
    adjacent: bool = False
    scaling: RotaryScaling = field(default_factory=RotaryScaling)

    def made(self, head_dim: int) -> Rotary | PartialRotary:
        """Make the positions of heads of width `head_dim`."""
        rotated = head_dim if self.rotated is None else self.rotated
        rotary = (AdjacentRotary if self.adjacent else Rotary)(rotated, self.base, self.scaling)
        return rotary if rotated == head_dim else PartialRotary(rotary)


def attention_positions(
    scheme: str,
    num_heads: int,
    head_dim: int,
    *,
    causal: bool,
    rotary: RotaryKind | None = None,
) -> AttentionPositions | None:
    """Make the position encoding inside self-attention; None for encodings of the input."""
    if scheme == "rotary":
        return (RotaryKind() if rotary is None else rotary).made(head_dim)
    if scheme not in POSITIONS:
        return None
    make = POSITIONS[scheme]
    return POSITIONS.call(scheme, make, AttentionPositions, num_heads, head_dim, causal=causal)
