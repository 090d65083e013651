"""Configuration of a self-distillation run, and the recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway.data.multi_crop import ViewConfig
from headway.settings import BATCH, LENGTH, WIDTH, section, setting
from headway.tasks.image_config import (
    ImageEncoderSettings,
    LabelledImageDataConfig,
    decided_by_images,
)
from headway.tasks.sections import (
    BlocksLoopConfig,
    CheckpointConfig,
    ObservationConfig,
    RunSettings,
)
from headway.training import OptimizerConfig, ScheduleConfig, SelfDistillationConfig


@dataclass(frozen=True, kw_only=True)
class DinoModelConfig(ImageEncoderSettings):
    """The encoder's shape, and that of the head, which is thrown away afterwards."""

    hidden_dim: int = setting(512, "inner width of the head", gt=0, le=WIDTH)
    bottleneck: int = setting(64, "width before its last layer", gt=0, le=WIDTH)
    prototypes: int = setting(1024, "directions that pictures are compared with", gt=1, le=WIDTH)

    def __post_init__(self) -> None:
        if not self.class_token:
            raise ValueError("class_token=false: a picture's vector is [CLS]'s here")
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class DinoTrainingConfig(BlocksLoopConfig):
    steps: int = setting(2000, "updates", gt=0)
    average: float = setting(
        0.0, "decay of another running average, beside the teacher's; 0 switches it off", ge=0, lt=1
    )
    rows: int = setting(64, "pictures of a batch", gt=0, le=BATCH)
    start: str | None = setting(
        None, "the image encoder that is gone on with: a run or a model (short: --from)"
    )


@dataclass(frozen=True, kw_only=True)
class DinoEvaluationConfig(ObservationConfig):
    metric: Literal["knn", "linear", "spread"] = setting(
        "knn",
        "what the kept teacher is best by: neighbours of the same class; spread: of its "
        "vectors, where there are no classes",
    )
    pictures: int = setting(4000, "training pictures among which neighbours are sought", gt=0)
    neighbours: int = setting(20, "so many of them", gt=0, le=LENGTH)


@dataclass(frozen=True, kw_only=True)
class DinoRunConfig(RunSettings):
    """One training run of an encoder of pictures without labels."""

    recipe: str = setting("dino", "name of the recipe this came from")
    data: LabelledImageDataConfig = section(LabelledImageDataConfig)
    views: ViewConfig = section(ViewConfig, after="data")
    model: DinoModelConfig = section(DinoModelConfig)
    teacher: SelfDistillationConfig = section(SelfDistillationConfig, after="model")
    training: DinoTrainingConfig = section(DinoTrainingConfig)
    evaluation: DinoEvaluationConfig = section(DinoEvaluationConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        """Settings that follow from the pictures, or from the model it starts from."""
        decided = decided_by_images(self.model, self.training.start)
        return decided | {"evaluation.metric"}


def dino() -> DinoRunConfig:
    """An encoder of pictures that learns without labels: DINO, with a momentum teacher and
    multi-crop.

    For some thousand small pictures on a laptop; costs and scores: docs/results.md. Classes, where
    the pictures stand in folders of them, are for the scores alone. headway train vision PICTURES
    --from RUN goes on with labels.
    """
    return DinoRunConfig(
        recipe="dino",
        model=DinoModelConfig(),
        optimizer=OptimizerConfig(lr=1e-3, beta2=0.999, eps=1e-8, weight_decay=0.04),
        schedule=ScheduleConfig(kind="cosine", warmup=100, final=0.01),
        evaluation=DinoEvaluationConfig(every=250),
        checkpoint=CheckpointConfig(every=250),
    )
