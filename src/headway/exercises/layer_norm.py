"""Exercise: layer normalisation."""

import torch

from headway.base.shapes import Tensor
from headway.blocks import LayerNorm
from headway.exercises.contract import Case, Exercise, Function, Mistake, Plug
from headway.exercises.inputs import normal
from headway.exercises.plugging import swapped


class LearnerNorm(LayerNorm):
    """Layer norm by the learner's function."""

    norm: Function

    def forward(self, x: Tensor) -> Tensor:
        normed: Tensor = self.norm(x, self.gain, self.shift, self.eps)
        return normed


def _reference(x: Tensor, gain: Tensor, shift: Tensor, eps: float) -> Tensor:
    return torch.nn.functional.layer_norm(x, gain.shape, gain, shift, eps)


def _random(seed: int) -> tuple[object, ...]:
    return 2 * normal(seed, 2, 5, 4) + 1, normal(seed + 1, 4), normal(seed + 2, 4), 1e-5


EXERCISE = Exercise(
    name="layer-norm",
    equation="""
y = gain * (x - mean(x)) / sqrt(var(x) + eps) + shift
Mean and variance are those of the D features of one position; var divides by D.""",
    shapes="x: B T D\ngain, shift: D\neps: a small number\nresult: B T D",
    signature="def layer_norm(x: Tensor, gain: Tensor, shift: Tensor, eps: float) -> Tensor:",
    body="""
mean = x.mean(-1, keepdim=True)
variance = (x - mean).square().mean(-1, keepdim=True)
return gain * (x - mean) / (variance + eps).sqrt() + shift""",
    hints=(
        "`keepdim=True` keeps the axis, so that B T 1 can be subtracted from B T D.",
        "`x.var` divides by D - 1 by default; use `correction=0`, or the mean of squares.",
        "eps is inside the square root.",
    ),
    reference=_reference,
    cases=(
        Case(
            rung="worked example",
            arguments=(torch.tensor([[[1.0, 3.0], [100.0, 300.0]]]), *torch.ones(2, 2), 0.0),
            expected=torch.tensor([[[0.0, 2.0], [0.0, 2.0]]]),
            why="(1, 3): mean 2, variance ((-1)^2 + 1^2) / 2 = 1, so (-1, 1), plus a shift of 1",
        ),
        Case(
            rung="epsilon",
            arguments=(torch.tensor([[[1.0, 3.0]]]), torch.ones(2), torch.zeros(2), 3.0),
            expected=torch.tensor([[[-0.5, 0.5]]]),
            why="eps = 3: sqrt(1 + 3) = 2, so (-1, 1) / 2",
        ),
    ),
    random=_random,
    gradients=True,
    mistakes=(
        Mistake(
            "the variance divides by D - 1; layer norm divides by D (`correction=0`)",
            {"(x - mean).square().mean(-1, keepdim=True)": "x.var(-1, keepdim=True)"},
        ),
        Mistake("x is divided by the variance: the square root is missing", {".sqrt()": ""}),
        Mistake(
            "mean and variance are over the positions (axis 1); take them over the features of "
            "each position (axis -1)",
            {"mean(-1,": "mean(1,"},
        ),
        Mistake(
            "mean and variance are over the batch (batch norm); take them over the features",
            {"mean(-1,": "mean(0,"},
        ),
        Mistake(
            "gain and shift are not applied", {"gain * (x - mean)": "(x - mean)", " + shift": ""}
        ),
        Mistake("eps is not added to the variance", {"variance + eps": "variance"}),
        Mistake(
            "the mean is not subtracted: this is RMSNorm",
            {"(x - mean).square()": "x.square()", "gain * (x - mean)": "gain * x"},
        ),
        Mistake("the mean is not subtracted from x", {"gain * (x - mean)": "gain * x"}),
        Mistake(
            "eps is added to the root; it belongs under the root, (variance + eps).sqrt()",
            {"(variance + eps).sqrt()": "(variance.sqrt() + eps)"},
        ),
        Mistake(
            "gain and shift are swapped: the gain is a factor, the shift a summand",
            {"gain * (x - mean)": "shift * (x - mean)", "+ shift": "+ gain"},
        ),
        Mistake(
            "the shift is multiplied by the gain, too: gain * normed + shift",
            {"gain * (x": "gain * ((x", " + shift": " + shift)"},
        ),
    ),
    plug=Plug(part="all layer norms", transform=swapped(LayerNorm, LearnerNorm, "norm")),
)
