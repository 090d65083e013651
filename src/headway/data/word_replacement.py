"""Texts for a student: more of them than were labelled, and copies with other words in them.

Jiao et al. 2020, section 3.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch

from headway.data.encoder_batches import FramedBatch, collate_framed
from headway.shapes import Float, Tensor

Ids = npt.NDArray[np.int64]
CHUNK = 1024  # words whose neighbours are looked for at once


@dataclass(frozen=True)
class FramedTexts(FramedBatch):
    """Framed texts. indices: where in the data they stand."""

    examples: ClassVar[str] = "texts"  # what `indices` count, for messages
    indices: tuple[int, ...] = ()

    def to(self, device: str) -> FramedTexts:
        """The same on another device."""
        there = super().to(device)
        return FramedTexts(there.tokens, there.keys, there.types, self.indices)


@dataclass(frozen=True)
class Neighbours:
    """Which words stand for which.

    rows: of each id, where its neighbours stand in `nearest`; -1 where it is never replaced.
    continues: of each id, whether it goes on with the word before it.
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
        """The `most` nearest whole words, by cosine in `table`, of each whole word in `asked`.

        A word is none of its own neighbours. whole: of each id, whether it is a word for itself.
        """
        words = np.flatnonzero(np.array(whole, bool))
        wanted = np.intersect1d(words, np.array(asked, np.int64))
        rows = np.full(len(whole), -1, np.int64)
        if not len(wanted) or len(words) < 2:
            return cls(rows, np.empty((0, 0), np.int64), np.array(continues, bool))
        rows[wanted] = np.arange(len(wanted))
        unit = torch.nn.functional.normalize(table.detach().float().cpu(), dim=1)
        found = []
        for start in range(0, len(wanted), CHUNK):
            chosen = torch.from_numpy(wanted[start : start + CHUNK])
            near = unit[chosen] @ unit[torch.from_numpy(words)].T
            near.masked_fill_(chosen[:, None] == torch.from_numpy(words)[None], -torch.inf)
            places = near.topk(min(most, len(words) - 1)).indices
            found.append(words[places.numpy()])
        return cls(rows, np.concatenate(found), np.array(continues, bool))

    def replaced(self, ids: Sequence[int], share: float, random: np.random.Generator) -> list[int]:
        """`ids`, each word of one piece with probability `share` another one."""
        row = np.array(ids, np.int64)
        goes_on = np.append(self.continues[row[1:]], False)
        chances, picks = random.random(len(row)), random.random(len(row))
        places = np.flatnonzero((self.rows[row] >= 0) & ~goes_on & (chances < share))
        if len(places):
            numbers = (picks[places] * self.nearest.shape[1]).astype(np.int64)
            row[places] = self.nearest[self.rows[row[places]], numbers]
        found: list[int] = row.tolist()
        return found


@dataclass(frozen=True, kw_only=True)
class AugmentedTexts:
    """rows: the ids of texts. types: 1 for tokens of a second text, None where there is none.

    After the texts themselves come `copies` of each, in which words are replaced. What a copy holds
    follows from the seed and its number alone: it is the same in every epoch.
    """

    rows: Sequence[Sequence[int]]
    types: Sequence[Sequence[int]] | None = None
    neighbours: Neighbours | None = None
    copies: int = 0
    share: float = 0.4
    seed: int = 0
    lengths: list[int] = field(init=False)

    def __post_init__(self) -> None:
        if self.copies and self.neighbours is None:
            raise ValueError(f"copies={self.copies} need neighbours")
        lengths = [len(row) for row in self.rows] * (1 + self.copies)
        object.__setattr__(self, "lengths", lengths)

    def row(self, index: int) -> Sequence[int]:
        """A text, or a copy with other words."""
        own = self.rows[index % len(self.rows)]
        if index < len(self.rows) or self.neighbours is None:
            return own
        random = np.random.default_rng([self.seed, index])
        return self.neighbours.replaced(own, self.share, random)

    def batch(self, indices: Sequence[int], pad: int) -> FramedTexts:
        """The texts and copies that stand there."""
        chosen = [int(i) for i in indices]
        types = None if self.types is None else [self.types[i % len(self.rows)] for i in chosen]
        framed = collate_framed([self.row(i) for i in chosen], types, pad)
        return FramedTexts(framed.tokens, framed.keys, framed.types, tuple(chosen))
