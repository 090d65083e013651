"""Exercise: multi-head attention."""

from __future__ import annotations

import torch

from headway.attention import (
    KeyValues,
    LayerCache,
    Mask,
    MultiHeadAttention,
    ScaledDot,
    Step,
)
from headway.base.shapes import Tensor
from headway.exercises.contract import Case, Exercise, Function, Mistake, Plug
from headway.exercises.inputs import normal
from headway.exercises.plugging import swapped


class LearnerHeads(MultiHeadAttention):
    """Multi-head attention whose splitting and merging of heads is the learner's."""

    heads: Function

    def forward(
        self,
        x: Tensor,
        source: Tensor | KeyValues,
        mask: Mask,
        step: Step | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        if cache is not None or isinstance(source, KeyValues):
            return super().forward(x, source, mask, step, cache)

        def kernel(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            context: Tensor = self.kernel(q, k, v, mask)
            return context

        q, k, v = self.query(x), self.key(source), self.value(source)
        merged = self.heads(q, k, v, self.num_heads, kernel)
        attended: Tensor = self.output(merged)
        return attended


def _softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    context: Tensor = ScaledDot()(q, k, v, Mask())
    return context


def _split(x: Tensor, heads: int) -> Tensor:
    return x.view(*x.shape[:2], heads, -1).transpose(1, 2)


def _reference(q: Tensor, k: Tensor, v: Tensor, heads: int, kernel: Function) -> Tensor:
    context: Tensor = kernel(_split(q, heads), _split(k, heads), _split(v, heads))
    return context.transpose(1, 2).flatten(2)


def _no_swap(q: Tensor, k: Tensor, v: Tensor, h: int, kernel: Function) -> Tensor:
    """Reshape B T D to B H T K directly, which mixes positions and features."""
    parts = [x.reshape(len(x), h, x.shape[1], -1) for x in (q, k, v)]
    merged: Tensor = kernel(*parts).transpose(1, 2).flatten(2)
    return merged


def _bad_merge(q: Tensor, k: Tensor, v: Tensor, h: int, kernel: Function) -> Tensor:
    merged: Tensor = kernel(_split(q, h), _split(k, h), _split(v, h)).reshape(q.shape)
    return merged


def _one_head(q: Tensor, k: Tensor, v: Tensor, h: int, kernel: Function) -> Tensor:
    merged: Tensor = kernel(q[:, None], k[:, None], v[:, None])[:, 0]
    return merged


def _interleaved(q: Tensor, k: Tensor, v: Tensor, h: int, kernel: Function) -> Tensor:
    parts = [x.view(*x.shape[:2], -1, h).permute(0, 3, 1, 2) for x in (q, k, v)]
    merged: Tensor = kernel(*parts).permute(0, 2, 3, 1).flatten(2)
    return merged


def _over_heads(q: Tensor, k: Tensor, v: Tensor, h: int, kernel: Function) -> Tensor:
    merged: Tensor = kernel(*(x.view(*x.shape[:2], h, -1) for x in (q, k, v))).flatten(2)
    return merged


def _key_as_value(q: Tensor, k: Tensor, v: Tensor, h: int, kernel: Function) -> Tensor:
    return _reference(q, k, k, h, kernel)


def _merged_by_feature(q: Tensor, k: Tensor, v: Tensor, h: int, kernel: Function) -> Tensor:
    context: Tensor = kernel(_split(q, h), _split(k, h), _split(v, h))
    return context.permute(0, 2, 3, 1).flatten(2)


def _split_transposed(q: Tensor, k: Tensor, v: Tensor, h: int, kernel: Function) -> Tensor:
    def split(x: Tensor) -> Tensor:
        return x.transpose(1, 2).reshape(len(x), h, x.shape[1], -1)

    context: Tensor = kernel(split(q), split(k), split(v))
    return context.transpose(1, 2).flatten(2)


def _random(seed: int) -> tuple[object, ...]:
    return (
        normal(seed, 2, 5, 12),
        normal(seed + 9, 2, 5, 12),
        normal(seed + 99, 2, 5, 12),
        3,
        _softmax,
    )


def _mean(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """A kernel with equal weights: every context is the mean of the values."""
    return v.mean(-2, keepdim=True).expand(*q.shape[:3], v.shape[-1])


EXAMPLE = torch.tensor([[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]])

EXERCISE = Exercise(
    name="multi-head",
    equation="""
result = concat(head_1 ... head_H), head_h = kernel(q_h, k_h, v_h)
where q_h is columns h K ... (h + 1) K of q, and the same for k and v.
`kernel` computes the context of all heads at once.""",
    shapes=(
        "q: B T D, k and v: B S D    after their projections; D = H K\n"
        "heads: H\nkernel: (B H T K, B H S K, B H S K) -> B H T K\nresult: B T D"
    ),
    signature="def multi_head(q: Tensor, k: Tensor, v: Tensor, heads: int, kernel) -> Tensor:",
    body="""
q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (q, k, v))
context = kernel(q, k, v)
return context.transpose(1, 2).flatten(2)""",
    hints=(
        "Split the last axis: B T D -> B T H K (`unflatten(-1, (heads, -1))`).",
        "The kernel needs the heads before the positions: `transpose(1, 2)`.",
        "Go back the same way: first `transpose(1, 2)`, then `flatten(2)`.",
    ),
    reference=_reference,
    cases=(
        Case(
            rung="worked example",
            arguments=(EXAMPLE, EXAMPLE, EXAMPLE, 2, lambda q, k, v: v),
            expected=EXAMPLE,
            why="a kernel that returns the values: splitting and merging must cancel out",
        ),
        Case(
            rung="equal weights",
            arguments=(EXAMPLE, EXAMPLE, EXAMPLE, 2, _mean),
            expected=torch.tensor([[[3.0, 4.0, 5.0, 6.0], [3.0, 4.0, 5.0, 6.0]]]),
            why="equal weights: each context is the mean of two values, (1 + 5) / 2 = 3",
        ),
    ),
    random=_random,
    gradients=True,
    mistakes=(
        Mistake(
            _no_swap,
            "B T D is reshaped to B H T K at once, which mixes positions and features: split the "
            "last axis first, then swap the axes",
        ),
        Mistake(
            _bad_merge,
            "the heads are merged without swapping the axes back: use `transpose(1, 2)` "
            "before flattening",
        ),
        Mistake(_one_head, "there is only one head: the features were not split"),
        Mistake(
            _interleaved,
            "a head has every H-th column; it must have K neighbouring columns: "
            "`unflatten(-1, (heads, -1))`",
        ),
        Mistake(
            _over_heads,
            "the kernel attends over the heads, not over the positions: it needs B H T K, but has "
            "B T H K",
        ),
        Mistake(_key_as_value, "the keys are used as values"),
        Mistake(
            _merged_by_feature,
            "the heads are merged feature by feature; the K features of a head stay together",
        ),
        Mistake(
            _split_transposed,
            "positions and features are swapped before the split: split the last axis first, then "
            "swap the axes of positions and heads",
        ),
    ),
    plug=Plug(
        part="the heads of all attention layers",
        transform=swapped(MultiHeadAttention, LearnerHeads, "heads"),
    ),
)
