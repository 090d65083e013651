"""Configuration of a run that teaches a chat model to prefer better answers, and the recipe."""

from dataclasses import dataclass
from typing import Literal

from headway.base.extensions import Names
from headway.base.settings import BATCH, COPIES, LENGTH, count, section, setting, with_default
from headway.tasks.rewards import REWARDS
from headway.tasks.sections import (
    BatchSizeConfig,
    ExamplesConfig,
    LanguageTuningRunConfig,
    ObservationConfig,
)
from headway.training import OptimizerConfig, PreferenceConfig, ScheduleConfig

LONGEST = 256
"""The number of tokens of prompt and answer, if it is unset and the model allows it."""


NO_JUDGE = "none"


@dataclass(frozen=True, kw_only=True)
class PreferenceDataConfig(ExamplesConfig):
    """The pairs of answers of a run."""

    train: tuple[str, ...] = setting(
        (),
        "training pairs: .jsonl, .json or .parquet with prompt, chosen and rejected, or with two "
        "conversations chosen and rejected",
    )


@dataclass(frozen=True, kw_only=True)
class PreferenceTrainingConfig(BatchSizeConfig):
    """Settings of the training loop."""

    batch_size: int = count(16, "batch size, in pairs of answers", BATCH)
    length: int | None = count(
        None,
        "maximum number of tokens of a prompt with an answer; longer pairs are left out; if unset, "
        f"{LONGEST}, or the maximum length of the model if that is less",
        LENGTH,
        least=2,
    )
    start: str | None = setting(
        None, "chat model to start from, which is also the reference (short: --from)"
    )


@dataclass(frozen=True, kw_only=True)
class PreferenceScoring:
    """Options of the evaluation of a model that was trained on preferences."""

    answers: int = setting(
        100, "number of prompts, evenly spaced, that are answered by sampling, for kl", ge=0
    )
    sample: int = setting(0, "number of these answers that are shown, before and after", ge=0)
    tokens: int = count(64, "maximum number of tokens of a sampled answer", COPIES)
    judge: str = setting(
        NO_JUDGE,
        "reward by which the sampled answers of the model and of the reference are compared, for "
        "win_rate; the right answer is the better one of the pair; with none, nothing is compared",
        names=Names(REWARDS, (NO_JUDGE,)),
    )


@dataclass(frozen=True, kw_only=True)
class PreferenceEvaluationConfig(PreferenceScoring, ObservationConfig):
    """Settings of the evaluation during training."""

    metric: Literal["accuracy", "margin"] = setting(
        "accuracy", "metric that selects the best model"
    )
    answers: int = with_default(PreferenceScoring, "answers", 16)
    sample: int = with_default(PreferenceScoring, "sample", 2)


@dataclass(frozen=True, kw_only=True)
class PreferenceRunConfig(LanguageTuningRunConfig):
    """Configuration of a run that trains the chat model `training.start` on pairs of answers."""

    recipe: str = setting("prefer", "name of the recipe that these settings extend")
    data: PreferenceDataConfig = section(PreferenceDataConfig)
    objective: PreferenceConfig = section(PreferenceConfig)
    training: PreferenceTrainingConfig = section(PreferenceTrainingConfig)
    evaluation: PreferenceEvaluationConfig = section(PreferenceEvaluationConfig)


def prefer() -> PreferenceRunConfig:
    """A chat model that prefers the better of two answers (--from CHAT): DPO, IPO, SimPO or ORPO.

    --objective selects the loss. The chat model is also the reference: its log-probabilities
    of all answers are computed once, and stored with the data. 1 epoch, at least 100 steps. The
    learning rate suits models of a few million parameters; --optimizer.lr 5e-7 suits those of
    billions.
    """
    return PreferenceRunConfig(
        recipe="prefer",
        optimizer=OptimizerConfig(lr=1e-4, beta2=0.95, eps=1e-8, weight_decay=0.0),
        schedule=ScheduleConfig(kind="linear", final=0.0),
    )
