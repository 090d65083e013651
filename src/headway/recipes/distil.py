"""Small students of classifiers as a run: a teacher and its texts in, a smaller classifier out.

Jiao et al. 2020 (TinyBERT), section 3.2; Sanh et al. 2019 (what a student begins with).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.bundle import ClassifierBundle, load, load_as
from headway.data.by_length import ByLength
from headway.data.labelled import LabelledBatch
from headway.errors import UsageError
from headway.machine import Machine
from headway.models import BertClassifier, parameter_count, student_config, student_of
from headway.recipes.classify import score_texts
from headway.recipes.classify_data import PreparedTexts, check_files, prepare_as
from headway.recipes.distil_config import DistilRunConfig
from headway.recipes.family import Emit, Family, Job
from headway.shapes import Float, Tensor
from headway.training import DistillationObjective, Distilled, Stream


class DistilJob:
    """A `Job`: a trained classifier, a smaller one that learns to compute the same, and texts.

    The texts' labels are for the scores alone; the student learns from its teacher.
    """

    def __init__(
        self,
        config: DistilRunConfig,
        prepared: PreparedTexts,
        teacher: BertClassifier,
        machine: Machine,
    ) -> None:
        self.config, self.prepared, self.machine = config, prepared, machine
        self.teacher = teacher.to(machine.device).eval()
        training = config.training
        self.pad = prepared.reader.pad
        train = prepared.train
        self.rows = ByLength(
            train.lengths,
            lambda chosen: train.batch(chosen, self.pad).to(machine.device),
            training.rows,
            training.seed,
        )
        self.objective = DistillationObjective(self.teacher, read, config.distillation)

    def build(self) -> nn.Module:
        teacher, width = self.teacher, self.teacher.config.bert.model_dim
        student = _earlier(self.config, teacher) or _fresh(self.config, teacher)
        return Distilled(student, student.config.bert.model_dim, width)

    def stream(self, epoch: int, position: int) -> Stream:
        return self.rows.stream(epoch, position)

    @torch.inference_mode()
    def evaluate(
        self, model: Any, emit: Callable[..., None], go_on: Callable[..., None]
    ) -> dict[str, float]:
        """The student's scores on the held-out texts, and the mean difference from its teacher."""
        student = model.student if isinstance(model, Distilled) else model
        rows = self.config.training.rows
        return score_texts(student, self.prepared, rows, self.machine, go_on)

    def save(self, model: Any, folder: Path) -> None:
        ClassifierBundle(model.student, self.prepared.reader).save(folder, overwrite=True)

    def plan(self) -> dict[str, Any]:
        body, training = self.teacher.config.bert, self.config.training
        shape = {**{"model_dim": body.model_dim}, **_given(self.config)}
        return {
            "model": f"{shape['num_layers']} layers, d={shape['model_dim']}, from a teacher of "
            f"{body.num_layers} layers, d={body.model_dim}, "
            f"{parameter_count(self.teacher) / 1e6:.1f} M parameters",
            "batches": f"{training.rows * training.accumulate:,} texts",
            "batches_an_epoch": self.rows.batches_an_epoch,
            "unit": "texts",
        }


def read(model: Any, batch: LabelledBatch) -> Float[Tensor, "B C"]:
    """Logits of a batch's texts."""
    logits: Tensor = model(batch.tokens, batch.keys, batch.types)
    return logits


def _given(config: DistilRunConfig) -> dict[str, int | float]:
    return {name: value for name, value in config.model.shape.items() if value is not None}


def _fresh(config: DistilRunConfig, teacher: BertClassifier) -> BertClassifier:
    """A student with what it can take from its teacher; UsageError for an impossible shape."""
    try:
        shape = student_config(teacher.config.bert, config.model.shape)
    except ValueError as error:
        raise UsageError(f"model: {error}") from error
    own = teacher.config
    student = BertClassifier(
        student_of(teacher.bert, shape), own.num_classes, own.pooling, own.dropout
    )
    if shape.model_dim == own.bert.model_dim:
        student.head.load_state_dict(teacher.head.state_dict())
    return student


def _earlier(config: DistilRunConfig, teacher: BertClassifier) -> BertClassifier | None:
    """The student of `training.student`, if one is named."""
    name = config.training.student
    if name is None:
        return None
    model = load_as(ClassifierBundle, name).model
    if not isinstance(model, BertClassifier):
        raise UsageError(f"training.student={name} is no encoder's classifier")
    if model.config.num_classes != teacher.config.num_classes:
        raise UsageError(
            f"training.student={name} has {model.config.num_classes} classes, the teacher "
            f"{teacher.config.num_classes}"
        )
    return model.train()


def _check(config: DistilRunConfig) -> None:
    """UsageError unless there are texts, and a teacher."""
    check_files(config.data, config.recipe)
    if config.training.start is None:
        raise UsageError(
            "a student needs a teacher, and none is named",
            hint="--from RUN; headway train classify TEXTS --from ENCODER makes one",
        )


def _prepare(config: DistilRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
    teacher = load(str(config.training.start))
    if not isinstance(teacher, ClassifierBundle) or not isinstance(teacher.model, BertClassifier):
        raise UsageError(
            f"{config.training.start} holds a {teacher.kind}; a student is made of an encoder's "
            "classifier",
            hint="headway train classify TEXTS --from ENCODER makes one",
        )
    prepared = prepare_as(config.data, teacher.reader, folder, emit)
    job = DistilJob(config, prepared, teacher.model, machine)
    rows, silent = config.training.rows, lambda: None
    scores = score_texts(teacher.model, prepared, rows, machine, silent)
    metric = config.evaluation.metric
    emit(
        {
            "kind": "note",
            "text": f"the teacher's {metric} on the held-out texts: {scores[metric]:.4f}",
        }
    )
    return job


DISTILLATION = Family(check=_check, prepare=_prepare)
"""All that the training run of a student needs of its family."""
