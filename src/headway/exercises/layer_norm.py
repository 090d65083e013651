"""Exercise: layer normalisation."""

from __future__ import annotations

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


def _norm(
    x: Tensor, gain: Tensor, shift: Tensor, eps: float, axes: tuple[int, ...] = (-1,)
) -> Tensor:
    mean = x.mean(axes, keepdim=True)
    variance = x.var(axes, correction=0, keepdim=True)
    return gain * (x - mean) / (variance + eps).sqrt() + shift


def _corrected(x: Tensor, gain: Tensor, shift: Tensor, eps: float) -> Tensor:
    variance = x.var(-1, keepdim=True)
    return gain * (x - x.mean(-1, keepdim=True)) / (variance + eps).sqrt() + shift


def _by_variance(x: Tensor, gain: Tensor, shift: Tensor, eps: float) -> Tensor:
    variance = x.var(-1, correction=0, keepdim=True)
    return gain * (x - x.mean(-1, keepdim=True)) / (variance + eps) + shift


def _rms(x: Tensor, gain: Tensor, shift: Tensor, eps: float) -> Tensor:
    return gain * x / (x.square().mean(-1, keepdim=True) + eps).sqrt() + shift


def _uncentred(x: Tensor, gain: Tensor, shift: Tensor, eps: float) -> Tensor:
    return gain * x / (x.var(-1, correction=0, keepdim=True) + eps).sqrt() + shift


def _eps_outside(x: Tensor, gain: Tensor, shift: Tensor, eps: float) -> Tensor:
    deviation = x.var(-1, correction=0, keepdim=True).sqrt()
    return gain * (x - x.mean(-1, keepdim=True)) / (deviation + eps) + shift


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
            _corrected,
            "the variance divides by D - 1; layer norm divides by D (`correction=0`)",
        ),
        Mistake(_by_variance, "x is divided by the variance: the square root is missing"),
        Mistake(
            lambda x, g, s, e: _norm(x, g, s, e, (1,)),
            "mean and variance are over the positions (axis 1); take them over the features of "
            "each position (axis -1)",
        ),
        Mistake(
            lambda x, g, s, e: _norm(x, g, s, e, (0,)),
            "mean and variance are over the batch (batch norm); take them over the features",
        ),
        Mistake(
            lambda x, g, s, e: _norm(x, torch.ones_like(g), torch.zeros_like(s), e),
            "gain and shift are not applied",
        ),
        Mistake(lambda x, g, s, e: _norm(x, g, s, 0.0), "eps is not added to the variance"),
        Mistake(_rms, "the mean is not subtracted: this is RMSNorm"),
        Mistake(_uncentred, "the mean is not subtracted from x"),
        Mistake(
            _eps_outside,
            "eps is added to the root; it belongs under the root, (variance + eps).sqrt()",
        ),
        Mistake(
            lambda x, gain, shift, eps: _reference(x, shift, gain, eps),
            "gain and shift are swapped: the gain is a factor, the shift a summand",
        ),
        Mistake(
            lambda x, gain, shift, eps: (
                gain * (_reference(x, torch.ones_like(gain), 0 * shift, eps) + shift)
            ),
            "the shift is multiplied by the gain, too: gain * normed + shift",
        ),
    ),
    plug=Plug(part="all layer norms", transform=swapped(LayerNorm, LearnerNorm, "norm")),
)
