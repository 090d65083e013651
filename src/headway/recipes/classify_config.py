"""All that the training run of a classifier is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from headway.data.formats import Columns
from headway.machine import MachineConfig
from headway.settings import BATCH, LENGTH, section, setting
from headway.tasks.sections import (
    CheckpointConfig,
    FineTuningConfig,
    LoRAConfig,
    ObservationConfig,
    left_open,
)
from headway.training import OptimizerConfig, ScheduleConfig

SUITED = "none: what suits the model it starts from"

METRICS = {
    "class": ("accuracy", "macro_f1", "matthews", "negative_loss"),
    "number": ("pearson", "spearman", "negative_mse"),
}
"""What labels are -> what the kept model can be best by."""


@dataclass(frozen=True, kw_only=True)
class ClassifyDataConfig:
    train: tuple[str, ...] = setting(
        (), "labelled texts: .tsv or .csv with a header, or .jsonl, plain or .gz"
    )
    valid: tuple[str, ...] = setting(
        (), "held-out texts with labels; none keeps some of train from training"
    )
    held_out: float = setting(0.1, "share of the texts kept so", gt=0, lt=1)
    text: str = setting("text", "name of the column (or key) that holds the text")
    second: str | None = setting(
        None, "name of the column of a second text, if pairs of texts are judged"
    )
    label: str = setting("label", "name of the column (or key) that says what it is")
    kind: Literal["class", "number"] = setting("class", "what labels are: names, or numbers")
    max_length: int = setting(
        256,
        "longer texts (in tokens, of pairs together) are cut at their end",
        ge=4,
        le=LENGTH,
    )

    @property
    def columns(self) -> Columns:
        """What is read of a table."""
        return Columns(self.text, self.label, self.second)


@dataclass(frozen=True, kw_only=True)
class ClassifierModelConfig:
    """The model is the one that it starts from, with a matrix for the classes on top."""

    dropout: float = setting(0.1, "share of activations dropped while training", ge=0, lt=1)
    head_dropout: float = setting(
        0.1, "share of the text's vector dropped while training", ge=0, lt=1
    )
    pooling: Literal["first", "mean"] = setting(
        "mean", "of an encoder, a text's vector: the pooler's of [CLS], or the mean of all tokens"
    )

    family: ClassVar[str] = "classifier"
    sizes: ClassVar[dict[str, dict[str, Any]]] = {}


@dataclass(frozen=True, kw_only=True)
class ClassifyOptimizerConfig(OptimizerConfig):
    # a job fills in what is None before the loop reads it
    lr: float | None = setting(  # type: ignore[assignment]
        None, f"highest learning rate of the schedule; {SUITED}", gt=0
    )


@dataclass(frozen=True, kw_only=True)
class ClassifyScheduleConfig(ScheduleConfig):
    warmup: int | None = setting(  # type: ignore[assignment]
        None, f"steps over which the learning rate rises from 0; {SUITED}", ge=0
    )


@dataclass(frozen=True, kw_only=True)
class ClassifyTrainingConfig(FineTuningConfig):
    rows: int = setting(32, "texts of a batch", gt=0, le=BATCH)
    balance: bool = setting(False, "rare classes count more: each class as much as any other")
    auxiliary: float = setting(
        0.5, "of a language model, weight of its own loss beside that of the labels", ge=0
    )
    start: str | None = setting(
        None, "the language model or encoder that is fine-tuned: a run or a model (short: --from)"
    )


@dataclass(frozen=True, kw_only=True)
class ClassifyEvaluationConfig(ObservationConfig):
    metric: (
        Literal[
            "accuracy",
            "macro_f1",
            "matthews",
            "negative_loss",
            "pearson",
            "spearman",
            "negative_mse",
        ]
        | None
    ) = setting(None, "what the kept model is best by; none: accuracy, of numbers pearson")


@dataclass(frozen=True, kw_only=True)
class ClassifyRunConfig:
    """One training run of a classifier, from a language model or encoder (`training.start`)."""

    recipe: str = setting("classify", "name of the recipe this came from")
    data: ClassifyDataConfig = section(ClassifyDataConfig)
    model: ClassifierModelConfig = section(ClassifierModelConfig)
    optimizer: ClassifyOptimizerConfig = section(ClassifyOptimizerConfig)
    schedule: ClassifyScheduleConfig = section(ClassifyScheduleConfig)
    training: ClassifyTrainingConfig = section(ClassifyTrainingConfig)
    lora: LoRAConfig = section(LoRAConfig)
    evaluation: ClassifyEvaluationConfig = section(ClassifyEvaluationConfig)
    checkpoint: CheckpointConfig = section(CheckpointConfig)
    machine: MachineConfig = section(MachineConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        """Settings that follow from the texts, or from the model it starts from."""
        keys = "optimizer.lr", "schedule.warmup", "training.steps", "evaluation.metric"
        return left_open(self, *keys)

    @property
    def name(self) -> str:
        """What the run is called unless the user names it: its recipe."""
        return self.recipe
