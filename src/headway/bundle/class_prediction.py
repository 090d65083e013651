"""The prediction of a text or image classifier: one class, and the probabilities of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from headway.base.errors import DataError
from headway.base.settings import required, setting


@dataclass(frozen=True, kw_only=True)
class ClassOptions:
    """Options of a prediction."""

    top: int | None = setting(
        None,
        "Number of labels per input, most probable first; if unset, 1 for a text, 5 for an image, "
        "and all with --json.",
        gt=0,
    )


@dataclass(frozen=True, kw_only=True)
class ImageInput:
    """One input of an image classifier."""

    image: Path = required(
        "images (.png .jpg .webp .gif .bmp .tif), or sounds (.wav) for a classifier of sounds"
    )


@dataclass(frozen=True, kw_only=True)
class ImageClassOptions(ClassOptions):
    """Options of the classification of images."""

    labels: tuple[str, ...] | None = setting(
        None,
        "Labels for a model of images and texts, separated by commas: any nouns, which need no "
        "training. A classifier has its own labels.",
    )
    template: str = setting(
        "This is a photo of {}.",
        "Text of a label for a model of images and texts; {} is the label.",
    )


@dataclass(frozen=True, kw_only=True)
class ClassifiedImage:
    """The predicted class of an image file.

    probabilities: of the requested number of labels, most probable first.
    """

    file: str
    label: str
    probabilities: dict[str, float]


@dataclass(frozen=True)
class Classified:
    """The predicted class of a text or an image.

    probabilities: of every label, the most probable first. Their total is 1, except for a model
    that decides each pair of an image and a text by itself (SigLIP).
    """

    label: str
    probabilities: dict[str, float]

    @classmethod
    def ranked(cls, labels: tuple[str, ...], probabilities: list[float]) -> Classified:
        """Return the prediction for the probabilities of `labels`, which are in the same order."""
        pairs = zip(labels, probabilities, strict=True)
        by_label = dict(sorted(pairs, key=lambda pair: -pair[1]))
        return cls(next(iter(by_label)), by_label)

    @staticmethod
    def of_images(
        inputs: Sequence[ImageInput], predictions: Sequence[Classified], options: ClassOptions
    ) -> list[ClassifiedImage]:
        """Return the predictions for image files, with as many labels as the options request."""
        return [
            ClassifiedImage(file=str(item.image), label=one.label, probabilities=one.best(options))
            for item, one in zip(inputs, predictions, strict=True)
        ]

    def best(self, options: ClassOptions) -> dict[str, float]:
        """Return the probabilities of as many labels as the options request."""
        return dict(islice(self.probabilities.items(), options.top))


def label_scores(probabilities: Mapping[str, float]) -> list[dict[str, object]]:
    """Return labels with their probabilities in the form of Hugging Face's inference API."""
    return [{"label": label, "score": value} for label, value in probabilities.items()]


def label_cells(probabilities: Mapping[str, float], count: int) -> list[str]:
    """Return the first `count` labels, each with its probability after a tab, for the terminal."""
    return [f"{label}\t{value:.3f}" for label, value in islice(probabilities.items(), count)]


def check_outputs(names: int, outputs: int, noun: str = "labels") -> None:
    """Raise DataError if a classifier has another number of outputs than of names for them.

    noun: the word for the names.
    """
    if names != outputs:
        raise DataError(
            f"there are {names} {noun}, but the model has {outputs} classes",
            hint=f"use the {noun} with which the model was trained",
        )
