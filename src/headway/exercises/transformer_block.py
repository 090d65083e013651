"""Exercise: the Transformer block."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from headway.attention import LayerCache, Step
from headway.base.shapes import Tensor
from headway.blocks import EncoderBlock, PreNorm
from headway.exercises.contract import Case, Exercise, Function, Mistake, Plug
from headway.exercises.inputs import normal
from headway.exercises.plugging import swapped


class LearnerBlock(EncoderBlock):
    """An encoder block whose sublayers the learner's function connects."""

    block: Function

    def forward(self, x: Tensor, step: Step, cache: LayerCache | None = None) -> Tensor:
        arounds: Any = (self.around_attention, self.around_feedforward)
        norms = [around.norm for around in arounds]
        result: Tensor = self.block(
            x, lambda y: self.attention(y, y, step.mask, step), self.feedforward, *norms
        )
        return result


class _Pluggable(nn.Module):
    """A function as a module, for `PreNorm`."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.function(x)
        return result


def _reference(x: Tensor, attend: Function, feed: Function, n1: Function, n2: Function) -> Tensor:
    x = PreNorm(_Pluggable(n1))(x, attend)
    result: Tensor = PreNorm(_Pluggable(n2))(x, feed)
    return result


def _post_norm(x: Tensor, attend: Function, feed: Function, n1: Function, n2: Function) -> Tensor:
    x = n1(x + attend(x))
    result: Tensor = n2(x + feed(x))
    return result


def _parallel(x: Tensor, attend: Function, feed: Function, n1: Function, n2: Function) -> Tensor:
    result: Tensor = x + attend(n1(x)) + feed(n2(x))
    return result


def _normed(x: Tensor, attend: Function, feed: Function, n1: Function, n2: Function) -> Tensor:
    y = n1(x)
    y = y + attend(y)
    z = n2(y)
    result: Tensor = z + feed(z)
    return result


def _no_norm(x: Tensor, attend: Function, feed: Function, n1: Function, n2: Function) -> Tensor:
    x = x + attend(x)
    result: Tensor = x + feed(x)
    return result


def _attend(x: Tensor) -> Tensor:
    """Each position gets the mean of all positions."""
    return x.mean(1, keepdim=True).expand_as(x) * 0.5


def _feed(x: Tensor) -> Tensor:
    return torch.relu(x) * 2.0


def _first_norm(x: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:])


def _second_norm(x: Tensor) -> Tensor:
    return 3.0 * torch.nn.functional.layer_norm(x, x.shape[-1:]) + 0.5


def _norm_of_outputs(
    x: Tensor, attend: Function, feed: Function, n1: Function, n2: Function
) -> Tensor:
    x = x + n1(attend(x))
    result: Tensor = x + n2(feed(x))
    return result


def _random(seed: int) -> tuple[object, ...]:
    return normal(seed, 2, 5, 4), _attend, _feed, _first_norm, _second_norm


EXERCISE = Exercise(
    name="transformer-block",
    equation="""
y = x + attention(norm1(x))
result = y + feedforward(norm2(y))          (an encoder block with pre-norm)""",
    shapes=(
        "x: B T D\nattention, feedforward, norm1, norm2: functions B T D -> B T D\nresult: B T D"
    ),
    signature="def block(x: Tensor, attention, feedforward, norm1, norm2) -> Tensor:",
    body="""
x = x + attention(norm1(x))
return x + feedforward(norm2(x))""",
    hints=(
        "Two sublayers, one after the other; each adds a change to the vectors.",
        "The norm is applied to the input of a sublayer, not to the sum.",
        "The second sublayer reads the result of the first.",
    ),
    reference=_reference,
    cases=(
        Case(
            rung="worked example",
            arguments=(
                torch.tensor([[[1.0]]]),
                lambda y: 10 * y,
                lambda y: y + 3,
                lambda y: y + 1,
                lambda y: 2 * y,
            ),
            expected=torch.tensor([[[66.0]]]),
            why=(
                "x = 1, norm1 adds 1, attention multiplies by 10: y = 1 + 10 (1 + 1) = 21; norm2 "
                "doubles, feedforward adds 3: 21 + (42 + 3) = 66"
            ),
        ),
        Case(
            rung="residual connection",
            arguments=(normal(1, 1, 2, 3), torch.zeros_like, torch.zeros_like, *[_first_norm] * 2),
            why="if both sublayers return 0, the block returns x unchanged",
        ),
    ),
    random=_random,
    gradients=False,
    mistakes=(
        Mistake(
            lambda x, a, f, n1, n2: f(n2(a(n1(x)))),
            "both residual connections are missing: a sublayer adds to x, x + sublayer(norm(x))",
        ),
        Mistake(
            lambda x, a, f, n1, n2: f(n2(x + a(n1(x)))),
            "the residual connection around the feed-forward layer is missing",
        ),
        Mistake(
            lambda x, a, f, n1, n2: a(n1(x)) + f(n2(a(n1(x)))),
            "the residual connection around the attention is missing",
        ),
        Mistake(_post_norm, "this is post-norm: norm(x + sublayer(x)); pre-norm is required"),
        Mistake(
            _parallel,
            "the feed-forward layer reads the input of the block; it must read the sum after the "
            "attention",
        ),
        Mistake(
            _normed,
            "the normed vector is added; the residual connection adds x itself, without norm",
        ),
        Mistake(_no_norm, "the norms are not applied"),
        Mistake(
            lambda x, a, f, n1, n2: _reference(x, a, f, n1, n1),
            "norm1 is used twice; the second sublayer has norm2",
        ),
        Mistake(
            lambda x, a, f, n1, n2: _reference(x, f, a, n1, n2),
            "the order is swapped: attention first, then the feed-forward layer",
        ),
        Mistake(
            _norm_of_outputs,
            "the outputs of the sublayers are normed; pre-norm norms their inputs",
        ),
    ),
    plug=Plug(part="the encoder blocks", transform=swapped(EncoderBlock, LearnerBlock, "block")),
)
