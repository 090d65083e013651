"""Exercise: the Transformer block."""

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


def _attend(x: Tensor) -> Tensor:
    """Each position gets the mean of all positions."""
    return x.mean(1, keepdim=True).expand_as(x) * 0.5


def _feed(x: Tensor) -> Tensor:
    return torch.relu(x) * 2.0


def _first_norm(x: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:])


def _second_norm(x: Tensor) -> Tensor:
    return 3.0 * torch.nn.functional.layer_norm(x, x.shape[-1:]) + 0.5


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
            "both residual connections are missing: a sublayer adds to x, x + sublayer(norm(x))",
            {"x = x + ": "x = ", "return x + ": "return "},
        ),
        Mistake(
            "the residual connection around the feed-forward layer is missing",
            {"return x + ": "return "},
        ),
        Mistake("the residual connection around the attention is missing", {"x = x + ": "x = "}),
        Mistake(
            "this is post-norm: norm(x + sublayer(x)); pre-norm is required",
            {
                "x + attention(norm1(x))": "norm1(x + attention(x))",
                "x + feedforward(norm2(x))": "norm2(x + feedforward(x))",
            },
        ),
        Mistake(
            "the feed-forward layer reads the input of the block; it must read the sum after the "
            "attention",
            {"x = x + attention": "y = x + attention", "return x": "return y"},
        ),
        Mistake(
            "the normed vector is added; the residual connection adds x itself, without norm",
            {
                "x + attention(norm1(x))": ("norm1(x)\nx = x + attention(x)"),
                "return x + feedforward(norm2(x))": ("x = norm2(x)\nreturn x + feedforward(x)"),
            },
        ),
        Mistake("the norms are not applied", {"norm1(x)": "x", "norm2(x)": "x"}),
        Mistake("norm1 is used twice; the second sublayer has norm2", {"norm2(x)": "norm1(x)"}),
        Mistake(
            "the order is swapped: attention first, then the feed-forward layer",
            {"attention": "first", "feedforward": "attention", "first": "feedforward"},
        ),
        Mistake(
            "the outputs of the sublayers are normed; pre-norm norms their inputs",
            {
                "attention(norm1(x))": "norm1(attention(x))",
                "feedforward(norm2(x))": "norm2(feedforward(x))",
            },
        ),
    ),
    plug=Plug(part="the encoder blocks", transform=swapped(EncoderBlock, LearnerBlock, "block")),
)
