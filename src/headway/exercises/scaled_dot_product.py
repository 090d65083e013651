"""Exercise: scaled dot-product attention."""

from contextlib import AbstractContextManager
from typing import Any

import torch

from headway.attention import Mask, ScaledDot
from headway.attention.kernel import masked_softmax
from headway.base.shapes import Tensor
from headway.exercises.contract import Case, Exercise, Function, Mistake, Plug
from headway.exercises.inputs import causal, mask, normal
from headway.models.kernels_and_positions import KERNELS


class LearnerKernel(ScaledDot):
    """The learner's attention as a kernel; weights for recording are those of the equation."""

    def __init__(self, attention: Function) -> None:
        super().__init__()
        self.attention = attention

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None = None
    ) -> Tensor:
        allowed = mask.dense(q.shape[2], k.shape[2], q.device)
        context: Tensor = self.attention(q, k, v, allowed.expand(*q.shape[:3], k.shape[2]))
        return context


def _register(learner: Function) -> AbstractContextManager[None]:
    return KERNELS.registered("exercise", lambda num_heads, head_dim: LearnerKernel(learner))


def _reference(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
    return masked_softmax(ScaledDot().scores(q, k), allowed) @ v


def _random(seed: int) -> tuple[Tensor, ...]:
    q, k, v = normal(seed, 2, 3, 5, 4), normal(seed + 9, 2, 3, 7, 4), normal(seed + 99, 2, 3, 7, 6)
    return 3 * q, k, v, mask(seed, 2, 3, 5, 7)


WORDS: Any = torch.tensor([[[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]]])

EXERCISE = Exercise(
    name="scaled-dot-product",
    equation="""
context = softmax(Q K^T / sqrt(K)) V
where the softmax of a query is over the keys that it may attend to.""",
    shapes=(
        "q: B H T K    T queries of width K\nk: B H S K    S keys\nv: B H S V    S values\n"
        "allowed: B H T S, bool; True = may attend; every query has a key\nresult: B H T V"
    ),
    signature="def attention(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:",
    body="""
scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
return weights @ v""",
    imports="import math\n\nimport torch\nfrom torch import Tensor",
    hints=(
        "Three steps: scores (B H T S), softmax over S, sum of values.",
        "Swap the last two axes of k before the matrix product: `k.transpose(-1, -2)`.",
        "Divide by the square root of the width of a query, `math.sqrt(q.shape[-1])`.",
        "Hide keys before the softmax: `scores.masked_fill(~allowed, -torch.inf)`.",
    ),
    reference=_reference,
    cases=(
        Case(
            rung="worked example",
            arguments=(WORDS, WORDS, WORDS, torch.ones(1, 1, 3, 3).bool()),
            expected=torch.tensor([[[[0.8022, 0.5989], [0.5989, 0.8022], [0.7517, 0.7517]]]]),
            why=(
                "three words (1,0), (0,1), (1,1): the first has scores 0.71, 0, 0.71 and weights "
                "0.40, 0.20, 0.40, so its context is (0.40 + 0.40, 0.20 + 0.40)"
            ),
        ),
        Case(
            rung="mask",
            arguments=(WORDS, WORDS, WORDS, causal(3)[None, None]),
            why="with a causal mask the first context is the first value, (1, 0)",
        ),
    ),
    random=_random,
    gradients=True,
    mistakes=(
        Mistake(
            "the scale is missing: divide the scores by sqrt(K)", {" / math.sqrt(q.shape[-1])": ""}
        ),
        Mistake(
            "the scores are divided by K; divide by its square root",
            {"math.sqrt(q.shape[-1])": "q.shape[-1]"},
        ),
        Mistake(
            "the mask is forgotten: hidden keys get weight",
            {".masked_fill(~allowed, -torch.inf)": ""},
        ),
        Mistake(
            "the softmax is over the queries (axis -2); it must be over the keys (axis -1)",
            {"softmax(-1)": "softmax(-2)"},
        ),
        Mistake(
            "the scale uses the number of keys; use the width of a key, the last axis",
            {"q.shape[-1]": "k.shape[-2]"},
        ),
        Mistake("the mask is inverted: True means may attend", {"~allowed": "allowed"}),
        Mistake("the scores are multiplied by sqrt(K); divide by it", {"/ math": "* math"}),
        Mistake(
            "the weights are divided by sqrt(K); divide the scores, before the softmax",
            {
                " / math.sqrt(q.shape[-1])": "",
                ".softmax(-1)": ".softmax(-1) / math.sqrt(q.shape[-1])",
            },
        ),
        Mistake(
            "the mask is applied after the softmax, so that the weights no longer sum to 1; apply "
            "it to the scores",
            {
                ".masked_fill(~allowed, -torch.inf)": "",
                "softmax(-1)": "softmax(-1).masked_fill(~allowed, 0.0)",
            },
        ),
        Mistake(
            "hidden scores are set to 0, but exp(0) = 1 is a weight like others; set them to -inf",
            {"-torch.inf": "0.0"},
        ),
        Mistake(
            "the mask is mirrored: entry [t, s] says whether query t may attend to key s",
            {"~allowed": "~allowed.flip(-1)"},
        ),
    ),
    plug=Plug(
        part="the kernel of all attention layers, through the registry of kernels",
        config={"attention": "exercise"},
        register=_register,
    ),
)
