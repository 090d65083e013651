"""Exercise: softmax over the keys that a query may attend to."""

import torch

from headway.attention import Kernel, Mask, ScaledDot
from headway.attention.kernel import masked_softmax
from headway.base.shapes import Tensor
from headway.exercises.contract import Case, Exercise, Function, Mistake, Plug
from headway.exercises.inputs import causal, mask, normal
from headway.exercises.plugging import replace_kernels
from headway.models import Translator


class WithSoftmax(ScaledDot):
    """The scaled dot product with the learner's softmax."""

    def __init__(self, softmax: Function) -> None:
        super().__init__()
        self.softmax = softmax

    def _weights(self, q: Tensor, k: Tensor, mask: Mask, bias: Tensor | None) -> Tensor:
        scores = self.scores(q, k)
        allowed = mask.dense(q.shape[2], k.shape[2], q.device).expand_as(scores)
        weights: Tensor = self.softmax(scores, allowed)
        return weights


def _kernels(model: Translator, learner: Function) -> Translator:
    def kernel(old: Kernel) -> Kernel:
        return WithSoftmax(learner)

    return replace_kernels(model, kernel)


def _reference(scores: Tensor, allowed: Tensor) -> Tensor:
    return masked_softmax(scores, allowed)


def _random(seed: int) -> tuple[Tensor, Tensor]:
    return normal(seed, 2, 3, 5, 7), mask(seed, 2, 3, 5, 7)


EXERCISE = Exercise(
    name="softmax-and-masks",
    equation="""
weights[t, s] = exp(scores[t, s]) / sum over the allowed s' of exp(scores[t, s'])
for the keys s that query t may attend to, and 0 for the others.
A query that may attend to no key gets weights 0.""",
    shapes="scores: B H T S\nallowed: B H T S, bool; True = may attend\nresult: B H T S",
    signature="def masked_softmax(scores: Tensor, allowed: Tensor) -> Tensor:",
    body="""
empty = ~allowed.any(-1, keepdim=True)
scores = scores.masked_fill(~allowed, -torch.inf).masked_fill(empty, 0.0)
return scores.softmax(-1).masked_fill(~allowed, 0.0)""",
    hints=(
        "Softmax is over the keys: which axis is S?",
        "exp(-inf) = 0: set the hidden scores to -inf before the softmax (`masked_fill`).",
        "A query without keys is 0/0 = NaN. Set its scores to 0 first, its weights to 0 last.",
    ),
    reference=_reference,
    cases=(
        Case(
            rung="worked example",
            arguments=(torch.tensor([[[[14.0, 12.0]]]]), torch.ones(1, 1, 1, 2).bool()),
            expected=torch.tensor([[[[0.8808, 0.1192]]]]),
            why="scores 14 and 12: 1 / (1 + exp(-2)) = 0.88 and 0.12",
        ),
        Case(
            rung="causal mask",
            arguments=(
                torch.tensor([[[[-0.06, 1.0, 1.0], [-0.28, 0.29, 1.0], [0.0, 0.0, 0.0]]]]),
                causal(3)[None, None],
            ),
            expected=torch.tensor(
                [[[[1.0, 0.0, 0.0], [0.3612, 0.6388, 0.0], [1 / 3, 1 / 3, 1 / 3]]]]
            ),
            why="query t attends to keys 0 ... t; scores -0.28 and 0.29 become 0.36 and 0.64",
        ),
        Case(
            rung="query without keys",
            arguments=(torch.zeros(1, 1, 1, 3), torch.zeros(1, 1, 1, 3).bool()),
            expected=torch.zeros(1, 1, 1, 3),
            why="a query that may attend to no key gets weights 0, not NaN",
        ),
    ),
    random=_random,
    gradients=True,
    mistakes=(
        Mistake(
            "the mask is forgotten: hidden keys get weight. Set their scores to -inf",
            {
                "scores.masked_fill(~allowed, -torch.inf).masked_fill(empty, 0.0)": "scores",
                ".masked_fill(~allowed, 0.0)": "",
            },
        ),
        Mistake(
            "the softmax is over the queries (axis -2); the weights of one query must sum to 1, "
            "so it is over the keys (axis -1)",
            {"softmax(-1).masked_fill(~allowed, 0.0)": "softmax(-2)"},
        ),
        Mistake(
            "the mask is applied after the softmax, so that the weights no longer sum to 1; "
            "apply it to the scores",
            {"scores.masked_fill(~allowed, -torch.inf).masked_fill(empty, 0.0)": "scores"},
        ),
        Mistake(
            "the mask is inverted: True means may attend, so hide the keys with False",
            {
                "(~allowed, -torch.inf).masked_fill(empty, 0.0)": "(allowed, -torch.inf)",
                ".masked_fill(~allowed, 0.0)": "",
            },
        ),
        Mistake(
            "hidden scores are set to 0, but exp(0) = 1 is a weight like others; set them to -inf",
            {
                "-torch.inf).masked_fill(empty, 0.0)": "0.0)",
                "softmax(-1).masked_fill(~allowed, 0.0)": "softmax(-1)",
            },
        ),
        Mistake(
            "a query without any key is 0/0 = NaN: give it scores 0 before the softmax and "
            "weights 0 after it",
            {".masked_fill(empty, 0.0)": "", ".masked_fill(~allowed, 0.0)": ""},
        ),
        Mistake(
            "hidden scores are a large negative number such as -1e9: a query without keys then has "
            "equal weights for all of them. Use -inf, and give such a query weights 0",
            {"-torch.inf).masked_fill(empty, 0.0)": "-1e9)", ".masked_fill(~allowed, 0.0)": ""},
        ),
        Mistake(
            "the division by the sum is missing: the weights of one query must sum to 1",
            {"scores.softmax(-1)": "scores.exp()"},
        ),
    ),
    plug=Plug(part="the softmax of all attention layers", transform=_kernels),
)
