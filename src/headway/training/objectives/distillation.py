"""A small model learns what a large one makes of the same text: its layers, then its answers.

Jiao et al. 2020 (TinyBERT), section 3; the equations' numbers are theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from headway.attention import Kernel, SoftmaxKernel
from headway.attention.kernel import spread
from headway.data.framed import FramedBatch
from headway.linear import Linear
from headway.models import Bert
from headway.shapes import Bool, Float, Tensor
from headway.training.objectives.contract import Loss


def every_nth(student: int, teacher: int) -> tuple[int, ...]:
    """g(1) ... g(M): from which block of the teacher, counted from 1, each of the student's learns.

    g(m) = m N / M, so that the last learns from the last. Section 4.1 (uniform strategy).
    ValueError unless the student's number of blocks M divides the teacher's N.
    """
    if student < 1 or teacher % student:
        raise ValueError(f"{teacher=} blocks must be a multiple of {student=}")
    return tuple(m * teacher // student for m in range(1, student + 1))


@dataclass
class Seen:
    """What a model made on its way. hidden: what entered the first block, then what left each one.
    attention: scores of each block's self-attention."""

    hidden: list[Float[Tensor, "B T D"]] = field(default_factory=list)
    attention: list[Float[Tensor, "B H T T"]] = field(default_factory=list)


@contextmanager
def watched(blocks: Sequence[nn.Module], weights: bool = False) -> Iterator[Seen]:
    """Keep what the blocks of a stack make in one forward pass, with its gradient.

    weights: attention after the softmax instead of before. Blocks that are used several times are
    seen each time. ValueError for a kernel without a softmax.
    """
    seen = Seen()

    def after_block(block: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        if not seen.hidden:
            seen.hidden.append(inputs[0])
        seen.hidden.append(output)

    def after_kernel(kernel: SoftmaxKernel, inputs: tuple[Any, ...], output: Tensor) -> None:
        q, k, _, mask, *rest = inputs
        if weights:
            seen.attention.append(kernel.weights(q, k, mask, *rest))
            return
        scores = kernel.scores(q, spread(k, q.shape[1]))
        bias = next(iter(rest), None)
        seen.attention.append(scores if bias is None else scores + bias)

    handles = []
    for block in dict.fromkeys(blocks):
        handles.append(block.register_forward_hook(after_block))
        for kernel in (module for module in block.modules() if isinstance(module, Kernel)):
            if not isinstance(kernel, SoftmaxKernel):
                raise ValueError(f"{type(kernel).__name__} has no scores before a softmax")
            handles.append(kernel.register_forward_hook(after_kernel))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def attention_error(
    student: Float[Tensor, "B H T T"], teacher: Float[Tensor, "B G T T"], keys: Bool[Tensor, "B T"]
) -> Float[Tensor, " B"]:
    """1/H sum_h MSE(A_h of the student, A_h of the teacher), over each text's real tokens.

    Equation 7, where A are the scores before the softmax. ValueError for unequal heads.
    """
    if student.shape[1] != teacher.shape[1]:
        raise ValueError(
            f"the student has {student.shape[1]} heads, the teacher {teacher.shape[1]}: scores are "
            "compared head by head"
        )
    real = (keys[:, :, None] & keys[:, None]).to(student.dtype)  # B T T
    squares = (student - teacher).square().mean(1)  # B H T T -> B T T
    return (squares * real).sum((1, 2)) / real.sum((1, 2))


def hidden_error(
    student: Float[Tensor, "B T D"], teacher: Float[Tensor, "B T D"], keys: Bool[Tensor, "B T"]
) -> Float[Tensor, " B"]:
    """MSE(H of the student, H of the teacher), over each text's real tokens. Equations 8 and 9."""
    real = keys.to(student.dtype)
    squares = (student - teacher).square().mean(-1)  # B T D -> B T
    return (squares * real).sum(1) / real.sum(1)


def soft_cross_entropy(
    student: Float[Tensor, "*B C"], teacher: Float[Tensor, "*B C"], temperature: float = 1.0
) -> Float[Tensor, "*B"]:
    """-sum_c softmax(z / t)_c of the teacher, times log softmax(z / t)_c of the student.

    z are logits, t is the temperature. Equation 10 (Hinton et al. 2015).
    """
    wanted = (teacher.float() / temperature).softmax(-1)
    found: Tensor = -(wanted * (student.float() / temperature).log_softmax(-1)).sum(-1)
    return found


class Student(nn.Module):
    """A model that learns from a wider one, with the matrices W_e and W_h that make its vectors as
    wide as the teacher's. They learn with it, and are of no use afterwards: save `model` alone.

    model: a `Bert`, or what has one as `bert`.
    """

    def __init__(self, model: nn.Module, teacher_dim: int) -> None:
        super().__init__()
        self.model = model
        width = encoder_of(model).config.model_dim
        self.embeddings = Linear(width, teacher_dim, bias=False)
        self.hidden = Linear(width, teacher_dim, bias=False)


def encoder_of(model: nn.Module) -> Bert:
    """The encoder of a model that is one or stands on one. ValueError for others."""
    found = model if isinstance(model, Bert) else getattr(model, "bert", None)
    if not isinstance(found, Bert):
        raise ValueError(f"a {type(model).__name__} has no encoder to learn from")
    return found


@dataclass(frozen=True)
class LayersObjective:
    """MSE(E W_e, E of the teacher) + sum_m [MSE(H_m W_h, H_g(m)) + attention_error(A_m, A_g(m))].

    E is what enters the first block, H_m and A_m what block m makes. Equations 6 to 9 and 11, all
    lambda 1. layers: g, as `every_nth` gives it. weights: A after the softmax. The target that is
    counted is the text.
    """

    teacher: nn.Module
    layers: tuple[int, ...]
    weights: bool = False

    def __call__(self, model: Student, batch: FramedBatch) -> Loss:
        with torch.no_grad():
            wanted = self._seen(self.teacher.eval(), batch)
        found = self._seen(model.model, batch)
        if len(self.layers) != len(found.attention) or max(self.layers) > len(wanted.attention):
            raise ValueError(
                f"layers={self.layers} must name for each of {len(found.attention)} blocks one of "
                f"the teacher's {len(wanted.attention)}"
            )
        keys = batch.keys
        total = hidden_error(model.embeddings(found.hidden[0]), wanted.hidden[0], keys)
        for m, n in enumerate(self.layers, start=1):
            total = total + hidden_error(model.hidden(found.hidden[m]), wanted.hidden[n], keys)
            scores = found.attention[m - 1], wanted.attention[n - 1]
            total = total + attention_error(*scores, keys)
        summed = total.sum()
        return Loss(summed, summed.detach(), len(keys))

    def _seen(self, model: nn.Module, batch: FramedBatch) -> Seen:
        bert = encoder_of(model)
        blocks: Any = bert.encoder.blocks
        with watched(list(blocks), self.weights) as seen:
            bert.encode(batch.tokens, batch.keys, batch.types)
        return seen


@dataclass(frozen=True)
class PredictionObjective:
    """`soft_cross_entropy` of the student's logits and the teacher's, one set of them a text.

    Equation 10 and the last case of 11. teacher: a classifier, as `model.model` is.
    """

    teacher: nn.Module
    temperature: float = 1.0

    def __call__(self, model: Student, batch: FramedBatch) -> Loss:
        with torch.no_grad():
            wanted = self.teacher.eval()(batch.tokens, batch.keys, batch.types)
        found = model.model(batch.tokens, batch.keys, batch.types)
        total = soft_cross_entropy(found, wanted, self.temperature).sum()
        return Loss(total, total.detach(), len(found))
