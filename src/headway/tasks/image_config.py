"""Settings that the runs of all image tasks share: which images, and the shape of the encoder."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from headway.models import ViTConfig
from headway.settings import PIXELS, setting
from headway.tasks.sections import left_open


@dataclass(frozen=True, kw_only=True)
class ImageDataConfig:
    """How images are held out and made one size."""

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
class LabelledImageDataConfig(ImageDataConfig):
    train: tuple[str, ...] = setting(
        (),
        "pictures by class: a folder of folders, a .zip of it, an .npz or .parquet file, or digits",
    )
    valid: tuple[str, ...] = setting(
        (), "held-out pictures; none: those that train has for that, else some of train"
    )


@dataclass(frozen=True, kw_only=True)
class ImageEncoderSettings(ViTConfig):
    """An encoder's shape; what is None follows from the images, or from the model to start from."""

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
    def described(self) -> str:
        """The encoder in words."""
        (y, x), (height, width) = self.vit.image, self.patch
        return (
            f"{self.num_layers} layers, d={self.model_dim}, {self.num_heads} heads, "
            f"pictures of {y} x {x} x {self.channels} in patches of {height} x {width}"
        )

    @property
    def vit(self) -> ViTConfig:
        """The encoder's configuration; what the images decide must be there."""
        return ViTConfig(**{field.name: getattr(self, field.name) for field in fields(ViTConfig)})


SHAPE = tuple(
    field.name
    for field in fields(ViTConfig)
    if field.name not in ("dropout", "pooler", "image_size")
)
"""The settings of the encoder that the model to start from decides."""


def decided_by_images(
    model: ImageEncoderSettings, start: str | None, key: str = "model"
) -> frozenset[str]:
    """Settings of the model, under `key`, that follow from the images, or from the model that it
    starts from."""
    decided = left_open(model, "image_size", "channels")
    if model.image_size is None:
        decided |= {"image_width"}
    if start is not None:
        decided |= frozenset(SHAPE)
    return frozenset(f"{key}.{name}" for name in decided)
