"""Models that look at pictures: pictures in, vectors or classes out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import nn

from headway.bundle.classified import Classified
from headway.bundle.contract import Bundle, InputSpec, ProbeRequest
from headway.bundle.files import check_fingerprint, save_files
from headway.bundle.probe import Probe, Readout, class_names, image_patches
from headway.bundle.reading import Attention, Reading, attention_of
from headway.data.image_reader import ImageReader
from headway.data.images import as_pixels
from headway.errors import DataError, UsageError
from headway.files import read_json, write_file
from headway.models import ViT, ViTClassifier, ViTClassifierConfig, ViTConfig
from headway.models.vit_classifier import pooled
from headway.shapes import Float, Tensor

ROWS = 32  # pictures looked at together
CLASSES_FILE = "classes.json"
FORMAT = 1
Picture = Any
"""A path, the bytes of a file, an array of uint8 (height x width, or x 1 or 3 channels), or a
picture of Pillow's."""


@dataclass(frozen=True)
class ImageClasses:
    """How a classifier reads pictures, and the names of what it says, in the order of its
    classes."""

    reader: ImageReader
    labels: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """sha256 of all that the numbers and the names of the classes depend on."""
        return hashlib.sha256(self.reader.fingerprint.encode() + self._json()).hexdigest()

    def _json(self) -> bytes:
        facts = {"format": FORMAT, "labels": self.labels}
        return (json.dumps(facts, ensure_ascii=False, indent=1) + "\n").encode()

    def save(self, folder: Path) -> None:
        """Write images.json and classes.json."""
        self.reader.save(folder)
        write_file(folder / CLASSES_FILE, self._json())

    @classmethod
    def load(cls, folder: Path) -> ImageClasses:
        """Read what `save` wrote. DataError if it is not that."""
        path = folder / CLASSES_FILE
        facts = read_json(path)
        labels = facts.get("labels") if isinstance(facts, dict) else None
        if (
            not isinstance(labels, list)
            or facts.get("format") != FORMAT
            or not all(isinstance(label, str) for label in labels)
            or len(set(labels)) != len(labels)
        ):
            raise DataError(f"not a list of classes (format {FORMAT})", str(path))
        return cls(ImageReader.load(folder), tuple(labels))


class ImageEncoderBundle(Bundle):
    """An encoder of pictures: ViT, DINO, DINOv2."""

    kind: ClassVar[str] = "image encoder"
    inputs: ClassVar[InputSpec] = InputSpec(modality="image")
    model: ViT

    def __init__(self, model: ViT, reader: ImageReader) -> None:
        check_reader(reader, model.config)
        self.model = model.eval()
        self.reader = reader

    @classmethod
    def open(cls, model: ViT, folder: Path, facts: dict[str, Any]) -> ImageEncoderBundle:
        """The model with the reader that stands beside it, which must be that of `facts`."""
        reader = ImageReader.load(folder)
        check_fingerprint(facts, reader.fingerprint, folder)
        return cls(model, reader)

    @property
    def config(self) -> ViTConfig:
        return self.model.config

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

    def save(self, folder: Path, *, overwrite: bool = False) -> None:
        """Write config.json, model.safetensors and images.json durably: `files.save_files`."""
        save_files(folder, self.model, self.reader, overwrite)


class ImageClassifierBundle(Bundle):
    """A classifier of pictures with what it reads them by and what it says."""

    kind: ClassVar[str] = "image classifier"
    inputs: ClassVar[InputSpec] = InputSpec(modality="image")
    model: ViTClassifier

    def __init__(self, model: ViTClassifier, classes: ImageClasses) -> None:
        check_reader(classes.reader, model.config.vit)
        if len(classes.labels) != model.config.num_classes:
            raise DataError(
                f"there are {len(classes.labels)} labels, the model has "
                f"{model.config.num_classes} classes",
                hint="the model and the labels are not from the same training",
            )
        self.model = model.eval()
        self.classes = classes

    @classmethod
    def open(
        cls, model: ViTClassifier, folder: Path, facts: dict[str, Any]
    ) -> ImageClassifierBundle:
        """The model with reader and labels beside it, which must be those of `facts`."""
        classes = ImageClasses.load(folder)
        check_fingerprint(facts, classes.fingerprint, folder)
        return cls(model, classes)

    @property
    def config(self) -> ViTClassifierConfig:
        return self.model.config

    @property
    def labels(self) -> tuple[str, ...]:
        return self.classes.labels

    @property
    def reader(self) -> ImageReader:
        return self.classes.reader

    @property
    def vit(self) -> ViT:
        """The encoder."""
        return self.model.vit

    @torch.inference_mode()
    def classify(self, pictures: Sequence[Picture]) -> list[Classified]:
        """What each picture shows, in order. What one gets does not depend on the others."""
        found = []
        for images in batches_of(self.reader, pictures, self.device):
            shares = self.model(images).float().softmax(-1)
            found += [self._named(row) for row in shares.tolist()]
        return found

    def embed(
        self,
        pictures: Sequence[Picture],
        *,
        pooling: Literal["first", "mean"] | None = None,
        normalise: bool = True,
    ) -> Float[Tensor, "N D"]:
        """The encoder's vectors, as `ImageEncoderBundle.embed` gives them."""
        return vectors_of(self.vit, self.reader, pictures, pooling, normalise)

    def reading(self, picture: Picture) -> Reading:
        """What is read of one picture; the answer is the logits of its class."""
        images = image_of(self.reader, picture, self.device)
        return image_reading(self.model, self.vit, images, lambda: self.model(images), "vit.")

    def attention(
        self, picture: Picture, layers: Sequence[str] = (), heads: Sequence[int] = ()
    ) -> Attention:
        """Attention weights while one picture is looked at, as `ImageEncoderBundle.attention`."""
        return attention_of(self.reading(picture), layers, heads)

    def _probe(self, request: ProbeRequest) -> Probe:
        reading = self.reading(request.input)
        (found,) = self.classify([request.input])
        vector = {"first": "x_[CLS]", "mean": "mean_p x_p", "both": "[x_[CLS], mean_p x_p]"}
        return Probe(
            kind=self.kind,
            reading=reading,
            answer=found.label,
            readout=Readout(
                side="picture",
                positions=[0],
                logits=lambda output: output,
                names=class_names(self.labels),
                equation=f"z = {vector[self.config.pooling]} W_c + b_c",
                function=ViTClassifier.classify,
            ),
            images={"picture": image_patches(self.vit, self.reader, request.input)},
        )

    def _named(self, shares: list[float]) -> Classified:
        ranked = sorted(zip(self.labels, shares, strict=True), key=lambda pair: -pair[1])
        return Classified(ranked[0][0], dict(ranked))

    def save(self, folder: Path, *, overwrite: bool = False) -> None:
        """Write config.json, model.safetensors, images.json and classes.json durably:
        `files.save_files`."""
        save_files(folder, self.model, self.classes, overwrite)


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
    how = pooling or ("first" if vit.config.class_token else "mean")
    device = next(vit.parameters()).device
    parts = [
        pooled(vit, vit.encode(images), how).float()
        for images in batches_of(reader, pictures, device)
    ]
    found = torch.cat(parts) if parts else torch.zeros(0, vit.config.model_dim)
    return F.normalize(found, dim=-1) if normalise else found


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
