"""Configuration of a run that teaches a language model to follow instructions, and the recipe."""

from dataclasses import dataclass
from typing import Literal

from headway.base.settings import BATCH, LENGTH, count, section, setting
from headway.tasks.sections import (
    BatchSizeConfig,
    ExamplesConfig,
    LanguageTuningRunConfig,
    ObservationConfig,
)
from headway.training import OptimizerConfig, ScheduleConfig

LONGEST = 256
"""The number of tokens of a sequence, if it is unset and the model allows it."""


@dataclass(frozen=True, kw_only=True)
class ChatDataConfig(ExamplesConfig):
    """The conversations of a run."""

    train: tuple[str, ...] = setting(
        (),
        "training conversations: .jsonl, .json or .parquet with messages, conversations, "
        "instruction and output, or prompt and completion",
    )


@dataclass(frozen=True, kw_only=True)
class ChatTrainingConfig(BatchSizeConfig):
    """Settings of the training loop."""

    batch_size: int = count(
        16, "batch size, in sequences, into which conversations are packed", BATCH
    )
    length: int | None = count(
        None,
        f"sequence length in tokens; longer conversations are truncated; if unset, {LONGEST}, or "
        "the maximum length of the model if that is less",
        LENGTH,
        least=2,
    )
    start: str | None = setting(
        None, "pre-trained language model to fine-tune: a run or a model (short: --from)"
    )


@dataclass(frozen=True, kw_only=True)
class ChatEvaluationConfig(ObservationConfig):
    """Settings of the evaluation during training."""

    metric: Literal["nats", "exact"] = setting("nats", "metric that selects the best model")
    conversations: int = setting(
        400, "maximum number of held-out conversations, evenly spaced, whose loss is computed", gt=0
    )
    answers: int = setting(
        40, "maximum number of held-out questions, evenly spaced, that the model answers", ge=0
    )
    sample: int = setting(2, "number of these answers that are shown", ge=0)


@dataclass(frozen=True, kw_only=True)
class ChatScoring:
    """Options of the evaluation of a model that follows instructions."""

    conversations: int | None = setting(
        None, "maximum number of conversations whose loss is computed; if unset, all", gt=0
    )
    answers: int | None = setting(
        None, "maximum number of questions that the model answers; if unset, all", ge=0
    )
    sample: int = setting(0, "number of answers that are shown", ge=0)


@dataclass(frozen=True, kw_only=True)
class ChatRunConfig(LanguageTuningRunConfig):
    """Configuration of a run that fine-tunes the language model `training.start` on
    conversations."""

    recipe: str = setting("chat", "name of the recipe that these settings extend")
    data: ChatDataConfig = section(ChatDataConfig)
    training: ChatTrainingConfig = section(ChatTrainingConfig)
    evaluation: ChatEvaluationConfig = section(ChatEvaluationConfig)


def chat() -> ChatRunConfig:
    """A model that follows instructions, fine-tuned from a language model (--from MODEL).

    The loss is on the answers of the assistant only. All weights are trained, for 3 epochs and at
    least 300 steps; --lora.rank 8 trains low-rank adapters only. The learning rate suits models
    of a few million parameters that were trained here; --optimizer.lr 2e-5 suits those of billions.
    The result opens with headway chat and headway serve.
    """
    return ChatRunConfig(
        recipe="chat",
        optimizer=OptimizerConfig(lr=1e-3, beta2=0.95, eps=1e-8, weight_decay=0.01),
        schedule=ScheduleConfig(kind="linear", final=0.0),
    )
