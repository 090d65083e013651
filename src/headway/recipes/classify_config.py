"""All that the training run of a text classifier is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from headway.machine import MachineConfig
from headway.recipes.config import BlocksLoopConfig, CheckpointConfig, ObservationConfig
from headway.settings import section, setting
from headway.training import OptimizerConfig, ScheduleConfig


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
    label: str = setting("label", "name of the column (or key) that says what it is")
    max_length: int = setting(256, "longer texts (in tokens) are cut at their end", ge=4)


@dataclass(frozen=True, kw_only=True)
class ClassifierModelConfig:
    """The model is the one that it starts from, with a matrix for the classes on top."""

    dropout: float = setting(0.1, "share of activations dropped while training", ge=0, lt=1)
    head_dropout: float = setting(
        0.1, "share of the last token's vector dropped while training", ge=0, lt=1
    )

    family: ClassVar[str] = "classifier"
    sizes: ClassVar[dict[str, dict[str, Any]]] = {}


@dataclass(frozen=True, kw_only=True)
class ClassifyTrainingConfig(BlocksLoopConfig):
    steps: int = setting(600, "updates", gt=0)
    average: float = setting(
        0.0, "decay of the running average of the weights; 0 switches it off", ge=0, lt=1
    )
    rows: int = setting(32, "texts of a batch", gt=0)
    auxiliary: float = setting(
        0.5, "weight of the language model's own loss beside that of the classes", ge=0
    )
    start: str | None = setting(
        None, "the language model that is fine-tuned: a run or a model (short: --from)"
    )


@dataclass(frozen=True, kw_only=True)
class ClassifyEvaluationConfig(ObservationConfig):
    metric: Literal["accuracy"] = setting("accuracy", "what the kept model is best by")


@dataclass(frozen=True, kw_only=True)
class ClassifyRunConfig:
    """One training run of a text classifier, from a language model (`training.start`)."""

    recipe: str = setting("classify", "name of the recipe this came from")
    data: ClassifyDataConfig = section(ClassifyDataConfig)
    model: ClassifierModelConfig = section(ClassifierModelConfig)
    optimizer: OptimizerConfig = section(OptimizerConfig)
    schedule: ScheduleConfig = section(ScheduleConfig)
    training: ClassifyTrainingConfig = section(ClassifyTrainingConfig)
    evaluation: ClassifyEvaluationConfig = section(ClassifyEvaluationConfig)
    checkpoint: CheckpointConfig = section(CheckpointConfig)
    machine: MachineConfig = section(MachineConfig)

    decided_by_data: ClassVar[frozenset[str]] = frozenset()

    @property
    def name(self) -> str:
        """What the run is called unless the user names it: its recipe."""
        return self.recipe
