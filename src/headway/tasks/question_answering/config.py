"""Configuration of a question-answering run, and the recipe."""

from dataclasses import dataclass
from typing import Literal

from headway.base.settings import LENGTH, count, section, setting, with_default
from headway.tasks.sections import ExamplesConfig, FineTuningRunConfig, ObservationConfig
from headway.training import OptimizerConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class AnswerDataConfig(ExamplesConfig):
    """The questions, contexts and answers of a run."""

    train: tuple[str, ...] = setting(
        (),
        "training questions with contexts and answers: SQuAD's .json, .jsonl or .parquet",
    )
    held_out: float = setting(
        0.1, "fraction of the contexts that is held out if valid is unset", gt=0, lt=1
    )
    window: int = count(
        256,
        "maximum sequence length in tokens: the question and a window of the context",
        LENGTH,
        least=16,
    )
    stride: int = count(
        96, "distance in tokens between overlapping windows of a long context", LENGTH
    )
    skip_impossible: bool = setting(
        False, "leave out questions that have no answer in their context (SQuAD 2.0)"
    )


@dataclass(frozen=True, kw_only=True)
class AnswerScoring:
    """Options of the evaluation of a question-answering model."""

    questions: int | None = setting(
        None, "maximum number of questions, evenly spaced; if unset, all", gt=0
    )


@dataclass(frozen=True, kw_only=True)
class AnswerEvaluationConfig(AnswerScoring, ObservationConfig):
    """Settings of the evaluation during training."""

    metric: Literal["f1", "exact"] = setting("f1", "metric that selects the best model")
    questions: int = with_default(AnswerScoring, "questions", 300)


@dataclass(frozen=True, kw_only=True)
class AnswerRunConfig(FineTuningRunConfig):
    """Configuration of a question-answering run, which fine-tunes the encoder `training.start`."""

    data: AnswerDataConfig = section(AnswerDataConfig)
    evaluation: AnswerEvaluationConfig = section(AnswerEvaluationConfig)


def answer() -> AnswerRunConfig:
    """An extractive question-answering model (as for SQuAD) fine-tuned from an encoder.

    --from MODEL names the encoder. The model predicts where the answer starts and ends in a
    context. The learning rate suits encoders of about 20 million parameters; --optimizer.lr 5e-5 is
    the paper's, for 110 million.
    """
    return AnswerRunConfig(
        recipe="answer",
        optimizer=OptimizerConfig(lr=2e-4, beta2=0.999, eps=1e-8, weight_decay=0.01),
        schedule=ScheduleConfig(kind="linear", final=0.0),
    )
