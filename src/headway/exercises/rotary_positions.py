"""Exercise: rotary positions."""

from contextlib import AbstractContextManager

import torch

from headway.attention import AttentionPositions, Rotary
from headway.attention.relative import CosSin
from headway.base.shapes import Tensor
from headway.exercises.contract import Case, Exercise, Function, Mistake, Plug
from headway.exercises.inputs import integers, normal
from headway.models.kernels_and_positions import POSITIONS


class LearnerRotary(AttentionPositions):
    """Rotary positions whose rotation is the learner's."""

    def __init__(self, rotation: Function) -> None:
        super().__init__()
        self.rotation = rotation

    def rotate(self, x: Tensor, positions: Tensor, cos_sin: CosSin | None = None) -> Tensor:
        rows = [
            self.rotation(x[i], positions[i if len(positions) > 1 else 0]) for i in range(len(x))
        ]
        return torch.stack(rows)


def _register(learner: Function) -> AbstractContextManager[None]:
    def positions(num_heads: int, head_dim: int, *, causal: bool) -> AttentionPositions:
        return LearnerRotary(learner)

    return POSITIONS.registered("exercise", positions)


def _reference(x: Tensor, positions: Tensor) -> Tensor:
    return Rotary(x.shape[-1]).rotate(x[None], positions[None])[0]


def _random(seed: int) -> tuple[Tensor, Tensor]:
    return normal(seed, 3, 5, 8), torch.tensor(sorted(integers(seed, 5, 0, 30)))


UNIT = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]])

EXERCISE = Exercise(
    name="rotary-positions",
    equation="""
Pair i of a vector at position t is rotated by the angle t / 10000^(2i/K), i = 0 ... K/2 - 1.
Pair i is features i and i + K/2:
a' = a cos - b sin,   b' = a sin + b cos.      (Su et al. 2021)""",
    shapes=(
        "x: H T K, queries or keys of one sentence; K even\npositions: T, integers\nresult: H T K"
    ),
    signature="def rotate(x: Tensor, positions: Tensor) -> Tensor:",
    body="""
half = x.shape[-1] // 2
angles = positions[:, None] / 10_000 ** (2 * torch.arange(half) / x.shape[-1])  # T K/2
a, b = x[..., :half], x[..., half:]
cos, sin = angles.cos(), angles.sin()
return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)""",
    hints=(
        "First the angles, T x K/2, from `positions` (they need not begin at 0).",
        "a is the first half of the features, b the second half.",
        "Join the two rotated halves: `torch.cat((..., ...), dim=-1)`.",
    ),
    reference=_reference,
    cases=(
        Case(
            rung="worked example",
            arguments=(UNIT, torch.arange(3)),
            expected=torch.tensor([[[1.0, 0.0], [0.5403, 0.8415], [-0.4161, 0.9093]]]),
            why="(1, 0) at positions 0, 1, 2: (1, 0), (cos 1, sin 1), (cos 2, sin 2)",
        ),
        Case(
            rung="positions from a cache",
            arguments=(normal(3, 2, 2, 8), torch.tensor([7, 8])),
            why="two new tokens after seven others, at positions 7 and 8",
        ),
    ),
    random=_random,
    gradients=True,
    mistakes=(
        Mistake(
            "features 2i and 2i + 1 are rotated together; a pair is features i and i + K/2",
            {
                "x[..., :half], x[..., half:]": "x[..., 0::2], x[..., 1::2]",
                "torch.cat(": "torch.stack(",
                "dim=-1)": "dim=-1).flatten(-2)",
            },
        ),
        Mistake(
            "the rotation is in the other direction: a' = a cos - b sin, with a minus",
            {"a * cos - b * sin, a * sin + b * cos": "a * cos + b * sin, b * cos - a * sin"},
        ),
        Mistake(
            "a sign is wrong: a' = a cos - b sin; with two plus it is no rotation",
            {"a * cos - b * sin": "a * cos + b * sin"},
        ),
        Mistake("the exponent is i/K; it must be 2i/K", {"2 * torch": "torch"}),
        Mistake(
            "`positions` is not used: the angles count from 0, but tokens after a cache do not",
            {"positions[:, None]": "torch.arange(x.shape[-2])[:, None]"},
        ),
        Mistake(
            "positions are off by one: position 0 is not rotated",
            {"positions[:, None]": "(positions[:, None] + 1)"},
        ),
        Mistake(
            "sine and cosine are swapped: a' = a cos - b sin",
            {"angles.cos(), angles.sin()": "angles.sin(), angles.cos()"},
        ),
    ),
    plug=Plug(
        part="the positions inside self-attention, through the registry of positions",
        config={"positions": "exercise"},
        register=_register,
    ),
)
