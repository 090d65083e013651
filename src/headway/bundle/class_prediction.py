"""The prediction of a text or image classifier: one class, and the probabilities of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from headway.base.errors import DataError
from headway.base.settings import setting


@dataclass(frozen=True, kw_only=True)
class ClassOptions:
    """Options of a prediction."""

    top: int | None = setting(
        None,
        "Number of labels per input, most probable first; if unset, 1 for a text, 5 for an image, "
        "and all with --json.",
        gt=0,
    )


@dataclass(frozen=True)
class Classified:
    """The predicted class of a text or an image.

    probabilities: of every label, the most probable first; their total is 1.
    """

    label: str
    probabilities: dict[str, float]

    @classmethod
    def ranked(cls, labels: tuple[str, ...], probabilities: list[float]) -> Classified:
        """Return the prediction for the probabilities of `labels`, which are in the same order."""
        pairs = zip(labels, probabilities, strict=True)
        by_label = dict(sorted(pairs, key=lambda pair: -pair[1]))
        return cls(next(iter(by_label)), by_label)

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
