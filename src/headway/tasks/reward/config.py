"""Configuration of a run that trains a chat model by rewards, and the recipe."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from headway.base.extensions import Names
from headway.base.settings import BATCH, COPIES, LENGTH, count, section, setting
from headway.tasks.rewards import REWARDS
from headway.tasks.sections import (
    BatchSizeConfig,
    ExamplesConfig,
    LanguageTuningRunConfig,
    ObservationConfig,
)
from headway.training import OptimizerConfig, ScheduleConfig

AUTOMATIC = "auto"


@dataclass(frozen=True, kw_only=True)
class RewardDataConfig(ExamplesConfig):
    """The prompts of a run, and the reward of their answers."""

    train: tuple[str, ...] = setting(
        (),
        "training prompts: .jsonl, .json or .parquet with prompt and answer, or conversations; or "
        "a task that generates them: a kind of instruction such as sort, or reasoning-gym:NAME",
    )
    problems: int = count(
        2000, "number of prompts that a task generates, those held out included", LENGTH, least=2
    )
    options: tuple[str, ...] = setting(
        (), "options of a task of reasoning-gym as NAME=VALUE, such as max_word_len=4"
    )
    reward: str = setting(
        AUTOMATIC,
        "function that computes the reward of an answer; auto is the verifier of a reasoning-gym "
        "task, and exact for other prompts",
        names=Names(REWARDS, (AUTOMATIC,)),
    )


@dataclass(frozen=True, kw_only=True)
class RewardConfig:
    """Settings of the policy gradient."""

    samples: int = count(
        8, "number of answers that are sampled for each prompt: a group", COPIES, least=2
    )
    tokens: int = count(64, "maximum number of tokens of an answer; a longer one gets 0", LENGTH)
    scale: bool = setting(
        False, "divide advantages by the standard deviation of the rewards of the group, as in GRPO"
    )
    kl: float = setting(
        0.0, "penalty of the reward for each nat of divergence from the model at the start", ge=0
    )


@dataclass(frozen=True, kw_only=True)
class RewardTrainingConfig(BatchSizeConfig):
    """Settings of the training loop."""

    batch_size: int = count(16, "batch size, in prompts", BATCH)
    start: str | None = setting(None, "chat model to start from (short: --from)")


@dataclass(frozen=True, kw_only=True)
class RewardEvaluationConfig(ObservationConfig):
    """Settings of the evaluation during training."""

    metric: Literal["reward", "sampled_reward"] = setting(
        "reward", "metric that selects the best model"
    )
    prompts: int = setting(
        200, "maximum number of held-out prompts, evenly spaced, that are answered greedily", gt=0
    )
    groups: int = setting(
        16, "number of held-out prompts, evenly spaced, for which a group is sampled", ge=0
    )
    sample: int = setting(2, "number of answers that are shown, before and after", ge=0)


@dataclass(frozen=True, kw_only=True)
class RewardScoring:
    """Options of the evaluation of a model that was trained by rewards."""

    prompts: int | None = setting(
        None, "maximum number of prompts that are answered greedily; if unset, all", gt=0
    )
    groups: int = setting(
        50, "number of prompts, evenly spaced, for which a group of answers is sampled", ge=0
    )
    sample: int = setting(0, "number of answers that are shown, before and after", ge=0)


@dataclass(frozen=True, kw_only=True)
class RewardRunConfig(LanguageTuningRunConfig):
    """Configuration of a run that trains the chat model `training.start` by rewards."""

    recipe: str = setting("reward", "name of the recipe that these settings extend")
    data: RewardDataConfig = section(RewardDataConfig)
    objective: RewardConfig = section(RewardConfig)
    training: RewardTrainingConfig = section(RewardTrainingConfig)
    evaluation: RewardEvaluationConfig = section(RewardEvaluationConfig)

    data_may_decide: ClassVar[tuple[str, ...]] = ("training.steps",)


def reward() -> RewardRunConfig:
    """A chat model that learns from the rewards of its own answers (--from CHAT).

    headway train reward sort --from CHAT: a function verifies each answer, and right answers become
    more probable (REINFORCE with the mean of a group as the baseline). 1 epoch, at least 100 steps.
    The learning rate suits models of a few million parameters; --optimizer.lr 1e-6 suits those of
    billions.
    """
    return RewardRunConfig(
        recipe="reward",
        optimizer=OptimizerConfig(lr=3e-4, beta2=0.95, eps=1e-8, weight_decay=0.0),
        schedule=ScheduleConfig(kind="linear", final=0.0),
    )
