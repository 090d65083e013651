"""Token masking for masked language modelling. Devlin et al. 2019, section 3.1."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headway.base.settings import COPIES, count, setting
from headway.text import EncoderTokenizer

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """Which tokens of a sequence the model must predict, and what replaces them in its input."""

    fraction: float = setting(0.15, "fraction of the tokens to predict", gt=0, lt=1)
    masked: float = setting(
        0.8, "fraction of the tokens to predict that [MASK] replaces", ge=0, le=1
    )
    random: float = setting(
        0.1, "fraction of the tokens to predict that a random token replaces", ge=0, le=1
    )
    whole_words: bool = setting(False, "whole-word masking: predict all tokens of a word or none")
    dynamic: bool = setting(
        True,
        "dynamic masking: sample new tokens to predict in each epoch (RoBERTa); false: only in "
        "the first `duplicates` epochs, then repeat them",
    )
    duplicates: int = count(
        10, "number of epochs with different masks before they repeat, for dynamic=false", COPIES
    )

    def __post_init__(self) -> None:
        if self.masked + self.random > 1:
            raise ValueError(
                f"masked={self.masked} and random={self.random} must add up to at most 1"
            )


class Masking:
    """Chooses tokens to predict and masks them.

    Of the n tokens of a sequence that are not special tokens, max(1, round(fraction n)) are chosen.
    Each is replaced by [MASK] with probability `masked`, by a random token of the vocabulary (not a
    special token) with probability `random`, and otherwise kept. Devlin et al. 2019, section 3.1
    and appendix A.1; whole-word masking as in their later release.
    """

    def __init__(
        self, config: MaskingConfig, mask: int, special: Collection[int], continues: Sequence[bool]
    ) -> None:
        """Make a masking. mask: id of [MASK]. special: ids of the special tokens. continues: for
        each id, whether its token continues a word (`EncoderTokenizer.continues`)."""
        self.config, self.mask = config, mask
        self.is_special = np.zeros(len(continues), bool)
        self.is_special[list(special)] = True
        self.continues = np.array(continues, bool)
        self.ordinary: Numbers = np.flatnonzero(~self.is_special)

    @classmethod
    def of(cls, config: MaskingConfig, tokenizer: EncoderTokenizer) -> Masking:
        """Make a masking for the ids of a tokenizer."""
        special_tokens = tokenizer.special_tokens
        return cls(config, special_tokens.mask, tokenizer.special_ids, tokenizer.continues())

    def __call__(
        self, ids: Sequence[int], random: np.random.Generator
    ) -> tuple[list[int], list[int]]:
        """Return (the ids with some masked, the sorted positions of the tokens to predict)."""
        tokens = np.array(ids, np.int64)
        positions = self._chosen(tokens, random)
        chances = random.random(len(positions))
        random_tokens = self.ordinary[random.integers(len(self.ordinary), size=len(positions))]
        mask_below, random_from = self.config.masked, 1 - self.config.random
        # chances in 0 .. 1: [MASK] at the lower end, random tokens at the upper end
        tokens[positions[chances < mask_below]] = self.mask
        is_random = chances >= random_from
        tokens[positions[is_random]] = random_tokens[is_random]
        return tokens.tolist(), positions.tolist()

    def count(self, tokens: int) -> int:
        """Return how many of `tokens` tokens are chosen."""
        return max(1, round(self.config.fraction * tokens)) if tokens else 0

    def _chosen(self, tokens: Numbers, random: np.random.Generator) -> Numbers:
        candidates = np.flatnonzero(~self.is_special[tokens])
        count = self.count(len(candidates))
        if not self.config.whole_words:
            return np.sort(random.permutation(candidates)[:count])
        continues = self.continues[tokens[candidates]]
        continues[1:] &= np.diff(candidates) == 1  # a special token is between
        continues[:1] = False
        words = np.cumsum(~continues) - 1
        sizes = np.bincount(words)
        is_taken = np.zeros(len(sizes), bool)
        room = count
        for word in random.permutation(len(sizes)).tolist():
            if sizes[word] <= room:
                is_taken[word], room = True, room - int(sizes[word])
            if not room:
                break
        if count and not is_taken.any():  # every word is longer than what may be chosen
            is_taken[int(random.integers(len(sizes)))] = True
        chosen: Numbers = candidates[is_taken[words]]
        return chosen
