"""Settings that all image tasks share: the images, and the shape of the encoder."""

from dataclasses import dataclass, fields
from typing import Literal

from headway.base.settings import PIXELS, count, setting
from headway.data.formats.parquet import ImageColumns
from headway.models import ViTConfig
from headway.tasks.sections import unset_settings


@dataclass(frozen=True, kw_only=True)
class ImageDataConfig:
    """How images are held out for validation and resized."""

    held_out: float = setting(
        0.1,
        "fraction of the training images that is held out if there are no validation images",
        gt=0,
        lt=1,
    )
    fit: Literal["crop", "squash", "pad"] = setting(
        "crop",
        "handling of images of another aspect ratio: centre crop, squash, or pad with black "
        "without resizing (for sounds); with --from, that of the pre-trained model",
    )
    resampling: Literal["bilinear", "bicubic", "lanczos"] = setting(
        "bicubic", "interpolation with which images are resized"
    )


@dataclass(frozen=True, kw_only=True)
class LabelledImageDataConfig(ImageDataConfig):
    """The labelled images that a model is trained on."""

    train: tuple[str, ...] = setting(
        (),
        "training images with classes: a folder with a subfolder for each class, a .zip of such a "
        "folder, an .npz or .parquet file, or digits",
    )
    valid: tuple[str, ...] = setting(
        (),
        "validation images; if unset, the validation split of train, or else a held-out fraction "
        "of train",
    )
    image: str | None = setting(
        None,
        "name of the column of images in .parquet files; if unset, the one with a usual name "
        "(image, img, ...), or the only one with bytes",
    )
    label: str | None = setting(
        None,
        "name of the column of labels in .parquet files; if unset, the one with a usual name "
        "(label, labels, cls, fine_label, ...), or the only one with class names in the metadata",
    )

    @property
    def columns(self) -> ImageColumns:
        """The columns of .parquet files."""
        return ImageColumns(image=self.image, label=self.label, flags="--data.")


@dataclass(frozen=True, kw_only=True)
class ImageEncoderSettings(ViTConfig):
    """The shape of an image encoder. The images or the pre-trained model decide what is None."""

    image_size: int | None = count(  # type: ignore[assignment]
        None,
        "height of the images in pixels, to which they are resized; if unset, their own height if "
        "all have the same size",
        PIXELS,
    )
    channels: int | None = count(  # type: ignore[assignment]
        None,
        "number of channels: 1 (greyscale) or 3 (RGB); if unset, as many as the images have",
        PIXELS,
    )
    positions: Literal["learned", "sinusoidal", "relative", "rotary", "none"] = setting(
        "sinusoidal",
        "position encoding of the patches: learned embeddings, sinusoids of row and column, "
        "learned biases of the scores by distance in rows and columns, or rotary positions of row "
        "and column",
    )

    def __post_init__(self) -> None:
        if self.channels not in (None, 1, 3):
            raise ValueError(f"channels={self.channels}: images have 1 channel or 3")
        if self.image_size is not None:
            super().__post_init__()

    @property
    def described(self) -> str:
        """A description of the encoder's shape for the terminal."""
        (y, x), (height, width) = self.vit.image, self.patch
        return (
            f"{self.num_layers} layers, d={self.model_dim}, {self.num_heads} heads, "
            f"images of {y} x {x} x {self.channels} in patches of {height} x {width}"
        )

    @property
    def vit(self) -> ViTConfig:
        """The configuration of the encoder; the settings that the images decide must be set."""
        return ViTConfig(**{field.name: getattr(self, field.name) for field in fields(ViTConfig)})


SHAPE = tuple(
    field.name
    for field in fields(ViTConfig)
    if field.name not in ("dropout", "pooler", "image_size")
)
"""The settings of the encoder that a pre-trained model decides."""


def decided_by_images(
    model: ImageEncoderSettings, start: str | None, key: str = "model"
) -> frozenset[str]:
    """List the settings of the model that the images or the pre-trained model decide.

    model: the requested settings. start: the pre-trained model, or None. key: the dotted key of
    the section that holds the settings. Returns dotted keys.
    """
    decided = unset_settings(model, "image_size", "channels")
    if model.image_size is None:
        decided |= {"image_width"}
    if start is not None:
        decided |= frozenset(SHAPE)
    return frozenset(f"{key}.{name}" for name in decided)
