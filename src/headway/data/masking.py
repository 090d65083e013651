"""Words hidden from an encoder, for it to guess them. Devlin et al. 2019, section 3.1."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headway.settings import COPIES, setting
from headway.text import MarkedTokenizer

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """Which tokens are to be guessed, and what stands there meanwhile."""

    share: float = setting(0.15, "share of a row's tokens that are to be guessed", gt=0, lt=1)
    hidden: float = setting(0.8, "share of those that [MASK] stands for", ge=0, le=1)
    random: float = setting(0.1, "share of those that any other word stands for", ge=0, le=1)
    whole_words: bool = setting(False, "all pieces of a word are to be guessed, or none")
    dynamic: bool = setting(True, "other tokens in each epoch (RoBERTa); else `duplicates` times")
    duplicates: int = setting(
        10, "of dynamic=false: epochs until the first comes again", gt=0, le=COPIES
    )

    def __post_init__(self) -> None:
        if self.hidden + self.random > 1:
            raise ValueError(f"{self.hidden=} and {self.random=} are more than all together")


class Masking:
    """Chooses tokens and hides them.

    max(1, round(share n)) of the n tokens of a row that are no special ones are chosen, so never a
    mark. Each becomes [MASK] with probability `hidden`, any word of the vocabulary with probability
    `random` (no special one), and else stays as it is. Devlin et al. 2019, section 3.1 and appendix
    A.1; whole words as in their later release.
    """

    def __init__(
        self, config: MaskingConfig, mask: int, special: Collection[int], continues: Sequence[bool]
    ) -> None:
        """continues: of each id, whether it goes on with a word (`MarkedTokenizer.continues`)."""
        self.config, self.mask = config, mask
        self.is_special = np.zeros(len(continues), bool)
        self.is_special[list(special)] = True
        self.continues = np.array(continues, bool)
        self.ordinary: Numbers = np.flatnonzero(~self.is_special)

    @classmethod
    def of(cls, config: MaskingConfig, tokenizer: MarkedTokenizer) -> Masking:
        """For what a tokenizer makes of texts."""
        marks = tokenizer.marks
        return cls(config, marks.mask, tokenizer.special_ids, tokenizer.continues())

    def __call__(
        self, ids: Sequence[int], random: np.random.Generator
    ) -> tuple[list[int], list[int]]:
        """(ids with some hidden, the places that are to be guessed, in order)."""
        row = np.array(ids, np.int64)
        places = self._chosen(row, random)
        fate = random.random(len(places))
        others = self.ordinary[random.integers(len(self.ordinary), size=len(places))]
        hidden, shown = self.config.hidden, 1 - self.config.random
        # random ones at the upper end, kept ones between, each in its own share
        row[places[fate < hidden]] = self.mask
        swapped = fate >= shown
        row[places[swapped]] = others[swapped]
        return row.tolist(), places.tolist()

    def count(self, tokens: int) -> int:
        """How many of so many tokens are chosen."""
        return max(1, round(self.config.share * tokens)) if tokens else 0

    def _chosen(self, row: Numbers, random: np.random.Generator) -> Numbers:
        candidates = np.flatnonzero(~self.is_special[row])
        wanted = self.count(len(candidates))
        if not self.config.whole_words:
            return np.sort(random.permutation(candidates)[:wanted])
        goes_on = self.continues[row[candidates]]
        goes_on[1:] &= np.diff(candidates) == 1  # a mark stands between
        goes_on[:1] = False
        words = np.cumsum(~goes_on) - 1
        sizes = np.bincount(words)
        taken = np.zeros(len(sizes), bool)
        room = wanted
        for word in random.permutation(len(sizes)).tolist():
            if sizes[word] <= room:
                taken[word], room = True, room - int(sizes[word])
            if not room:
                break
        if wanted and not taken.any():  # every word is longer than what may be chosen
            taken[int(random.integers(len(sizes)))] = True
        chosen: Numbers = candidates[taken[words]]
        return chosen
