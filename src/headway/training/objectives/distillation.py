"""Knowledge distillation of Transformers: a small student learns from a large teacher (TinyBERT).

Lectures 3.6.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import nn

from headway.base.settings import setting
from headway.base.shapes import Bool, Float, Tensor
from headway.blocks.hidden_states import BlockRecord, layer_map, record_blocks, stack_of
from headway.data.stream import Batch
from headway.training.objectives.contract import Loss
from headway.transforms.recompute import check_keeps_activations

L = TypeVar("L", bound="LayersConfig")
HIDDEN = ("embedding", "hidden", "attention")
"""The losses between hidden layers."""


@dataclass(frozen=True, kw_only=True)
class LayersConfig:
    """Weights of the losses between hidden layers. Jiao et al. 2020, equations 7 to 9."""

    embedding: float | None = setting(
        None,
        "weight of the loss between the inputs of the first block (embeddings); if unset, 1 where "
        "hidden layers are compared: in the first stage, and for a student without outputs",
        ge=0,
    )
    hidden: float | None = setting(
        None,
        "weight of the loss between hidden states, the outputs of mapped blocks; unset, as "
        "embedding",
        ge=0,
    )
    attention: float | None = setting(
        None,
        "weight of the loss between attention scores of mapped blocks; unset as embedding",
        ge=0,
    )

    @property
    def compares_hidden_layers(self) -> bool:
        """Whether any hidden layer is compared."""
        return any((self.embedding, self.hidden, self.attention))


def filled_weights(config: L, weight: float) -> L:
    """Return the settings with this weight for the losses whose weight is unset."""
    unset = [name for name in HIDDEN if getattr(config, name) is None]
    return replace(config, **dict.fromkeys(unset, weight))


@dataclass(frozen=True, kw_only=True)
class DistillationConfig(LayersConfig):
    """Weights of all losses, outputs included. Jiao et al. 2020, equations 10 and 11."""

    prediction: float = setting(1.0, "weight of the loss between outputs", ge=0)
    temperature: float = setting(
        1.0,
        "temperature of the softmax over both models' logits; higher values weigh improbable "
        "classes more",
        gt=0,
    )


@dataclass(frozen=True, kw_only=True)
class View:
    """A batch of inputs for student and teacher, and which of their outputs are compared.

    logits(model): the logits per text (B C) or per token (B T C). keys: True = real token.
    target_mask: the positions whose outputs are compared; if None, all real tokens. over_positions:
    the softmax is over the positions of a text instead of over C. weights: weight of each sequence;
    if None, 1. count: the total number of targets.
    """

    logits: Callable[[Any], Float[Tensor, "B ..."]]
    keys: Bool[Tensor, "B T"]
    target_mask: Bool[Tensor, "B T"] | None = None
    over_positions: bool = False
    weights: Float[Tensor, " B"] | None = None
    count: int


@dataclass(frozen=True)
class DistillationBatch(Batch):
    """A batch, and the weights of the losses on it."""

    batch: Any
    config: DistillationConfig

    @property
    def indices(self) -> Sequence[int]:
        """The indices of the batch's examples in the data, for messages."""
        indices: Sequence[int] = getattr(self.batch, "indices", ())
        return indices

    @property
    def examples(self) -> str:
        """The name of what the indices count, such as "lines", for messages."""
        return str(getattr(self.batch, "examples", "examples"))


class DistillationStudent(nn.Module):
    """A student, and the matrices W_e and W_h that project its vectors to the teacher's width.

    The matrices are trained with the student and discarded afterwards. They are initialised as the
    identity if the widths are equal. Jiao et al. 2020, equations 8 and 9.
    """

    def __init__(self, student: nn.Module, student_dim: int, teacher_dim: int) -> None:
        super().__init__()
        self.student = student
        self.project_embedding = nn.Linear(student_dim, teacher_dim, bias=False)
        self.project_hidden = nn.Linear(student_dim, teacher_dim, bias=False)
        self.init_projections()

    def init_projections(self) -> None:
        """Initialise as the identity, or with random rows of length 1."""
        for layer in (self.project_embedding, self.project_hidden):
            if layer.in_features == layer.out_features:
                nn.init.eye_(layer.weight)
            else:
                nn.init.normal_(layer.weight, std=layer.in_features**-0.5)


class DistillationObjective:
    """Weighted sum of four losses between a student and its frozen teacher, for each text.

    embedding: |E_S W_e - E_T|^2, the inputs of the first block. hidden: |H_S W_h - H_T|^2, the
    outputs of student block m and teacher block g(m). attention: |A_S - A_T|^2, the attention
    scores before the softmax, where the mask allows attention. prediction: -t^2 softmax(z_T / t) .
    log softmax(z_S / t); (z_S - z_T)^2 for regression models.

    The squares are averaged over a text's real tokens and over all dimensions (or heads), and
    summed over the layers. g(m) = m N / M, rounded: the M student blocks are mapped to evenly
    spaced teacher blocks, the last to the last. Jiao et al. 2020, section 3.1; Hinton et al. 2015,
    section 2 (prediction; the factor t^2 makes the size of its gradient independent of t).

    Raises UsageError for a student that recomputes activations of hidden layers that are compared.
    """

    def __init__(self, teacher: nn.Module, views: Callable[[Any], Sequence[View]]) -> None:
        """views: splits a batch into one or more views for models of this kind."""
        self.teacher = teacher.eval().requires_grad_(False)
        self.views = views

    def __call__(self, model: DistillationStudent, batch: DistillationBatch) -> Loss:
        views = self.views(batch.batch)
        total = torch.stack([self._difference(model, view, batch.config) for view in views]).sum()
        return Loss(total, total.detach(), sum(view.count for view in views))

    def _difference(
        self, model: DistillationStudent, view: View, config: DistillationConfig
    ) -> Tensor:
        with torch.no_grad(), _watched(self.teacher, config) as teacher:
            teacher_logits = view.logits(self.teacher)
        with _watched(model.student, config) as student:
            logits = view.logits(model.student)
        keys = view.keys
        terms: list[tuple[float | None, Callable[[], Tensor]]] = [
            (config.embedding, lambda: _embedding(model, student, teacher, keys)),
            (config.hidden, lambda: _hidden(model, student, teacher, keys)),
            (config.attention, lambda: _attention(student, teacher, keys)),
            (
                config.prediction,
                lambda: _prediction(logits, teacher_logits, view, config.temperature),
            ),
        ]
        weighted = [weight * term() for weight, term in terms if weight]
        if not weighted:
            raise ValueError("all weights of the distillation are 0: there is nothing to learn")
        losses = torch.stack(weighted).sum(0)  # B
        return (losses if view.weights is None else losses * view.weights).sum()


def _watched(model: nn.Module, config: DistillationConfig) -> AbstractContextManager[BlockRecord]:
    """Record hidden states and attention scores, only if they are compared: it costs time."""
    if not config.compares_hidden_layers:
        return nullcontext(BlockRecord())
    check_keeps_activations(model, "the comparison of hidden layers")
    return record_blocks(stack_of(model))


def _prediction(
    student: Float[Tensor, "B ..."], teacher: Float[Tensor, "B ..."], view: View, temperature: float
) -> Float[Tensor, " B"]:
    """Return the prediction loss per text, averaged over its outputs."""
    a, b = student.float(), teacher.float()
    if a.ndim == 2 and a.shape[1] == 1:
        return (a - b).square()[:, 0]
    a, b = a / temperature, b / temperature
    axis = 1 if view.over_positions else -1
    if view.over_positions:  # padding is no candidate
        padding = ~view.keys[:, :, None]
        a, b = a.masked_fill(padding, -1e4), b.masked_fill(padding, -1e4)
    nats = -(b.softmax(axis) * a.log_softmax(axis)).sum(axis) * temperature**2
    if nats.ndim == 1:
        return nats
    if view.over_positions:
        return nats.mean(1)
    return _mean_over(nats, view.keys if view.target_mask is None else view.target_mask)


def _embedding(
    model: DistillationStudent,
    student: BlockRecord,
    teacher: BlockRecord,
    keys: Bool[Tensor, "B T"],
) -> Float[Tensor, " B"]:
    return _distance(model.project_embedding(student.hidden[0]), teacher.hidden[0], keys)


def _hidden(
    model: DistillationStudent,
    student: BlockRecord,
    teacher: BlockRecord,
    keys: Bool[Tensor, "B T"],
) -> Float[Tensor, " B"]:
    mapped = _mapped(student.hidden[1:], teacher.hidden[1:])
    distances = [_distance(model.project_hidden(a), b, keys) for a, b in mapped]
    return torch.stack(distances).sum(0)


def _attention(
    student: BlockRecord, teacher: BlockRecord, keys: Bool[Tensor, "B T"]
) -> Float[Tensor, " B"]:
    """Return the attention loss per text.

    It is the sum over layers of the mean over heads and pairs of real tokens that may attend.
    """
    heads = {scores.shape[1] for scores in (*student.scores, *teacher.scores)}
    if len(heads) != 1:
        raise ValueError(
            f"student and teacher have {sorted(heads)} heads, so that their attention cannot be "
            "compared; use the same number of heads, or set the weight of attention to 0"
        )
    real = (keys[:, None, :] & keys[:, :, None])[:, None]  # B T -> B 1 T T
    pairs = real & teacher.allowed[0]
    count = pairs.sum((1, 2, 3)) * heads.pop()
    distances = [
        ((a.float() - b.float()) ** 2 * pairs).sum((1, 2, 3)) / count
        for a, b in _mapped(student.scores, teacher.scores)
    ]
    return torch.stack(distances).sum(0)


def _mapped(student: Sequence[Tensor], teacher: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Pair each student block with its teacher block g(m)."""
    blocks = layer_map(len(student), len(teacher))
    return [(a, teacher[block - 1]) for a, block in zip(student, blocks, strict=True)]


def _distance(
    a: Float[Tensor, "B T D"], b: Float[Tensor, "B T D"], keys: Bool[Tensor, "B T"]
) -> Float[Tensor, " B"]:
    """Return the squared distance per text, averaged over real tokens and dimensions."""
    return _mean_over(((a.float() - b.float()) ** 2).mean(-1), keys)


def _mean_over(values: Float[Tensor, "B T"], chosen: Bool[Tensor, "B T"]) -> Float[Tensor, " B"]:
    return (values * chosen).sum(1) / chosen.sum(1).clamp(min=1)
