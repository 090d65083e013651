"""All that the training run of a language model is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway.machine import MachineConfig
from headway.models import GPTConfig
from headway.settings import BATCH, COPIES, LENGTH, VOCABULARY, section, setting
from headway.tasks.sections import (
    BlocksLoopConfig,
    CheckpointConfig,
    LoRAConfig,
    ObservationConfig,
    TextDataConfig,
)
from headway.training import OptimizerConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class LanguageDataConfig(TextDataConfig):
    """Of language models."""

    weights: tuple[float, ...] = setting(
        (), "shares of training rows from each of train; none: by length"
    )
    tokenizer: str = setting(
        "bpe", "bpe and characters are trained; or the folder of a model, to take its tokenizer"
    )
    vocabulary: int = setting(8000, "pieces of the tokenizer bpe", ge=257, le=VOCABULARY)


@dataclass(frozen=True, kw_only=True)
class LanguageTrainingConfig(BlocksLoopConfig):
    steps: int = setting(3000, "updates", gt=0)
    average: float = setting(
        0.0, "decay of the running average of the weights; 0 switches it off", ge=0, lt=1
    )
    rows: int = setting(16, "rows of a batch", gt=0, le=BATCH)
    length: int = setting(256, "tokens of a row", gt=0, le=LENGTH)
    start: str | None = setting(
        None, "fine-tune this: a run, a model, or a Hugging Face folder (short: --from)"
    )


@dataclass(frozen=True, kw_only=True)
class LanguageEvaluationConfig(ObservationConfig):
    metric: Literal["negative_nats"] = setting("negative_nats", "what the kept model is best by")
    tokens: int = setting(200_000, "held-out tokens looked at each time", gt=0)
    sample: int = setting(
        40, "tokens of a text that is written and shown each time; 0: none", ge=0, le=COPIES
    )
    prompt: str = setting("", "what that text begins with")


@dataclass(frozen=True, kw_only=True)
class LanguageRunConfig:
    """One training run of a language model, from nothing or from another (`training.start`)."""

    recipe: str = setting("gpt", "name of the recipe this came from")
    data: LanguageDataConfig = section(LanguageDataConfig)
    model: GPTConfig = section(GPTConfig)
    optimizer: OptimizerConfig = section(OptimizerConfig)
    schedule: ScheduleConfig = section(ScheduleConfig)
    training: LanguageTrainingConfig = section(LanguageTrainingConfig)
    lora: LoRAConfig = section(LoRAConfig)
    evaluation: LanguageEvaluationConfig = section(LanguageEvaluationConfig)
    checkpoint: CheckpointConfig = section(CheckpointConfig)
    machine: MachineConfig = section(MachineConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        """Settings that follow from the data, or from the model it starts from."""
        if self.training.start is None:
            return frozenset({"model.vocabulary"})
        given = {f"model.{name}" for name in GPTConfig.__dataclass_fields__}
        return frozenset(given - {"model.dropout"})

    @property
    def name(self) -> str:
        """What the run is called unless the user names it: its recipe."""
        return self.recipe
