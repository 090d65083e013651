"""Exercise: the additive score."""

from contextlib import AbstractContextManager

import torch

from headway.attention import Additive
from headway.base.shapes import Tensor
from headway.exercises.contract import Case, Exercise, Function, Mistake, Plug
from headway.exercises.inputs import normal
from headway.models.kernels_and_positions import KERNELS


class LearnerAdditive(Additive):
    """Additive attention with the learner's score, one head after the other."""

    score: Function

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        heads = [
            self.score(q[:, h], k[:, h], self.of_key[h], self.of_query[h], self.vector[h])
            for h in range(q.shape[1])
        ]
        return torch.stack(heads, 1)


def _register(learner: Function) -> AbstractContextManager[None]:
    def kernel(num_heads: int, head_dim: int) -> LearnerAdditive:
        additive = LearnerAdditive(num_heads, head_dim, head_dim, head_dim)
        additive.score = learner
        return additive

    return KERNELS.registered("exercise", kernel)


def _reference(q: Tensor, k: Tensor, w1: Tensor, w2: Tensor, v: Tensor) -> Tensor:
    additive = Additive(1, *w2.shape[:1], *w1.shape)
    for name, value in (("of_key", w1), ("of_query", w2), ("vector", v)):
        delattr(additive, name)
        setattr(additive, name, value[None])
    return additive.scores(q[:, None], k[:, None])[:, 0]


def _random(seed: int) -> tuple[Tensor, ...]:
    shapes = ((2, 5, 4), (2, 7, 4), (4, 6), (4, 6), (6,))
    return tuple(normal(seed + 10 * i, *shape) for i, shape in enumerate(shapes))


WORDS = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]])

EXERCISE = Exercise(
    name="additive-score",
    equation="scores[t, s] = v^T tanh(W1 k_s + W2 q_t)      (Bahdanau et al. 2015)",
    shapes=(
        "q: B T Kq, k: B S Kk\nw1: Kk A    multiplies keys: k @ w1\n"
        "w2: Kq A    multiplies queries: q @ w2\nv: A\nresult: B T S"
    ),
    signature=(
        "def additive_scores(q: Tensor, k: Tensor, w1: Tensor, w2: Tensor, v: Tensor) -> Tensor:"
    ),
    body="""
queries = (q @ w2)[:, :, None]  # B T 1 A
keys = (k @ w1)[:, None]  # B 1 S A
return torch.tanh(queries + keys) @ v""",
    hints=(
        "Project both to the width A: `q @ w2` is B T A, `k @ w1` is B S A.",
        "Every query meets every key: make them B T 1 A and B 1 S A, and add.",
        "tanh, then the product with v, which removes the axis A.",
    ),
    reference=_reference,
    cases=(
        Case(
            rung="worked example",
            arguments=(WORDS, WORDS, torch.ones(2, 1), torch.ones(2, 1), torch.ones(1)),
            expected=torch.tensor(
                [[[0.9640, 0.9640, 0.9951], [0.9640, 0.9640, 0.9951], [0.9951, 0.9951, 0.9993]]]
            ),
            why="all weights 1: the score is tanh of the sum of all entries, tanh(1 + 1) = 0.96",
        ),
    ),
    random=_random,
    gradients=True,
    mistakes=(
        Mistake(
            "tanh is missing: without it the score is a sum of two numbers, and the query "
            "changes no weight",
            {"torch.tanh(queries + keys)": "(queries + keys)"},
        ),
        Mistake(
            "W1 and W2 are swapped: W1 multiplies the keys, W2 the queries",
            {"q @ w2": "q @ W", "k @ w1": "k @ w2", "q @ W": "q @ w1"},
        ),
        Mistake(
            "tanh is after the product with v; it belongs before it, to each hidden feature",
            {"torch.tanh(queries + keys) @ v": "torch.tanh((queries + keys) @ v)"},
        ),
        Mistake(
            "v is not used: the hidden features are summed without weights", {" @ v": ".sum(-1)"}
        ),
        Mistake(
            "the axes are swapped: the result is B S T, but queries come first, B T S",
            {"torch.tanh(queries + keys) @ v": "(torch.tanh(queries + keys) @ v).transpose(1, 2)"},
        ),
        Mistake(
            "projected query and key are multiplied; the additive score adds them",
            {"queries + keys": "queries * keys"},
        ),
    ),
    plug=Plug(
        part="the score of all attention layers, through the registry of kernels",
        config={"attention": "exercise"},
        register=_register,
    ),
)
