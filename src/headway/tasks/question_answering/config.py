"""Configuration of a question-answering run, and the recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway.settings import BATCH, LENGTH, section, setting
from headway.tasks.sections import (
    CheckpointConfig,
    ObservationConfig,
    RowsConfig,
    RunSettings,
    StartedModelConfig,
)
from headway.training import OptimizerConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class AnswerDataConfig:
    train: tuple[str, ...] = setting(
        (), "questions with contexts and answers: SQuAD's .json, or .jsonl, plain or .gz"
    )
    valid: tuple[str, ...] = setting(
        (), "held-out questions; none keeps those of some contexts from training"
    )
    held_out: float = setting(0.1, "share of the contexts kept so", gt=0, lt=1)
    window: int = setting(
        256, "ids that are read at once: question, part of the context", ge=16, le=LENGTH
    )
    stride: int = setting(
        96, "a longer context goes on in a window so many tokens later", ge=1, le=LENGTH
    )
    skip_impossible: bool = setting(
        False, "leave out questions that their context does not answer (SQuAD 2.0)"
    )


@dataclass(frozen=True, kw_only=True)
class AnswerTrainingConfig(RowsConfig):
    rows: int = setting(16, "windows of a batch", gt=0, le=BATCH)


@dataclass(frozen=True, kw_only=True)
class AnswerEvaluationConfig(ObservationConfig):
    metric: Literal["f1", "exact"] = setting("f1", "what the kept model is best by")
    questions: int = setting(
        300, "held-out questions asked each time, evenly among all (headway eval asks all)", gt=0
    )


@dataclass(frozen=True, kw_only=True)
class AnswerScoring:
    """How an evaluation is made."""

    questions: int | None = setting(
        None, "Maximum number of questions, taken evenly from all; if unset, all.", gt=0
    )


@dataclass(frozen=True, kw_only=True)
class AnswerRunConfig(RunSettings):
    """One training run of an answerer, from an encoder (`training.start`)."""

    recipe: str = setting("answer", "name of the recipe this came from")
    data: AnswerDataConfig = section(AnswerDataConfig)
    model: StartedModelConfig = section(StartedModelConfig)
    training: AnswerTrainingConfig = section(AnswerTrainingConfig)
    evaluation: AnswerEvaluationConfig = section(AnswerEvaluationConfig)


def answer() -> AnswerRunConfig:
    """An answerer of questions from an encoder and answered questions (--from MODEL), SQuAD's way.

    It says where in a given text the answer begins and ends. The rate suits encoders of some 20
    million; --optimizer.lr 5e-5 is the paper's, for one of 110 million.
    """
    return AnswerRunConfig(
        recipe="answer",
        optimizer=OptimizerConfig(lr=2e-4, beta2=0.999, eps=1e-8, weight_decay=0.01),
        schedule=ScheduleConfig(kind="linear", warmup=50, final=0.0),
        evaluation=AnswerEvaluationConfig(every=250),
        checkpoint=CheckpointConfig(every=250),
    )
