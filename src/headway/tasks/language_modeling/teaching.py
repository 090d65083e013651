"""Students of language models."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from headway.attention import Documents
from headway.bundle import TextBundle
from headway.data.packing import IGNORED, TextBatch
from headway.machine import Machine
from headway.settings import setting
from headway.tasks.job import Emit
from headway.tasks.language_modeling.config import (
    LanguageDataConfig,
    LanguageEvaluationConfig,
    LanguageRunConfig,
    LanguageTrainingConfig,
)
from headway.tasks.language_modeling.data import check_sources, prepare_language
from headway.tasks.language_modeling.job import LanguageJob
from headway.tasks.sections import TextDataConfig
from headway.tasks.teaching import Course, Students, TextStudentTrainingConfig
from headway.tasks.text_data import check_room
from headway.training import View
from headway.transforms.fast.documents import unpacked


@dataclass(frozen=True, kw_only=True)
class StudentDataConfig(TextDataConfig):
    """The teacher brings its tokenizer."""

    weights: tuple[float, ...] = setting(
        (), "shares of training rows from each of train; none: by length"
    )


def _as_language_modeling(config: Any) -> LanguageRunConfig:
    """The configuration of a run of a language model on the same text."""
    training = config.training
    return LanguageRunConfig(
        recipe=config.recipe,
        data=LanguageDataConfig(**asdict(config.data)),
        training=LanguageTrainingConfig(
            rows=training.rows,
            length=training.length,
            seed=training.seed,
            start=training.teacher,
        ),
        evaluation=config.evaluation,
    )


def _check(config: Any) -> None:
    check_sources(_as_language_modeling(config))


def _prepare(
    config: Any, teacher: TextBundle, folder: Path, machine: Machine, emit: Emit
) -> Course:
    """The text, encoded, and how it is read."""
    own = _as_language_modeling(config)
    check_room(teacher, str(config.training.teacher), config.training.length)
    job = LanguageJob(own, prepare_language(own, teacher, folder, emit), teacher, machine)
    return Course(
        rows=job.rows,
        views=_documents,
        held_out=job.held_out,
        evaluation=job.evaluation,
        bundle=lambda model: TextBundle(model, teacher.tokenizer),
        unit="rows",
    )


def _documents(batch: TextBatch) -> list[View]:
    """The documents of packed rows, each read as it would be alone, those of like length together.

    What counts is the token: a document as much as it is long.
    """
    lengths = batch.lengths or [(batch.tokens.shape[1],)] * len(batch.tokens)
    tokens, is_target = batch.tokens.flatten(), batch.targets.flatten() != IGNORED
    views = []
    for group in unpacked(Documents(lengths, batch.tokens.device)).groups:
        rows, sizes = tokens[group.tokens], group.lengths  # N L
        keys = torch.arange(rows.shape[1], device=rows.device) < sizes[:, None]

        def logits(model: Any, rows: Any = rows) -> Any:
            return model(rows)

        views.append(
            View(
                logits=logits,
                keys=keys,
                asked=is_target[group.tokens] & keys,
                weights=sizes.float(),
                count=int(sizes.sum()),
            )
        )
    return views


STUDENTS = Students(
    data=StudentDataConfig(),
    evaluation=LanguageEvaluationConfig(every=250),
    training=TextStudentTrainingConfig(),
    check=_check,
    prepare=_prepare,
)
