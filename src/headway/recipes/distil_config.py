"""All that the making of a small student is told."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from headway.machine import MachineConfig
from headway.recipes.classify_config import ClassifyDataConfig
from headway.recipes.config import BlocksLoopConfig, CheckpointConfig, ObservationConfig
from headway.settings import section, setting
from headway.training import DistillationConfig, OptimizerConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class StudentConfig:
    """What the student has otherwise than its teacher; none: as the teacher."""

    num_layers: int = setting(2, "encoder blocks", gt=0)
    model_dim: int | None = setting(None, "width of every layer's input and output", gt=0)
    num_heads: int | None = setting(None, "attention heads", gt=0)
    ffn_dim: int | None = setting(None, "inner width of the feed-forward layers", gt=0)
    embedding_dim: int | None = setting(
        None,
        "width of the embeddings, widened by a matrix: most of a small model is its words",
        gt=0,
    )
    dropout: float = setting(0.1, "share of activations dropped while training", ge=0, lt=1)

    family: ClassVar[str] = "student"
    sizes: ClassVar[dict[str, dict[str, Any]]] = {}

    @property
    def shape(self) -> dict[str, int | float | None]:
        """By name, for `student_config`."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class DistilTrainingConfig(BlocksLoopConfig):
    steps: int = setting(2000, "updates", gt=0)
    average: float = setting(
        0.0, "decay of the running average of the weights; 0 switches it off", ge=0, lt=1
    )
    rows: int = setting(32, "texts of a batch", gt=0)
    start: str | None = setting(None, "the teacher: a run or a model (short: --from)")
    student: str | None = setting(
        None, "the student of an earlier run, to go on with; none: a fresh one of model.*"
    )


@dataclass(frozen=True, kw_only=True)
class DistilEvaluationConfig(ObservationConfig):
    metric: Literal["accuracy", "macro_f1", "matthews", "pearson", "spearman"] = setting(
        "accuracy", "what the kept student is best by"
    )


@dataclass(frozen=True, kw_only=True)
class DistilRunConfig:
    """One training run of a student, beside its teacher (`training.start`)."""

    recipe: str = setting("distil", "name of the recipe this came from")
    data: ClassifyDataConfig = section(ClassifyDataConfig)
    model: StudentConfig = section(StudentConfig)
    distillation: DistillationConfig = section(DistillationConfig)
    optimizer: OptimizerConfig = section(OptimizerConfig)
    schedule: ScheduleConfig = section(ScheduleConfig)
    training: DistilTrainingConfig = section(DistilTrainingConfig)
    evaluation: DistilEvaluationConfig = section(DistilEvaluationConfig)
    checkpoint: CheckpointConfig = section(CheckpointConfig)
    machine: MachineConfig = section(MachineConfig)

    decided_by_data: ClassVar[frozenset[str]] = frozenset()

    @property
    def name(self) -> str:
        """What the run is called unless the user names it: its recipe."""
        return self.recipe
