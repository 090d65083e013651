"""Batches of texts with class or regression targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from headway.base.shapes import Float, Int, Tensor
from headway.data.encoder_batches import EncoderBatch, collate_encoder_batch
from headway.data.stream import Indices

Targets = Sequence[int] | Sequence[float]
"""Targets of texts: class numbers, or values for regression."""


@dataclass(frozen=True)
class LabelledBatch(EncoderBatch):
    """Framed texts and their targets: class numbers, or values for regression. indices: indices of
    the texts in the data. num_tokens: the number of tokens of all texts; None if they are to be
    counted."""

    examples = "texts"
    targets: Int[Tensor, " B"] | Float[Tensor, " B"]
    indices: tuple[int, ...] = ()
    num_tokens: int | None = None


@dataclass(frozen=True)
class LabelledTexts:
    """Tokenized texts with targets.

    rows: token ids of each text, none empty. targets: one per text. types: segment ids of each
    text, 1 for tokens of the second text of a pair; None if there are no pairs.
    """

    rows: Sequence[Sequence[int]]
    targets: Targets
    types: Sequence[Sequence[int]] | None = None

    @property
    def lengths(self) -> list[int]:
        """The number of tokens of each text."""
        return [len(sequence) for sequence in self.rows]

    def batch(self, indices: Indices, pad: int) -> LabelledBatch:
        """Return the texts with these indices as a batch."""
        chosen = [int(i) for i in indices]
        types = None if self.types is None else [self.types[i] for i in chosen]
        targets = [self.targets[i] for i in chosen]
        return collate_labelled([self.rows[i] for i in chosen], targets, pad, chosen, types)


def collate_labelled(
    sequences: Sequence[Sequence[int]],
    targets: Targets,
    pad: int,
    indices: Sequence[int] = (),
    types: Sequence[Sequence[int]] | None = None,
) -> LabelledBatch:
    """Return texts of any lengths, none empty, with their targets as one batch."""
    if len(sequences) != len(targets) or not all(sequences):
        raise ValueError("every text must have a label and at least one token")
    framed = collate_encoder_batch(sequences, types, pad)
    return LabelledBatch(
        framed.tokens,
        framed.keys,
        framed.types,
        torch.tensor(targets),
        tuple(indices),
        sum(map(len, sequences)),
    )
