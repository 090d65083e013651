"""Exercise: multi-head attention."""

import torch

from headway.attention import KeyValues, LayerCache, Mask, MultiHeadAttention, ScaledDot, Step
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
            "B T D is reshaped to B H T K at once, which mixes positions and features: split the "
            "last axis first, then swap the axes",
            {
                ".transpose(1, 2) for": " for",
                "unflatten(-1, (heads, -1))": "reshape(len(x), heads, x.shape[1], -1)",
            },
        ),
        Mistake(
            "the heads are merged without swapping the axes back: use `transpose(1, 2)` "
            "before flattening",
            {"transpose(1, 2).flatten(2)": "reshape(len(q), -1, q.shape[-1] * heads)"},
        ),
        Mistake("there is only one head: the features were not split", {"(heads, -1)": "(1, -1)"}),
        Mistake(
            "a head has every H-th column; it must have K neighbouring columns: "
            "`unflatten(-1, (heads, -1))`",
            {
                "(heads, -1)).transpose(1, 2)": "(-1, heads)).permute(0, 3, 1, 2)",
                "context.transpose(1, 2)": "context.permute(0, 2, 3, 1)",
            },
        ),
        Mistake(
            "the kernel attends over the heads, not over the positions: it needs B H T K, but has "
            "B T H K",
            {".transpose(1, 2) for": " for", "context.transpose(1, 2)": "context"},
        ),
        Mistake("the keys are used as values", {"kernel(q, k, v)": "kernel(q, k, k)"}),
        Mistake(
            "the heads are merged feature by feature; the K features of a head stay together",
            {"context.transpose(1, 2)": "context.permute(0, 2, 3, 1)"},
        ),
        Mistake(
            "positions and features are swapped before the split: split the last axis first, then "
            "swap the axes of positions and heads",
            {
                ".transpose(1, 2) for": " for",
                ".unflatten(-1, (heads, -1))": ".mT.reshape(len(x), heads, x.shape[1], -1)",
            },
        ),
    ),
    plug=Plug(
        part="the heads of all attention layers",
        transform=swapped(MultiHeadAttention, LearnerHeads, "heads"),
    ),
)
