"""Models of images and texts (CLIP, SigLIP): vectors of both in one space, and labels as texts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import nn

from headway.base.errors import DataError, UsageError
from headway.base.files import is_count
from headway.base.shapes import Bool, Float, Int, Tensor
from headway.bundle.arguments import checked
from headway.bundle.class_prediction import (
    Classified,
    ClassifiedImage,
    ImageClassOptions,
    ImageInput,
)
from headway.bundle.files import check_vocabulary_size
from headway.bundle.image_encoder import AnyImage, ImageEncoding, batches_of, check_reader
from headway.bundle.with_reader import StoredImageReader
from headway.data.image_reader import ImageReader
from headway.data.padding import padded
from headway.models import ImageText, ViT
from headway.text import TextFrame, TextTokenizer, load_tokenizer

TEXTS_AT_ONCE = 64
"""Number of texts in a forward pass."""
DEFAULTS = ImageClassOptions()


@dataclass(frozen=True)
class ImageTextReader(StoredImageReader):
    """The image reader and the tokenizer of a model, and the special tokens around a text."""

    FILE: ClassVar[str] = "texts.json"
    images: ImageReader
    tokenizer: TextTokenizer
    frame: TextFrame

    def batch(self, texts: Sequence[str]) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
        """Return texts as ids, and a mask that is True at the tokens of each."""
        ids = self.tokenizer.encode_batch(list(texts))
        return padded([self.frame.framed(text) for text in ids], self.frame.end)

    def contents(self) -> tuple[TextTokenizer, dict[str, object]]:
        return self.tokenizer, asdict(self.frame)

    @classmethod
    def load(cls, folder: Path) -> ImageTextReader:

        def are_valid(settings: dict[str, object]) -> bool:
            before, fill = settings.get("before"), settings.get("fill")
            ids = [settings.get("end"), *(before if isinstance(before, list) else [None])]
            ids += [] if fill is None else [fill]
            is_left = type(settings.get("fills_left")) is bool
            return (
                is_left and is_count(settings.get("length"), 2) and all(is_count(i, 0) for i in ids)
            )

        settings = cls.load_settings(folder, are_valid, "the special tokens around a text")
        frame = TextFrame(
            length=settings["length"],
            before=tuple(settings["before"]),
            end=settings["end"],
            fill=settings["fill"],
            fills_left=settings["fills_left"],
        )
        return cls(ImageReader.load(folder), load_tokenizer(folder), frame)


@dataclass(frozen=True)
class ZeroShotClassifier:
    """A classifier of images whose classes are texts.

    vectors: of the texts of the labels, on the device of the model.
    """

    model: ImageText
    labels: tuple[str, ...]
    vectors: Float[Tensor, "K E"]

    @torch.inference_mode()
    def logits(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B K"]:
        """Compute the logits of the labels for images that the reader converted to tensors."""
        return self.model.logits(self.model.image_vectors(images), self.vectors).float()

    def probabilities(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B K"]:
        """Compute P(label | image), or with a sigmoid P(label fits image) of each label."""
        return self.model.probabilities(self.logits(images))


class ImageTextEncoding(ImageEncoding):
    """A bundle that encodes images and texts in one space."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The width of the vectors."""

    @abstractmethod
    def embed_texts(self, texts: Sequence[str]) -> Float[Tensor, "N D"]:
        """Return one vector of length 1 for each text, in the space of `embed`.

        The vector of a text does not depend on the other texts. A text that is too long is cut at
        the maximum length of the model.
        """


class ImageTextBundle(ImageTextEncoding):
    """A model that encodes images and texts in one space, with its image reader and tokenizer."""

    kind: ClassVar[str] = "image-text model"
    encoder_name: ClassVar[str] = ""
    reader_class = ImageTextReader
    model: ImageText

    def __init__(self, model: ImageText, reader: ImageTextReader) -> None:
        check_reader(reader.images, model.config.vit)
        check_vocabulary_size(reader.tokenizer.size, model.config.text.vocabulary)
        if reader.frame.length > model.config.text.max_length or reader.frame.room < 1:
            raise DataError(
                f"texts have at most {reader.frame.length} tokens, special tokens included, but "
                f"the model has positions for {model.config.text.max_length}",
                hint="use the tokenizer with which the model was trained",
            )
        super().__init__(model, reader)
        self.texts, self.reader = reader, reader.images

    @property
    def vit(self) -> ViT:
        return self.model.vit

    @property
    def width(self) -> int:
        return self.model.config.shared_dim

    @property
    def inspected(self) -> nn.Module:
        return self.vit

    @property
    def query_attention(self) -> str | None:
        return None if self.model.image_pooler is None else "image_pooler.attention"

    @torch.inference_mode()
    def encode(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B E"]:
        """Return the vectors of preprocessed images, of length 1."""
        return self.model.image_vectors(images)

    def output(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B T D"]:
        """Return the vectors of all tokens of preprocessed images."""
        return self.vit.encode(images)

    @checked
    @torch.inference_mode()
    def embed(
        self,
        images: Sequence[AnyImage],
        *,
        pooling: Literal["first", "mean"] | None = None,
        normalise: bool = True,
    ) -> Float[Tensor, "N D"]:
        """Return one vector of length 1 for each image, in the space of `embed_texts`.

        Raises UsageError if another pooling or length is requested.
        """
        if pooling is not None or not normalise:
            raise UsageError(
                "the vectors of a model of images and texts have its own pooling, and length 1",
                hint="leave out pooling and --raw",
            )
        parts = [
            self.model.image_vectors(batch).float()
            for batch in batches_of(self.reader, images, self.device)
        ]
        return torch.cat(parts) if parts else torch.zeros(0, self.width)

    @checked
    @torch.inference_mode()
    def embed_texts(self, texts: Sequence[str]) -> Float[Tensor, "N D"]:
        parts = []
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            tokens, keys = self.texts.batch(texts[start : start + TEXTS_AT_ONCE])
            vectors = self.model.text_vectors(tokens.to(self.device), keys.to(self.device))
            parts.append(vectors.float())
        return torch.cat(parts) if parts else torch.zeros(0, self.width)

    def classifier(
        self, labels: Sequence[str], template: str = DEFAULTS.template
    ) -> ZeroShotClassifier:
        """Return a classifier of images by any labels. Radford et al. 2021, section 3.1.

        template: the text of a label; {} is the label. Raises UsageError for a template without {},
        for fewer than one label, and for an empty label or one that occurs twice.
        """
        if template.count("{}") != 1:
            raise UsageError(
                f"template={template!r} must contain {{}} once, where the label is written",
                hint=f"such as {DEFAULTS.template!r}",
            )
        names = tuple(label.strip() for label in labels)
        if not names or not all(names) or len(set(names)) < len(names):
            raise UsageError(
                f"labels={', '.join(names)!r}: expected one or more different labels",
                hint='--labels "a cat,a dog"',
            )
        texts = [template.replace("{}", name) for name in names]
        return ZeroShotClassifier(self.model, names, self.embed_texts(texts).to(self.device))

    def predict(
        self,
        inputs: Sequence[ImageInput],
        options: ImageClassOptions = DEFAULTS,
        *,
        first: int = 1,
    ) -> list[ClassifiedImage]:
        """Classify image files by the labels of the options. Raises UsageError without labels."""
        if options.labels is None:
            raise UsageError(
                "labels are missing: this model classifies images by any labels that you name",
                hint='--labels "a cat,a dog"',
            )
        classifier = self.classifier(options.labels, options.template)
        classified = []
        for batch in batches_of(self.reader, [item.image for item in inputs], self.device):
            rows = classifier.probabilities(batch).tolist()
            classified += [Classified.ranked(classifier.labels, row) for row in rows]
        return Classified.of_images(inputs, classified, options)
