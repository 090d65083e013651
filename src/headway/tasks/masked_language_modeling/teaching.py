"""Students of text encoders: general distillation, the first stage of TinyBERT, without outputs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from headway.base.devices import Machine
from headway.base.settings import BATCH, setting
from headway.bundle import EncoderBundle
from headway.models.bert_heads import remove_heads
from headway.tasks.job import Emit
from headway.tasks.masked_language_modeling.config import (
    EncoderDataConfig,
    EncoderEvaluationConfig,
    EncoderRunConfig,
    EncoderTrainingConfig,
)
from headway.tasks.masked_language_modeling.data import prepare_encoder
from headway.tasks.masked_language_modeling.job import PretrainingJob
from headway.tasks.masked_language_modeling.masked_batches import MaskedBatch
from headway.tasks.masked_language_modeling.masking import MaskingConfig
from headway.tasks.sections import ObservationConfig, TextDataConfig
from headway.tasks.teaching import StudentData, Students, TextStudentTrainingConfig, view_of
from headway.tasks.text_data import check_max_length, check_text
from headway.training import LayersConfig, View


@dataclass(frozen=True, kw_only=True)
class StudentDataConfig(TextDataConfig):
    """The training text of a student; the tokenizer is that of the teacher."""

    smoothing: float = setting(
        0.7,
        "exponent of the sampling weights of several texts: 1: in proportion to their lengths, 0: "
        "uniform",
        ge=0,
        le=1,
    )


@dataclass(frozen=True, kw_only=True)
class StudentEvaluationConfig(ObservationConfig):
    """Settings of the evaluation of a student during training."""

    metric: Literal["difference"] = setting(
        "difference",
        "metric that selects the best student: the weighted difference from the teacher",
    )
    sequences: int = setting(
        400, "maximum number of held-out sequences at each evaluation", gt=0, le=BATCH
    )


def _as_pre_training(config: Any) -> EncoderRunConfig:
    """Return the configuration of a pre-training run on the same text."""
    training = config.training
    return EncoderRunConfig(
        recipe=config.recipe,
        data=EncoderDataConfig(**asdict(config.data)),
        masking=MaskingConfig(masked=0.0, random=0.0),  # no word is masked
        training=EncoderTrainingConfig(
            batch_size=training.batch_size,
            length=training.length,
            seed=training.seed,
            start=training.teacher,
        ),
        evaluation=EncoderEvaluationConfig(sequences=config.evaluation.sequences),
    )


def _check(config: Any) -> None:
    check_text(config.data, config.recipe)


def _prepare(
    config: Any, teacher: EncoderBundle, folder: Path, machine: Machine, emit: Emit
) -> StudentData:
    """Encode the sentences with the tokenizer of the teacher."""
    as_run = _as_pre_training(config)
    check_max_length(teacher, str(config.training.teacher), config.training.length)
    remove_heads(teacher.model, "none")  # no outputs are compared, so no head would be trained
    job = PretrainingJob(as_run, prepare_encoder(as_run, teacher, folder, emit), teacher, machine)

    def views(batch: MaskedBatch) -> list[View]:
        texts = batch.framed

        def hidden(model: Any) -> Any:
            return model.encode(texts.tokens, texts.keys, texts.types)

        return [replace(view_of(texts), logits=hidden)]

    return StudentData(
        train_batches=job.train_batches,
        views=views,
        compared=job.held_out_batches,
        bundle=lambda model: EncoderBundle(remove_heads(model, "none"), teacher.tokenizer),
        unit="sequences",
    )


STUDENTS = Students(
    data=StudentDataConfig(),
    evaluation=StudentEvaluationConfig(),
    training=TextStudentTrainingConfig(),
    distillation=LayersConfig(),
    check=_check,
    prepare=_prepare,
    next_commands=(
        "train classify TEXTS --from {run}",
        "embed {run} TEXTS --output vectors.npz",
    ),
)
