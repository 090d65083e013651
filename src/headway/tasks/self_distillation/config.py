"""Configuration of a self-distillation run, and the recipe."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headway.base.settings import (
    BATCH,
    LENGTH,
    WIDTH,
    count,
    fraction,
    section,
    setting,
    with_default,
)
from headway.tasks.image_config import (
    ImageEncoderSettings,
    LabelledImageDataConfig,
    decided_by_images,
)
from headway.tasks.sections import (
    BlocksLoopConfig,
    ObservationConfig,
    RunSettings,
    desired_updates,
    pre_trained,
)
from headway.tasks.self_distillation.multi_crop import ViewConfig
from headway.tasks.self_distillation.objective import SelfDistillationConfig
from headway.training import OptimizerConfig


@dataclass(frozen=True, kw_only=True)
class DinoModelConfig(ImageEncoderSettings):
    """The shape of the encoder and of the projection head, which is discarded after training."""

    hidden_dim: int = count(512, "width of the hidden layers of the head", WIDTH)
    bottleneck: int = count(64, "width of the head's bottleneck", WIDTH)
    prototypes: int = setting(
        1024, "number of prototypes: output width of the head", gt=1, le=WIDTH
    )

    def __post_init__(self) -> None:
        if not self.class_token:
            raise ValueError(
                "class_token=false: DINO pools an image by [CLS], class_token must be true"
            )
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class DinoTrainingConfig(BlocksLoopConfig):
    """Settings of the training loop of self-distillation."""

    steps: int = with_default(BlocksLoopConfig, "steps", 2000)
    updates: int = desired_updates(0)  # the teacher's mean of a batch needs its size
    average: float = fraction(
        0.0,
        "decay of an exponential moving average of the weights besides the teacher; 0 switches it "
        "off",
    )
    batch_size: int = count(64, "batch size, in images", BATCH)
    start: str | None = pre_trained("image encoder whose pre-training is continued")


@dataclass(frozen=True, kw_only=True)
class DinoEvaluationConfig(ObservationConfig):
    """Settings of the evaluation during training."""

    metric: Literal["knn", "linear", "spread"] = setting(
        "knn",
        "metric that selects the best teacher: k-nearest-neighbour accuracy, accuracy of a linear "
        "classifier, or the spread of the vectors; without classes always spread",
    )
    images: int = setting(
        4000, "maximum number of training images among which neighbours are searched", gt=0
    )
    neighbours: int = count(20, "number of nearest neighbours (k) that vote for a class", LENGTH)


@dataclass(frozen=True, kw_only=True)
class NeighbourOptions:
    """Options of the evaluation of an image encoder."""

    known: Path | None = setting(
        None,
        "labelled images among which neighbours are searched; if unset, the run's training images, "
        "or nine tenths of the images",
    )
    known_limit: int | None = setting(
        None, "maximum number of these images, evenly spaced; if unset, all", gt=0
    )
    neighbours: int = with_default(DinoEvaluationConfig, "neighbours", 20)


@dataclass(frozen=True, kw_only=True)
class DinoRunConfig(RunSettings):
    """Configuration of a self-distillation run of an image encoder, without labels."""

    recipe: str = setting("dino", "name of the recipe that these settings extend")
    data: LabelledImageDataConfig = section(LabelledImageDataConfig)
    views: ViewConfig = section(ViewConfig, after="data")
    model: DinoModelConfig = section(DinoModelConfig)
    teacher: SelfDistillationConfig = section(SelfDistillationConfig, after="model")
    training: DinoTrainingConfig = section(DinoTrainingConfig)
    evaluation: DinoEvaluationConfig = section(DinoEvaluationConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        decided = decided_by_images(self.model, self.training.start)
        return decided | {"evaluation.metric"}


def dino() -> DinoRunConfig:
    """An image encoder trained without labels (DINO): self-distillation with a momentum teacher.

    With multi-crop augmentation. For a few thousand small images on a laptop; costs and scores:
    docs/results.md. If the images are in a folder for each class, the classes are used for the
    scores only. headway train vision IMAGES --from RUN fine-tunes the encoder with labels.
    """
    return DinoRunConfig(
        recipe="dino",
        model=DinoModelConfig(),
        optimizer=OptimizerConfig(lr=1e-3, beta2=0.999, eps=1e-8, weight_decay=0.04),
    )
