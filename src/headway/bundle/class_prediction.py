"""A prediction of one class, with the probabilities of all: of texts and of images."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Classified:
    """What a text or an image is. probabilities: of every label, the most probable first, together
    1."""

    label: str
    probabilities: dict[str, float]

    @classmethod
    def ranked(cls, labels: tuple[str, ...], probabilities: list[float]) -> Classified:
        """Of the probabilities of all labels, in the order of these."""
        pairs = zip(labels, probabilities, strict=True)
        by_label = dict(sorted(pairs, key=lambda pair: -pair[1]))
        return cls(next(iter(by_label)), by_label)
