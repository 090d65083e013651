"""The prediction of a text or image classifier: one class, and the probabilities of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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


def label_scores(probabilities: Mapping[str, float]) -> list[dict[str, object]]:
    """Return labels with their probabilities in the form of Hugging Face's inference API."""
    return [{"label": label, "score": value} for label, value in probabilities.items()]
