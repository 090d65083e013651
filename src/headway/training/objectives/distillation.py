"""A small student learns to compute what a large teacher computes: TinyBERT (lectures 3.6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from headway.blocks.hidden_states import Inside, layer_map, stack_of, watch_blocks
from headway.settings import setting
from headway.shapes import Bool, Float, Tensor
from headway.training.objectives.contract import Loss


@dataclass(frozen=True, kw_only=True)
class LayersConfig:
    """How much each difference inside the models weighs. Jiao et al. 2020, equations 7 to 9."""

    embedding: float = setting(1.0, "weight of what enters the first block", ge=0)
    hidden: float = setting(1.0, "weight of what each chosen block makes", ge=0)
    attention: float = setting(1.0, "weight of the scores of each chosen block's attention", ge=0)

    @property
    def looks_inside(self) -> bool:
        return any((self.embedding, self.hidden, self.attention))


@dataclass(frozen=True, kw_only=True)
class DistillationConfig(LayersConfig):
    """Those, and the outputs. Jiao et al. 2020, equations 10 and 11."""

    prediction: float = setting(1.0, "weight of the outputs", ge=0)
    temperature: float = setting(1.0, "divides the outputs' logits before they are compared", gt=0)


@dataclass(frozen=True, kw_only=True)
class View:
    """A batch as student and teacher read it.

    logits(model): B C, of each text; or B T C, of each place. keys: True = real token. asked: the
    places whose outputs are compared; None for all real ones. over_places: the softmax is over a
    text's places and not over C. weights: how much each row counts, None for 1 each. count: of what
    they count, in all.
    """

    logits: Callable[[Any], Float[Tensor, "B ..."]]
    keys: Bool[Tensor, "B T"]
    asked: Bool[Tensor, "B T"] | None = None
    over_places: bool = False
    weights: Float[Tensor, " B"] | None = None
    count: int


@dataclass(frozen=True)
class Lesson:
    """A batch, and what is compared of it."""

    batch: Any
    config: DistillationConfig

    @property
    def indices(self) -> Sequence[int]:
        """Where in the data the batch stands, for messages."""
        found: Sequence[int] = getattr(self.batch, "indices", ())
        return found

    @property
    def examples(self) -> str:
        """What they count, for messages."""
        return str(getattr(self.batch, "examples", "examples"))


class Distilled(nn.Module):
    """A student, and the matrices that bring its vectors to its teacher's width while it learns.

    The matrices W_e and W_h are thrown away afterwards. They start as the identity where the widths
    agree. Jiao et al. 2020, equations 8 and 9.
    """

    def __init__(self, student: nn.Module, student_dim: int, teacher_dim: int) -> None:
        super().__init__()
        self.student = student
        self.project_embedding = nn.Linear(student_dim, teacher_dim, bias=False)
        self.project_hidden = nn.Linear(student_dim, teacher_dim, bias=False)
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
    student block m and teacher block g(m); attention |A_S - A_T|^2, the scores before the softmax,
    where the mask lets them count; prediction  -t^2 softmax(z_T / t) . log softmax(z_S / t), of a
    model of numbers (z_S - z_T)^2.

    The squares are means over a text's real tokens and all dimensions (heads), summed over the
    layers. g(m) = m N / M, rounded: evenly spread, the last on the last. Jiao et al. 2020, section
    3.1; Hinton et al. 2015, section 2 (prediction; t^2 keeps its gradient's size whatever t is).
    """

    def __init__(self, teacher: nn.Module, views: Callable[[Any], Sequence[View]]) -> None:
        """views: a batch, once or in parts, as models of this kind read it."""
        self.teacher = teacher.eval().requires_grad_(False)
        self.views = views

    def __call__(self, model: Distilled, batch: Lesson) -> Loss:
        views = self.views(batch.batch)
        total = torch.stack([self._difference(model, view, batch.config) for view in views]).sum()
        return Loss(total, total.detach(), sum(view.count for view in views))

    def _difference(self, model: Distilled, view: View, config: DistillationConfig) -> Tensor:
        with torch.no_grad(), _watched(self.teacher, config) as wanted:
            teacher_logits = view.logits(self.teacher)
        with _watched(model.student, config) as found:
            logits = view.logits(model.student)
        keys = view.keys
        terms: list[tuple[float, Callable[[], Tensor]]] = [
            (config.embedding, lambda: _embedding(model, found, wanted, keys)),
            (config.hidden, lambda: _hidden(model, found, wanted, keys)),
            (config.attention, lambda: _attention(found, wanted, keys)),
            (
                config.prediction,
                lambda: _prediction(logits, teacher_logits, view, config.temperature),
            ),
        ]
        weighted = [weight * term() for weight, term in terms if weight]
        if not weighted:
            raise ValueError("all weights of the distillation are 0: there is nothing to learn")
        a_row = torch.stack(weighted).sum(0)  # B
        return (a_row if view.weights is None else a_row * view.weights).sum()


def _watched(model: nn.Module, config: DistillationConfig) -> AbstractContextManager[Inside]:
    """Scores are computed once more to be seen, so only where something inside is compared."""
    return watch_blocks(stack_of(model)) if config.looks_inside else nullcontext(Inside())


def _prediction(
    student: Float[Tensor, "B ..."], teacher: Float[Tensor, "B ..."], view: View, temperature: float
) -> Float[Tensor, " B"]:
    """The mean over what a text has of outputs."""
    a, b = student.float(), teacher.float()
    if a.ndim == 2 and a.shape[1] == 1:
        return (a - b).square()[:, 0]
    a, b = a / temperature, b / temperature
    axis = 1 if view.over_places else -1
    if view.over_places:  # padding is no choice
        hidden = ~view.keys[:, :, None]
        a, b = a.masked_fill(hidden, -1e4), b.masked_fill(hidden, -1e4)
    nats = -(b.softmax(axis) * a.log_softmax(axis)).sum(axis) * temperature**2
    if nats.ndim == 1:
        return nats
    if view.over_places:
        return nats.mean(1)
    return _mean_over(nats, view.keys if view.asked is None else view.asked)


def _embedding(
    model: Distilled, found: Inside, wanted: Inside, keys: Bool[Tensor, "B T"]
) -> Float[Tensor, " B"]:
    return _distance(model.project_embedding(found.hidden[0]), wanted.hidden[0], keys)


def _hidden(
    model: Distilled, found: Inside, wanted: Inside, keys: Bool[Tensor, "B T"]
) -> Float[Tensor, " B"]:
    chosen = _chosen(found.hidden[1:], wanted.hidden[1:])
    distances = [_distance(model.project_hidden(a), b, keys) for a, b in chosen]
    return torch.stack(distances).sum(0)


def _attention(found: Inside, wanted: Inside, keys: Bool[Tensor, "B T"]) -> Float[Tensor, " B"]:
    """Summed over layers; the mean over heads and those pairs of real tokens that may attend."""
    heads = {scores.shape[1] for scores in (*found.scores, *wanted.scores)}
    if len(heads) != 1:
        raise ValueError(
            f"student and teacher have {sorted(heads)} heads: attention cannot be compared; "
            "make them alike, or set the weight of attention to 0"
        )
    both = (keys[:, None, :] & keys[:, :, None])[:, None]  # B T -> B 1 T T
    pairs = both & wanted.allowed[0]
    count = pairs.sum((1, 2, 3)) * heads.pop()
    distances = [
        ((a.float() - b.float()) ** 2 * pairs).sum((1, 2, 3)) / count
        for a, b in _chosen(found.scores, wanted.scores)
    ]
    return torch.stack(distances).sum(0)


def _chosen(student: Sequence[Tensor], teacher: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    places = layer_map(len(student), len(teacher))
    return [(a, teacher[place - 1]) for a, place in zip(student, places, strict=True)]


def _distance(
    a: Float[Tensor, "B T D"], b: Float[Tensor, "B T D"], keys: Bool[Tensor, "B T"]
) -> Float[Tensor, " B"]:
    """Squared, the mean over real tokens and dimensions."""
    return _mean_over(((a.float() - b.float()) ** 2).mean(-1), keys)


def _mean_over(values: Float[Tensor, "B T"], chosen: Bool[Tensor, "B T"]) -> Float[Tensor, " B"]:
    return (values * chosen).sum(1) / chosen.sum(1).clamp(min=1)
