"""A small student learns to compute what a large teacher computes: TinyBERT (lectures 3.6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from headway.blocks.watch import Inside, layer_map, stack_of, watch_blocks
from headway.linear import Linear
from headway.settings import setting
from headway.shapes import Bool, Float, Tensor
from headway.training.objectives.contract import Loss

Read = Callable[[Any, Any], Tensor]
"""(model, batch) -> logits: how a model of this kind reads a batch."""


@dataclass(frozen=True, kw_only=True)
class DistillationConfig:
    """How much each kind of difference weighs. Jiao et al. 2020, equation 11."""

    embedding: float = setting(1.0, "of what enters the first block", ge=0)
    hidden: float = setting(1.0, "of what each chosen block makes", ge=0)
    attention: float = setting(1.0, "of the scores of each chosen block's attention", ge=0)
    prediction: float = setting(1.0, "of the outputs", ge=0)
    temperature: float = setting(1.0, "divides the outputs' logits before they are compared", gt=0)


class Distilled(nn.Module):
    """A student, and the matrices that bring its vectors to its teacher's width while it learns.

    The matrices W_e and W_h are thrown away afterwards. They start as the identity where the widths
    agree. Jiao et al. 2020, equations 8 and 9.
    """

    def __init__(self, student: nn.Module, student_dim: int, teacher_dim: int) -> None:
        super().__init__()
        self.student = student
        self.project_embedding = Linear(student_dim, teacher_dim, bias=False)
        self.project_hidden = Linear(student_dim, teacher_dim, bias=False)
        self.init_projections()

    def init_projections(self) -> None:
        """Identity, or random rows of length 1."""
        for layer in (self.project_embedding, self.project_hidden):
            if layer.in_features == layer.out_features:
                nn.init.eye_(layer.weight)
            else:
                nn.init.normal_(layer.weight, std=layer.in_features**-0.5)


class DistillationObjective:
    """Weighted sum of four differences between a student and its frozen teacher, for each text:

    embedding   |E_S W_e - E_T|^2, what enters the first block; hidden |H_S W_h - H_T|^2 after each
    student block m and teacher block g(m); attention |A_S - A_T|^2, the scores before the softmax;
    prediction  -softmax(z_T / t) . log softmax(z_S / t).

    The squares are means over a text's real tokens and all dimensions (heads), summed over the
    layers. g(m) = m N / M, rounded: evenly spread, the last on the last. Jiao et al. 2020, section
    3.1; Hinton et al. 2015 (prediction).
    """

    def __init__(
        self,
        teacher: nn.Module,
        read: Read,
        config: DistillationConfig,
        axis: int = -1,
    ) -> None:
        """axis: of the logits, that which the softmax is over: classes, or a text's places."""
        self.teacher = teacher.eval().requires_grad_(False)
        self.read, self.config, self.axis = read, config, axis

    def __call__(self, model: Distilled, batch: Any) -> Loss:
        student = model.student
        with torch.no_grad(), watch_blocks(stack_of(self.teacher)) as wanted:
            teacher_logits = self.read(self.teacher, batch)
        with watch_blocks(stack_of(student)) as found:
            logits = self.read(student, batch)
        keys, config = batch.keys, self.config
        terms: list[tuple[float, Callable[[], Tensor]]] = [
            (config.embedding, lambda: _embedding(model, found, wanted, keys)),
            (config.hidden, lambda: _hidden(model, found, wanted, keys)),
            (config.attention, lambda: _attention(found, wanted, keys)),
            (config.prediction, lambda: self._prediction(logits, teacher_logits, keys)),
        ]
        weighted = [weight * term() for weight, term in terms if weight]
        if not weighted:
            raise ValueError("all weights of the distillation are 0: there is nothing to learn")
        total = torch.stack(weighted).sum()
        return Loss(total, total.detach(), keys.shape[0])

    def _prediction(
        self,
        student: Float[Tensor, "B ..."],
        teacher: Float[Tensor, "B ..."],
        keys: Bool[Tensor, "B T"],
    ) -> Float[Tensor, ""]:
        """Summed over texts; the mean over what else a text has of predictions."""
        a, b = (logits.float() / self.config.temperature for logits in (student, teacher))
        hidden_places = None
        if self.axis == 1:  # of places those of padding are no choice
            hidden_places = ~keys[:, :, None]
            a, b = a.masked_fill(hidden_places, -1e4), b.masked_fill(hidden_places, -1e4)
        nats = -(b.softmax(self.axis) * a.log_softmax(self.axis)).sum(self.axis)
        if nats.ndim == 1:
            return nats.sum()
        if self.axis == 1:
            return nats.mean(1).sum()
        return _mean_of_real(nats, keys).sum()


def _embedding(
    model: Distilled, found: Inside, wanted: Inside, keys: Bool[Tensor, "B T"]
) -> Tensor:
    return _distance(model.project_embedding(found.hidden[0]), wanted.hidden[0], keys)


def _hidden(model: Distilled, found: Inside, wanted: Inside, keys: Bool[Tensor, "B T"]) -> Tensor:
    chosen = _chosen(found.hidden[1:], wanted.hidden[1:])
    distances = [_distance(model.project_hidden(a), b, keys) for a, b in chosen]
    return torch.stack(distances).sum()


def _attention(found: Inside, wanted: Inside, keys: Bool[Tensor, "B T"]) -> Tensor:
    """Summed over texts and layers; over the pairs of real tokens and the heads the mean."""
    heads = {scores.shape[1] for scores in (*found.scores, *wanted.scores)}
    if len(heads) != 1:
        raise ValueError(
            f"student and teacher have {sorted(heads)} heads: attention cannot be compared; "
            "make them alike, or set the weight of attention to 0"
        )
    pairs = (keys[:, None, :] & keys[:, :, None])[:, None]  # B T -> B 1 T T
    count = pairs.sum((1, 2, 3)) * heads.pop()
    distances = [
        (((a.float() - b.float()) ** 2 * pairs).sum((1, 2, 3)) / count).sum()
        for a, b in _chosen(found.scores, wanted.scores)
    ]
    return torch.stack(distances).sum()


def _chosen(student: Sequence[Tensor], teacher: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    places = layer_map(len(student), len(teacher))
    return [(a, teacher[place - 1]) for a, place in zip(student, places, strict=True)]


def _distance(
    a: Float[Tensor, "B T D"], b: Float[Tensor, "B T D"], keys: Bool[Tensor, "B T"]
) -> Float[Tensor, ""]:
    """Squared, the mean over real tokens and dimensions, summed over texts."""
    return _mean_of_real(((a.float() - b.float()) ** 2).mean(-1), keys).sum()


def _mean_of_real(values: Float[Tensor, "B T"], keys: Bool[Tensor, "B T"]) -> Float[Tensor, " B"]:
    return (values * keys).sum(1) / keys.sum(1)
