"""Exercise: sinusoidal position encodings."""

import math

import torch

from headway.base.shapes import Tensor
from headway.blocks import SinusoidalTable
from headway.exercises.contract import Case, Exercise, Function, Mistake, Plug
from headway.exercises.plugging import swapped


class LearnerTable(SinusoidalTable):
    """A position table that reads the vectors of the learner's function."""

    table: Function

    def forward(self, positions: Tensor) -> Tensor:
        vectors: Tensor = self.table(int(positions.max()) + 1, self.dim)
        return vectors[positions]


def _reference(length: int, dim: int) -> Tensor:
    vectors: Tensor = SinusoidalTable(dim)(torch.arange(length)[None])
    return vectors[0]


def _random(seed: int) -> tuple[int, int]:
    return 5 + 3 * seed, 6 + 2 * seed


EXERCISE = Exercise(
    name="sinusoidal-positions",
    equation="""
PE[t, 2i]     = sin(t / 10000^(2i/D))
PE[t, 2i + 1] = cos(t / 10000^(2i/D))      for i = 0 ... D/2 - 1 and positions t = 0, 1, ...""",
    shapes="length: T, number of positions\ndim: D, even\nresult: T D",
    signature="def sinusoidal(length: int, dim: int) -> Tensor:",
    body="""
even = torch.arange(0, dim, 2)  # the numbers 2i
angles = torch.arange(length)[:, None] / 10_000 ** (even / dim)  # T D/2
return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)""",
    hints=(
        "First a matrix of angles, T x D/2: one row for each position.",
        "`torch.arange(0, dim, 2)` holds the numbers 2i, so the exponent is that divided by D.",
        "Sine and cosine alternate: stack them on a new last axis, then flatten it.",
    ),
    reference=_reference,
    cases=(
        Case(
            rung="worked example",
            arguments=(3, 4),
            expected=torch.tensor(
                [
                    [0.0, 1.0, 0.0, 1.0],
                    [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)],
                    [math.sin(2), math.cos(2), math.sin(0.02), math.cos(0.02)],
                ]
            ),
            why="D = 4: angles t and t / 100. Position 1 is sin 1, cos 1, sin 0.01, cos 0.01",
        ),
        Case(rung="long sequence", arguments=(60, 8), why="60 positions of width 8"),
    ),
    random=_random,
    mistakes=(
        Mistake(
            "sine and cosine are swapped: even features are sines",
            {"(angles.sin(), angles.cos())": "(angles.cos(), angles.sin())"},
        ),
        Mistake(
            "sines are the first half and cosines the second; they alternate: sin, cos, sin, cos",
            {"torch.stack": "torch.cat", ".flatten(-2)": ""},
        ),
        Mistake(
            "positions begin at 1 (off by one); the first position is 0",
            {"torch.arange(length)": "torch.arange(1, length + 1)"},
        ),
        Mistake(
            "the exponent is twice too large: `arange(0, dim, 2)` is 2i already",
            {"(even / dim)": "(2 * even / dim)"},
        ),
        Mistake(
            "the exponent is i/D; it must be 2i/D",
            {"torch.arange(0, dim, 2)": "torch.arange(dim // 2)"},
        ),
        Mistake("the base is 1,000; it must be 10,000", {"10_000": "1_000"}),
        Mistake(
            "a cosine has an exponent of its own, (2i + 1)/D; sine and cosine of a pair share 2i/D",
            {
                "torch.arange(0, dim, 2)": "torch.arange(dim)",
                "torch.stack((": "torch.where(even % 2 == 0, ",
                "), dim=-1).flatten(-2)": ")",
            },
        ),
        Mistake(
            "the position is multiplied by 10,000^(2i/D); divide by it",
            {"/ 10_000 **": "* 10_000 **"},
        ),
        Mistake(
            "the angles have a factor 2 pi; they are in radians already",
            {"angles = torch": "angles = 2 * torch.pi * torch"},
        ),
    ),
    plug=Plug(
        part="the position encoding of encoder and decoder",
        transform=swapped(SinusoidalTable, LearnerTable, "table"),
    ),
)
