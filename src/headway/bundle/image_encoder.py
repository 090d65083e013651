"""Image encoders (ViT, DINO, DINOv2): images in, vectors out; and how image models read images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import nn

from headway.bundle.contract import InputSpec, ProbeRequest
from headway.bundle.forward_pass import Attention, Reading, attention_of
from headway.bundle.probe import Probe, image_patches
from headway.bundle.with_reader import StoredBundle
from headway.data.image_reader import ImageReader
from headway.data.images import as_pixels
from headway.errors import DataError, UsageError
from headway.models import ViT, ViTConfig
from headway.models.vit_classifier import pooled
from headway.shapes import Float, Tensor

ROWS = 32  # pictures looked at together
Picture = Any
"""A path, the bytes of a file, an array of uint8 (height x width, or x 1 or 3 channels), or a
picture of Pillow's."""


class ImageEncoderBundle(StoredBundle):
    """An encoder of pictures: ViT, DINO, DINOv2."""

    kind: ClassVar[str] = "image encoder"
    inputs: ClassVar[InputSpec] = InputSpec(modality="image")
    reader_class = ImageReader
    model: ViT

    def __init__(self, model: ViT, reader: ImageReader) -> None:
        check_reader(reader, model.config)
        super().__init__(model, reader)
        self.reader = reader

    @property
    def vit(self) -> ViT:
        """The encoder."""
        return self.model

    def embed(
        self,
        pictures: Sequence[Picture],
        *,
        pooling: Literal["first", "mean"] | None = None,
        normalise: bool = True,
    ) -> Float[Tensor, "N D"]:
        """One vector for each picture: that of [CLS], or the mean of its patches'; none: [CLS]'s
        where there is one. normalise: to length 1, so that a dot product is a cosine. What a
        picture gets does not depend on the others."""
        return vectors_of(self.vit, self.reader, pictures, pooling, normalise)

    @torch.inference_mode()
    def encode(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B D"]:
        """The vectors of images as the reader makes them: that of [CLS], or the mean of the
        patches' if there is no [CLS]. They have any length."""
        return _encoded(self.vit, images, None)

    def reading(self, picture: Picture) -> Reading:
        """What is read of one picture; the answer is the vectors of its tokens, which are called
        [CLS], [R1], ... (registers), and "row,column" of the patches."""
        images = image_of(self.reader, picture, self.device)
        return image_reading(self.model, self.vit, images, lambda: self.vit.encode(images))

    def attention(
        self, picture: Picture, layers: Sequence[str] = (), heads: Sequence[int] = ()
    ) -> Attention:
        """Attention weights while one picture is looked at. layers, heads: those to keep; none:
        all."""
        return attention_of(self.reading(picture), layers, heads)

    def _probe(self, request: ProbeRequest) -> Probe:
        reading = self.reading(request.input)
        patches = image_patches(self.vit, self.reader, request.input)
        return Probe(
            kind=self.kind, reading=reading, answer="", readout=None, images={"picture": patches}
        )


@torch.inference_mode()
def vectors_of(
    vit: ViT,
    reader: ImageReader,
    pictures: Sequence[Picture],
    pooling: Literal["first", "mean"] | None = None,
    normalise: bool = True,
) -> Float[Tensor, "N D"]:
    """One vector for each picture. UsageError for that of [CLS] where there is none."""
    if pooling == "first" and not vit.config.class_token:
        raise UsageError("this model has no [CLS]", hint="pooling=mean")
    device = next(vit.parameters()).device
    parts = [_encoded(vit, images, pooling) for images in batches_of(reader, pictures, device)]
    vectors = torch.cat(parts) if parts else torch.zeros(0, vit.config.model_dim)
    return F.normalize(vectors, dim=-1) if normalise else vectors


def _encoded(
    vit: ViT, images: Float[Tensor, "B C Y X"], pooling: Literal["first", "mean"] | None
) -> Float[Tensor, "B D"]:
    how = pooling or ("first" if vit.config.class_token else "mean")
    return pooled(vit, vit.encode(images), how).float()


def image_of(
    reader: ImageReader, picture: Picture, device: torch.device
) -> Float[Tensor, "1 C Y X"]:
    """One picture as the model is given it."""
    (images,) = batches_of(reader, [picture], device)
    return images


def image_reading(
    model: nn.Module,
    vit: ViT,
    images: Float[Tensor, "1 C Y X"],
    run: Callable[[], Tensor],
    within: str = "",
) -> Reading:
    """What an encoder of pictures reads. within: its name in the model, with a dot behind it."""
    return Reading(
        model=model,
        run=run,
        pieces={"picture": names_of(vit, images.shape[2], images.shape[3])},
        axes={"encoder": ("picture", "picture")},
        embeddings={"picture": f"{within}embedding"},
    )


def names_of(vit: ViT, y: int, x: int) -> list[str]:
    """What its vectors of a picture of that size are called: [CLS], [R1], ... (registers), and
    "row,column" of the patches."""
    rows, columns = vit.embedding.patches.grid(y, x)
    names = ["[CLS]"] if vit.config.class_token else []
    names += [f"[R{i + 1}]" for i in range(vit.config.registers)]
    return names + [f"{row},{column}" for row in range(rows) for column in range(columns)]


def batches_of(
    reader: ImageReader, pictures: Sequence[Picture], device: torch.device
) -> Iterator[Float[Tensor, "B C Y X"]]:
    """What the model is given of them, a few at a time."""
    if isinstance(pictures, str | bytes | Path):
        raise UsageError("pictures must be a list of pictures, not one", hint="[picture]")
    for start in range(0, len(pictures), ROWS):
        chunk = pictures[start : start + ROWS]
        pixels = [as_pixels(each, f"picture {start + i + 1}") for i, each in enumerate(chunk)]
        yield reader.batch(pixels).to(device)


def check_reader(reader: ImageReader, config: ViTConfig) -> None:
    """DataError unless the model can look at what the reader gives."""
    if reader.channels != config.channels:
        raise DataError(
            f"pictures are read with {reader.channels} channels, the model sees {config.channels}",
            hint="the model and its reader are not from the same training",
        )
    if reader.height < config.patch[0] or reader.width < config.patch[1]:
        raise DataError(
            f"pictures are read with {reader.height} x {reader.width} pixels, which hold no patch "
            f"of {config.patch[0]} x {config.patch[1]}"
        )
