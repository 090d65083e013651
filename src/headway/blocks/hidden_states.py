"""Hidden states: h_0 = x, h_l = block_l(h_(l-1)), recorded while a stack of blocks runs.

Distillation of hidden layers trains a student to reproduce the hidden states and the attention
scores of a teacher; inspection shows how a token's vector changes from block to block. Hooks record
them from outside, so the model itself stays unchanged.

>>> import torch
>>> from headway.attention import Mask
>>> from headway.blocks import Encoder, FeedForward, FeedForwardBlock, LayerNorm, PreNorm
>>> from headway.blocks.hidden_states import layer_map, record_hidden_states
>>> layers = [FeedForward(4, 8) for _ in range(2)]
>>> blocks = [FeedForwardBlock(layer, lambda: PreNorm(LayerNorm(4))) for layer in layers]
>>> encoder = Encoder(blocks, LayerNorm(4))
>>> words = torch.randn(1, 3, 4)  # B S D: three words
>>> with record_hidden_states(encoder) as hidden:
...     memory = encoder(words, Mask())
>>> [tuple(h.shape) for h in hidden]  # the input, and the output of each of the two blocks
[(1, 3, 4), (1, 3, 4), (1, 3, 4)]
>>> torch.equal(hidden[0], words)
True
>>> layer_map(student_layers=2, teacher_layers=12)  # the blocks of the teacher to compare with
[6, 12]
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from headway.attention import KernelArguments
from headway.attention.kernel import SoftmaxKernel, spread
from headway.base.shapes import Bool, Float, Tensor
from headway.blocks.decoder import Decoder
from headway.blocks.decoder_only import DecoderOnly
from headway.blocks.encoder import Encoder, EncoderBlock


@dataclass
class BlockRecord:
    """Hidden states and attention scores of one forward pass, with their gradients.

    hidden: the input of the stack, then the output of each block. scores: the self-attention scores
    of each block before the softmax, 0 where masked. allowed: True where a query may attend.
    """

    hidden: list[Float[Tensor, "B T D"]] = field(default_factory=list)
    scores: list[Float[Tensor, "B H T T"]] = field(default_factory=list)
    allowed: list[Bool[Tensor, "#B 1 T T"]] = field(default_factory=list)


def stack_of(model: nn.Module) -> Encoder | DecoderOnly:
    """Return the only stack of self-attention blocks of a model.

    Raises ValueError if the model has none or several.
    """
    stacks = [module for module in model.modules() if isinstance(module, Encoder | DecoderOnly)]
    if len(stacks) != 1:
        raise ValueError(
            "a model with one stack of self-attention blocks was expected, "
            f"but this {type(model).__name__} has {len(stacks)}, not one"
        )
    return stacks[0]


def layer_map(student_layers: int, teacher_layers: int) -> list[int]:
    """Return g(1) ... g(M): for each student block the teacher block to compare it with.

    Blocks are counted from 1 and spread evenly. Raises ValueError if the student has more blocks
    than the teacher. Jiao et al. 2020 (TinyBERT), section 3.1.
    """
    if student_layers > teacher_layers:
        raise ValueError(f"{student_layers=} must be at most {teacher_layers=}")
    return [round(m * teacher_layers / student_layers) for m in range(1, student_layers + 1)]


@contextmanager
def record_hidden_states(
    stack: Encoder | Decoder | DecoderOnly,
) -> Iterator[list[Float[Tensor, "B T D"]]]:
    """Record the hidden states of a stack during a forward pass inside the `with` block.

    Yields a list that receives the input of the stack and then the output of each block. A block
    that is used as several layers is recorded at each call.
    """
    stream: list[Tensor] = []

    def record_input(_: nn.Module, inputs: tuple[Any, ...]) -> None:
        stream.append(inputs[0])

    def record(_: nn.Module, inputs: tuple[object, ...], output: Tensor) -> None:
        stream.append(output)

    handles = [stack.register_forward_pre_hook(record_input)]
    handles += [block.register_forward_hook(record) for block in dict.fromkeys(stack.blocks)]
    try:
        yield stream
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def record_blocks(stack: Encoder | DecoderOnly) -> Iterator[BlockRecord]:
    """Record hidden states and attention scores of a forward pass inside the `with` block.

    A block that is used as several layers is recorded at each call. Raises ValueError for blocks
    without attention and for kernels without a softmax.
    """
    inside = BlockRecord()

    def record_scores(kernel: nn.Module, inputs: KernelArguments, output: Tensor) -> None:
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
                raise ValueError(
                    f"{type(block).__name__} has no attention, so no scores can be recorded"
                )
            kernel = block.attention.kernel
            if not isinstance(kernel, SoftmaxKernel):
                raise ValueError(f"{type(kernel).__name__} has no scores before a softmax")
            handles.append(kernel.register_forward_hook(record_scores))
        with record_hidden_states(stack) as inside.hidden:
            yield inside
    finally:
        for handle in handles:
            handle.remove()
