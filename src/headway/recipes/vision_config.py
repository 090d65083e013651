"""All that the training run of a classifier of pictures is told."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar, Literal

from headway.data.augmentation import AugmentationConfig
from headway.machine import MachineConfig
from headway.models import ViTConfig
from headway.models.vit_classifier import ImagePooling
from headway.settings import BATCH, PIXELS, section, setting
from headway.tasks.sections import CheckpointConfig, FineTuningConfig, ObservationConfig, left_open
from headway.training import OptimizerConfig, ScheduleConfig

EPOCHS = 30.0  # where neither steps nor epochs are named


@dataclass(frozen=True, kw_only=True)
class PicturesDataConfig:
    """What all models that learn from pictures are told of these."""

    held_out: float = setting(0.1, "share of the pictures kept so", gt=0, lt=1)
    fit: Literal["crop", "squash", "pad"] = setting(
        "crop",
        "pictures of other proportions: the middle is cut out, all is pressed in, or black stands "
        "around it and nothing is scaled (sounds); with --from as that model has it",
    )
    resampling: Literal["bilinear", "bicubic", "lanczos"] = setting(
        "bicubic", "how pictures are made larger or smaller"
    )


@dataclass(frozen=True, kw_only=True)
class VisionDataConfig(PicturesDataConfig):
    train: tuple[str, ...] = setting(
        (),
        "pictures by class: a folder of folders, a .zip of it, an .npz or .parquet file, or digits",
    )
    valid: tuple[str, ...] = setting(
        (), "held-out pictures; none: those that train has for that, else some of train"
    )


@dataclass(frozen=True, kw_only=True)
class PicturesViTConfig(ViTConfig):
    """An encoder's shape; what is none is left to the pictures, or to the model to start from."""

    image_size: int | None = setting(  # type: ignore[assignment]
        None,
        "height of the pictures, in pixels; none: as they are, if all are alike",
        gt=0,
        le=PIXELS,
    )
    channels: int | None = setting(  # type: ignore[assignment]
        None,
        "1: grey, 3: in colour; none: as the pictures are",
        gt=0,
        le=PIXELS,
    )
    positions: Literal["learned", "sinusoidal", "none"] = setting(
        "sinusoidal", "how a patch knows its place: trained vectors, or sines of row and column"
    )

    def __post_init__(self) -> None:
        if self.channels not in (None, 1, 3):
            raise ValueError(f"channels={self.channels}: pictures have 1 or 3")
        if self.image_size is not None:
            super().__post_init__()

    @property
    def vit(self) -> ViTConfig:
        """The encoder's configuration; what the pictures decide must be there."""
        return ViTConfig(**{each.name: getattr(self, each.name) for each in fields(ViTConfig)})


@dataclass(frozen=True, kw_only=True)
class VisionModelConfig(PicturesViTConfig):
    """The encoder's shape, and what stands on it. With --from it is that of the model to start
    from; dropout, and another image_size, may be named."""

    projection: Literal["learned", "pca"] = setting(
        "learned", "patches to tokens: a trained matrix, or principal components of the pictures"
    )
    pooling: ImagePooling = setting(
        "mean", "a picture's vector: [CLS]'s, the mean of its patches', or the two side by side"
    )
    head_dropout: float = setting(
        0.0, "share of the picture's vector dropped while training", ge=0, lt=1
    )

    family: ClassVar[str] = "image-classifier"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pooling != "mean" and not self.class_token:
            raise ValueError(f"pooling={self.pooling} reads [CLS]: class_token must be true")
        if self.projection == "pca" and self.model_dim > self._numbers:
            raise ValueError(
                f"projection=pca: patches of {self._numbers} numbers have no {self.model_dim} "
                "principal components"
            )

    @property
    def _numbers(self) -> int:
        """In a patch, at most."""
        return self.patch[0] * self.patch[1] * (self.channels or 3)


SHAPE = tuple(
    each.name for each in fields(ViTConfig) if each.name not in ("dropout", "pooler", "image_size")
)
"""What of the encoder the model to start from decides."""


def decided_by_pictures(
    model: PicturesViTConfig, start: str | None, key: str = "model"
) -> frozenset[str]:
    """Settings of the model, under `key`, that follow from the pictures, or from what it starts
    from."""
    decided = left_open(model, "image_size", "channels")
    if model.image_size is None:
        decided |= {"image_width"}
    if start is not None:
        decided |= frozenset(SHAPE)
    return frozenset(f"{key}.{name}" for name in decided)


@dataclass(frozen=True, kw_only=True)
class VisionTrainingConfig(FineTuningConfig):
    average: float = setting(
        0.998, "decay of the running average of the weights; 0 switches it off", ge=0, lt=1
    )
    rows: int = setting(64, "pictures of a batch", gt=0, le=BATCH)
    smoothing: float = setting(0.1, "label smoothing", ge=0, lt=1)
    start: str | None = setting(
        None, "the image encoder that is fine-tuned: a run or a model (short: --from)"
    )


@dataclass(frozen=True, kw_only=True)
class VisionEvaluationConfig(ObservationConfig):
    metric: Literal["accuracy", "macro_f1", "negative_loss"] = setting(
        "accuracy", "what the kept model is best by"
    )


@dataclass(frozen=True, kw_only=True)
class VisionRunConfig:
    """One training run of a classifier of pictures."""

    recipe: str = setting("vision", "name of the recipe this came from")
    data: VisionDataConfig = section(VisionDataConfig)
    augmentation: AugmentationConfig = section(AugmentationConfig)
    model: VisionModelConfig = section(VisionModelConfig)
    optimizer: OptimizerConfig = section(OptimizerConfig)
    schedule: ScheduleConfig = section(ScheduleConfig)
    training: VisionTrainingConfig = section(VisionTrainingConfig)
    evaluation: VisionEvaluationConfig = section(VisionEvaluationConfig)
    checkpoint: CheckpointConfig = section(CheckpointConfig)
    machine: MachineConfig = section(MachineConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        """Settings that follow from the pictures, or from the model it starts from."""
        decided = decided_by_pictures(self.model, self.training.start)
        return decided | left_open(self, "training.steps")

    @property
    def name(self) -> str:
        """What the run is called unless the user names it: its recipe."""
        return self.recipe
