"""Image encoders (ViT, DINO, DINOv2), and functions that all bundles of image models share."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import nn

from headway.base.errors import DataError, UsageError
from headway.base.shapes import Float, Tensor
from headway.bundle.arguments import checked
from headway.bundle.contract import InputSpec, ProbeRequest
from headway.bundle.forward_pass import Attending, ForwardPass
from headway.bundle.probe import Probe, Readout, image_patches
from headway.bundle.with_reader import StoredBundle
from headway.data.image_reader import IMAGES_AT_ONCE, ImageReader
from headway.data.images import to_pixels
from headway.models import ViT, ViTConfig
from headway.models.vit_classifier import pooled

AnyImage = Any
"""A path, the bytes of a file, an array of uint8 (height x width, or x 1 or 3 channels), or an
image of Pillow."""


class ImageEncoding(StoredBundle, Attending):
    """A bundle of an image encoder, alone or as a part of its model.

    reader: the image preprocessing. encoder_name: the name of the encoder in the model, with a dot
    after it; "" if it is the model.
    """

    inputs: ClassVar[InputSpec] = InputSpec(modality="image")
    encoder_name: ClassVar[str] = ""
    reader: ImageReader

    @property
    @abstractmethod
    def vit(self) -> ViT:
        """The image encoder."""

    @property
    def inspected(self) -> nn.Module:
        """The model, or the part of it that computes the output for an image."""
        return self.model

    @property
    def query_attention(self) -> str | None:
        """The name, in the model, of the attention by which a learned query collects the vector of
        an image; None if that vector is of [CLS] or of the patches."""
        return None

    @torch.inference_mode()
    def encode(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B D"]:
        """Return the vectors of preprocessed images, without normalisation: that of [CLS], or the
        mean of the patch vectors if there is no [CLS] or the model has a norm of the mean."""
        return _encoded(self.vit, images, None)

    @abstractmethod
    def output(self, images: Float[Tensor, "B C Y X"]) -> Tensor:
        """Return the model's output for preprocessed images: what `reading` computes."""

    @checked
    @torch.inference_mode()
    def embed(
        self,
        images: Sequence[AnyImage],
        *,
        pooling: Literal["first", "mean"] | None = None,
        normalise: bool = True,
    ) -> Float[Tensor, "N D"]:
        """Return one vector for each image.

        pooling: "first" for the vector of [CLS], "mean" for the mean of the patch vectors; if
        unset, [CLS] if the model has it and no norm of the mean (BEiT). normalise: scale vectors to
        length 1, so that a dot product is a cosine similarity. The vector of an image does not
        depend on the other images. Raises UsageError if pooling is "first" and the model has no
        [CLS] token.
        """
        vit = self.vit
        if pooling == "first" and not vit.config.class_token:
            raise UsageError(
                "pooling=first: this model has no [CLS] token", hint="use pooling=mean"
            )
        batches = batches_of(self.reader, images, self.device)
        parts = [_encoded(vit, batch, pooling) for batch in batches]
        vectors = torch.cat(parts) if parts else torch.zeros(0, vit.config.model_dim)
        return F.normalize(vectors, dim=-1) if normalise else vectors

    def reading(self, image: AnyImage) -> ForwardPass:
        """Return the forward pass for one image.

        The tokens are named [CLS], [R1], ... (registers), and "row,column" for patches.
        """
        images = image_of(self.reader, image, self.device)
        return ForwardPass(
            model=self.inspected,
            run=lambda: self.output(images),
            tokens={"image": names_of(self.vit, images.shape[2], images.shape[3])},
            axes={"encoder": ("image", "image")},
            embeddings={"image": f"{self.encoder_name}embedding"},
        )

    def _probe(self, request: ProbeRequest) -> Probe:
        answer, readout = self._prediction(request.input)
        patches = image_patches(self.vit, self.reader, request.input)
        return Probe(
            kind=self.kind,
            reading=self.reading(request.input),
            answer=answer,
            readout=readout,
            images={"image": patches},
        )

    def _prediction(self, image: AnyImage) -> tuple[str, Readout | None]:
        """Return the prediction for an image as text, and how it is read from the output."""
        return "", None


class ImageEncoderBundle(ImageEncoding):
    """An image encoder (ViT, DINO to DINOv3, DeiT, BEiT) with its image preprocessing."""

    kind: ClassVar[str] = "image encoder"
    reader_class = ImageReader
    model: ViT

    def __init__(self, model: ViT, reader: ImageReader) -> None:
        check_reader(reader, model.config)
        super().__init__(model, reader)
        self.reader = reader

    @property
    def vit(self) -> ViT:
        return self.model

    def output(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B T D"]:
        """Return the vectors of all tokens of preprocessed images."""
        return self.vit.encode(images)


def _encoded(
    vit: ViT, images: Float[Tensor, "B C Y X"], pooling: Literal["first", "mean"] | None
) -> Float[Tensor, "B D"]:
    has_vector = vit.config.class_token and vit.config.final_norm == "tokens"
    method = pooling or ("first" if has_vector else "mean")
    return pooled(vit, vit.encode(images), method).float()


def image_of(
    reader: ImageReader, image: AnyImage, device: torch.device
) -> Float[Tensor, "1 C Y X"]:
    """Return one image, preprocessed as a batch of one."""
    (images,) = batches_of(reader, [image], device)
    return images


def names_of(vit: ViT, y: int, x: int) -> list[str]:
    """Return the names of the encoder's tokens for an image of y x x pixels: [CLS], [DIST] (the
    distillation token), [R1], ... (registers), and "row,column" for patches."""
    rows, columns = vit.embedding.patches.grid(y, x)
    names = ["[CLS]"] if vit.config.class_token else []
    names += ["[DIST]"] if vit.config.distillation_token else []
    names += [f"[R{i + 1}]" for i in range(vit.config.registers)]
    return names + [f"{row},{column}" for row in range(rows) for column in range(columns)]


def batches_of(
    reader: ImageReader, images: Sequence[AnyImage], device: torch.device
) -> Iterator[Float[Tensor, "B C Y X"]]:
    """Yield batches of preprocessed images. Raises UsageError if `images` is a single image."""
    if isinstance(images, str | bytes | Path):
        raise UsageError("expected a list of images, got a single one", hint="[image]")
    for start in range(0, len(images), IMAGES_AT_ONCE):
        chunk = images[start : start + IMAGES_AT_ONCE]
        pixels = [
            to_pixels(item, f"image {start + i + 1}", reader.conversion)
            for i, item in enumerate(chunk)
        ]
        yield reader.batch(pixels).to(device)


def check_reader(reader: ImageReader, config: ViTConfig) -> None:
    """Raise DataError unless the model accepts the images that the reader produces."""
    if reader.channels != config.channels:
        raise DataError(
            f"the image reader produces {reader.channels} channels, but the model has "
            f"{config.channels}",
            hint="use the preprocessing that the model was trained with",
        )
    if reader.height < config.patch[0] or reader.width < config.patch[1]:
        raise DataError(
            f"the image reader produces {reader.height} x {reader.width} pixels, less than one "
            f"patch of {config.patch[0]} x {config.patch[1]} pixels",
            hint="use the preprocessing that the model was trained with",
        )
