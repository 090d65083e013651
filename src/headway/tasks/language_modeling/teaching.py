"""Students of language models."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from headway.attention import Documents
from headway.base.devices import Machine
from headway.base.settings import setting
from headway.bundle import TextBundle
from headway.data.padding import IGNORED
from headway.tasks.job import Emit
from headway.tasks.language_modeling.config import (
    LanguageDataConfig,
    LanguageEvaluationConfig,
    LanguageRunConfig,
    LanguageTrainingConfig,
)
from headway.tasks.language_modeling.data import check_sources, prepare_language
from headway.tasks.language_modeling.job import LanguageJob
from headway.tasks.language_modeling.packing import TextBatch
from headway.tasks.sections import TextDataConfig
from headway.tasks.teaching import StudentData, Students, TextStudentTrainingConfig
from headway.tasks.text_data import check_max_length
from headway.training import View
from headway.transforms.fast.documents import unpacked


@dataclass(frozen=True, kw_only=True)
class StudentDataConfig(TextDataConfig):
    """The training text of a student; the tokenizer is that of the teacher."""

    weights: tuple[float, ...] = setting(
        (),
        "sampling weights of the texts of train: the fraction of sequences from each; if unset, "
        "in proportion to their lengths",
    )


def _as_language_modeling(config: Any) -> LanguageRunConfig:
    """Return the configuration of a language-modelling run on the same text."""
    training = config.training
    return LanguageRunConfig(
        recipe=config.recipe,
        data=LanguageDataConfig(**asdict(config.data)),
        training=LanguageTrainingConfig(
            batch_size=training.batch_size,
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
) -> StudentData:
    """Encode the text with the tokenizer of the teacher."""
    as_run = _as_language_modeling(config)
    check_max_length(teacher, str(config.training.teacher), config.training.length)
    job = LanguageJob(as_run, prepare_language(as_run, teacher, folder, emit), teacher, machine)
    return StudentData(
        train_batches=job.train_batches,
        views=_documents,
        held_out=job.held_out,
        evaluation=job.evaluation,
        bundle=lambda model: TextBundle(model, teacher.tokenizer),
        unit="sequences",
    )


def _documents(batch: TextBatch) -> list[View]:
    """Split packed sequences into documents, and return one view per group of equal lengths.

    A document is computed as it would be alone. Its weight is its number of tokens.
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
                target_mask=is_target[group.tokens] & keys,
                weights=sizes.float(),
                count=group.num_tokens,
            )
        )
    return views


STUDENTS = Students(
    data=StudentDataConfig(),
    evaluation=LanguageEvaluationConfig(),
    training=TextStudentTrainingConfig(),
    check=_check,
    prepare=_prepare,
)
