"""What a stack of blocks computes on its way: for a student that is to compute the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from headway.attention.kernel import SoftmaxKernel, spread
from headway.blocks.decoder import Decoder
from headway.blocks.decoder_only import DecoderOnly
from headway.blocks.encoder import Encoder, EncoderBlock
from headway.shapes import Bool, Float, Tensor


@dataclass
class Inside:
    """What one pass left behind, gradients included.

    hidden: the stack's input, then what each block made of it. scores: those of each block's
    self-attention before the softmax, 0 where the mask hides them. allowed: where it does not.
    """

    hidden: list[Float[Tensor, "B T D"]] = field(default_factory=list)
    scores: list[Float[Tensor, "B H T T"]] = field(default_factory=list)
    allowed: list[Bool[Tensor, "#B 1 T T"]] = field(default_factory=list)


def stack_of(model: nn.Module) -> Encoder | DecoderOnly:
    """The model's one stack of self-attention blocks. ValueError if there is none, or two."""
    stacks = [module for module in model.modules() if isinstance(module, Encoder | DecoderOnly)]
    if len(stacks) != 1:
        raise ValueError(f"the model has {len(stacks)} stacks of self-attention blocks, not one")
    return stacks[0]


def layer_map(student_layers: int, teacher_layers: int) -> list[int]:
    """g(1) ... g(M): the teacher's block that each of the student's is compared with, from 1.

    ValueError for a student deeper than its teacher.
    """
    if student_layers > teacher_layers:
        raise ValueError(f"{student_layers=} must be at most {teacher_layers=}")
    return [round(m * teacher_layers / student_layers) for m in range(1, student_layers + 1)]


@contextmanager
def watch_stream(stack: Encoder | Decoder | DecoderOnly) -> Iterator[list[Float[Tensor, "B T D"]]]:
    """Keep what flows through a stack in a forward pass inside the `with` block: what enters the
    first block, then what each block made of it. A block that stands for several layers is seen at
    each of its calls."""
    stream: list[Tensor] = []

    def begin(_: nn.Module, inputs: tuple[Any, ...]) -> None:
        stream.append(inputs[0])

    def keep(_: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        stream.append(output)

    handles = [stack.register_forward_pre_hook(begin)]
    handles += [block.register_forward_hook(keep) for block in dict.fromkeys(stack.blocks)]
    try:
        yield stream
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def watch_blocks(stack: Encoder | DecoderOnly) -> Iterator[Inside]:
    """Keep what a forward pass inside the `with` block computes between the blocks.

    A block that stands for several layers is seen at each of its calls. ValueError for blocks
    without attention, or whose scores pass through no softmax.
    """
    inside = Inside()

    def score(kernel: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        assert isinstance(kernel, SoftmaxKernel)
        q, k, _, mask, *_ = inputs
        scores = kernel.scores(q, spread(k, q.shape[1]))
        allowed = mask.dense(q.shape[2], k.shape[2], q.device)
        inside.scores.append(scores.masked_fill(~allowed, 0.0))
        inside.allowed.append(allowed)

    handles = []
    try:
        for block in dict.fromkeys(stack.blocks):
            if not isinstance(block, EncoderBlock):
                raise ValueError(f"{type(block).__name__} has no attention to watch")
            kernel = block.attention.kernel
            if not isinstance(kernel, SoftmaxKernel):
                raise ValueError(f"{type(kernel).__name__} has no scores before a softmax")
            handles.append(kernel.register_forward_hook(score))
        with watch_stream(stack) as inside.hidden:
            yield inside
    finally:
        for handle in handles:
            handle.remove()
