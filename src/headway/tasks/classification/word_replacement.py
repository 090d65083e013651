"""Data augmentation for distillation: copies of texts in which words are replaced by similar words.

Jiao et al. 2020, section 3.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from headway.base.shapes import Float, Tensor
from headway.data.padding import EncoderBatch, collate_encoder_batch
from headway.data.stream import Indices

Ids = npt.NDArray[np.int64]
CHUNK = 1024  # number of words whose neighbours are computed at once


@dataclass(frozen=True)
class AugmentedBatch(EncoderBatch):
    """Framed texts and copies of them. indices: indices of the texts in the data."""

    examples = "texts"
    indices: tuple[int, ...] = ()


@dataclass(frozen=True)
class Neighbours:
    """The words that may replace each word.

    rows: for each id, its row in `nearest`, or -1 if it is never replaced. nearest: the ids of the
    neighbours. continues: for each id, whether its token continues a word.
    """

    rows: Ids
    nearest: Ids
    continues: npt.NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        table: Float[Tensor, "V E"],
        whole: Sequence[bool],
        continues: Sequence[bool],
        asked: Sequence[int],
        most: int = 15,
    ) -> Neighbours:
        """Find the `most` nearest whole words of each whole word in `asked`, by cosine similarity.

        A word is not its own neighbour. table: embeddings of all ids. whole: for each id, whether
        its token is a whole word. continues: for each id, whether its token continues a word.
        """
        words = np.flatnonzero(np.array(whole, bool))
        replaceable = np.intersect1d(words, np.array(asked, np.int64))
        rows = np.full(len(whole), -1, np.int64)
        if not len(replaceable) or len(words) < 2:
            return cls(rows, np.empty((0, 0), np.int64), np.array(continues, bool))
        rows[replaceable] = np.arange(len(replaceable))
        unit = torch.nn.functional.normalize(table.detach().float().cpu(), dim=1)
        neighbours = []
        for start in range(0, len(replaceable), CHUNK):
            chosen = torch.from_numpy(replaceable[start : start + CHUNK])
            similarity = unit[chosen] @ unit[torch.from_numpy(words)].T
            similarity.masked_fill_(chosen[:, None] == torch.from_numpy(words)[None], -torch.inf)
            nearest_indices = similarity.topk(min(most, len(words) - 1)).indices
            neighbours.append(words[nearest_indices.numpy()])
        return cls(rows, np.concatenate(neighbours), np.array(continues, bool))

    def replaced(
        self, ids: Sequence[int], probability: float, random: np.random.Generator
    ) -> list[int]:
        """Return `ids` with each word of one token replaced by a neighbour with probability
        `probability`."""
        replaced_ids = np.array(ids, np.int64)
        is_continued = np.append(self.continues[replaced_ids[1:]], False)
        chances, picks = random.random(len(replaced_ids)), random.random(len(replaced_ids))
        positions = np.flatnonzero(
            (self.rows[replaced_ids] >= 0) & ~is_continued & (chances < probability)
        )
        if len(positions):
            numbers = (picks[positions] * self.nearest.shape[1]).astype(np.int64)
            replaced_ids[positions] = self.nearest[self.rows[replaced_ids[positions]], numbers]
        result: list[int] = replaced_ids.tolist()
        return result


@dataclass(frozen=True, kw_only=True)
class AugmentedTexts:
    """Texts, followed by `copies` copies of each, in which words are replaced.

    rows: ids of each text. types: segment ids, 1 for tokens of the second text of a pair; None if
    there are no pairs. probability: probability of replacing a word. A copy depends only on the
    seed and its index, so it is the same in every epoch.
    """

    rows: Sequence[Sequence[int]]
    types: Sequence[Sequence[int]] | None = None
    neighbours: Neighbours | None = None
    copies: int = 0
    probability: float = 0.4
    seed: int = 0
    lengths: list[int] = field(init=False)

    def __post_init__(self) -> None:
        if self.copies and self.neighbours is None:
            raise ValueError(f"copies={self.copies} needs neighbours, but neighbours is None")
        lengths = [len(row) for row in self.rows] * (1 + self.copies)
        object.__setattr__(self, "lengths", lengths)

    def row(self, index: int) -> Sequence[int]:
        """Return the ids of a text, or of a copy with replaced words."""
        original = self.rows[index % len(self.rows)]
        if index < len(self.rows) or self.neighbours is None:
            return original
        random = np.random.default_rng([self.seed, index])
        return self.neighbours.replaced(original, self.probability, random)

    def batch(self, indices: Indices, pad: int) -> AugmentedBatch:
        """Return the texts and copies with these indices as a batch."""
        chosen = [int(i) for i in indices]
        types = None if self.types is None else [self.types[i % len(self.rows)] for i in chosen]
        framed = collate_encoder_batch([self.row(i) for i in chosen], types, pad)
        return AugmentedBatch(framed.tokens, framed.keys, framed.types, tuple(chosen))
