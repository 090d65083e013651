"""Names in configurations -> objects. Strings are parsed here and nowhere deeper."""

from __future__ import annotations

from typing import Literal

from headway.attention import (
    Additive,
    Alibi,
    AttentionPositions,
    Bilinear,
    Dot,
    FusedDot,
    Kernel,
    LinearDot,
    LinearElu,
    RelativeBuckets,
    Rotary,
    SlidingWindow,
)
from headway.blocks import Added, Concatenated, LearnedTable, NoPositions, SinusoidalTable

Score = Literal[
    "scaled-dot", "dot", "bilinear", "additive", "linear", "linear-elu", "window", "none"
]
PositionScheme = Literal["sinusoidal", "learned", "none", "rotary", "alibi", "relative"]


def kernel(score: Score, num_heads: int, head_dim: int, window: int | None) -> Kernel:
    """The kernel of that name, with queries and keys of width head_dim.

    window: for a sliding window; None between two sequences, where there can be none. "none" (an
    RNN decoder without attention) leaves other attentions at the scaled dot.
    """
    if score == "bilinear":
        return Bilinear(num_heads, head_dim, head_dim)
    if score == "additive":
        return Additive(num_heads, head_dim, head_dim, head_dim)
    if score == "window" and window is not None:
        return SlidingWindow(window)
    simple: dict[str, type[Dot | LinearDot | LinearElu]] = {
        "dot": Dot,
        "linear": LinearDot,
        "linear-elu": LinearElu,
    }
    return simple[score]() if score in simple else FusedDot()


def input_positions(
    scheme: PositionScheme, model_dim: int, position_dim: int, max_length: int
) -> Added | Concatenated | NoPositions:
    """What joins the word vectors; nothing for a scheme that lives inside attention.

    position_dim: 0 adds, P > 0 concatenates P dimensions.
    """
    width = position_dim or model_dim
    if scheme == "sinusoidal":
        table: LearnedTable | SinusoidalTable = SinusoidalTable(width)
    elif scheme == "learned":
        table = LearnedTable(width, max_length)
    else:
        return NoPositions()
    return Concatenated(table) if position_dim else Added(table)


def attention_positions(
    scheme: PositionScheme,
    num_heads: int,
    head_dim: int,
    *,
    causal: bool,
    rotary_base: float = 10_000.0,
) -> AttentionPositions | None:
    """What happens inside each self-attention of a stack; None for a scheme at the input."""
    if scheme == "rotary":
        return Rotary(head_dim, rotary_base)
    if scheme == "alibi":
        return Alibi(num_heads)
    if scheme == "relative":
        return RelativeBuckets(num_heads, causal=causal)
    return None
