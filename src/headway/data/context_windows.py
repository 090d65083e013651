"""Words and their neighbours as batches of ids: skip-gram, CBOW and next-word examples.

One pass keeps some of the words (subsampling), visits each kept word once in a shuffled order, and
looks at 1 to `window` words on both sides of it, up to the end of the sentence. Everything random
follows from (seed, epoch, place), so any epoch can be entered at any batch. Memory: some 20 bytes
a word of the text while an epoch begins, 8 while it lasts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch

from headway.data.word_corpus import WordCorpus, keep_probability, key_of, subsampled, uniform
from headway.shapes import Int, Tensor

Kind = Literal["skip-gram", "cbow", "next-word"]
BLOCK = 64  # examples that share their sampled words
_KEEP, _REACH, _ORDER, _SAMPLE = range(4)  # purposes of a key


@dataclass(frozen=True)
class WordBatch:
    """B bags of words, and the words to predict from each.

    words: the bags end to end, "I" ids. starts: where in `words` each of the B bags begins.
    targets: P words to predict, target p from bag owner[p]. sampled: G x M words drawn as noise;
    bags 64 g to 64 g + 63 share row g. Skip-gram: the bag is one word, its targets the neighbours.
    CBOW: the bag is the neighbours, its target the word. Next word: one word, one target, no noise.
    indices: the first of the places in the pass, for messages.
    """

    examples: ClassVar[str] = "centre words"  # what `indices` count, for messages
    words: Int[Tensor, " I"]
    starts: Int[Tensor, " B"]
    targets: Int[Tensor, " P"]
    owner: Int[Tensor, " P"]
    sampled: Int[Tensor, "G M"]
    indices: tuple[int, ...] = ()

    def to(self, device: str) -> WordBatch:
        tensors = (self.words, self.starts, self.targets, self.owner, self.sampled)
        words, starts, targets, owner, sampled = (tensor.to(device) for tensor in tensors)
        return WordBatch(words, starts, targets, owner, sampled, self.indices)


@dataclass(frozen=True, kw_only=True)
class WindowSettings:
    """How examples are made. rows: words visited for one batch."""

    kind: Kind
    rows: int
    window: int = 5
    subsample: float = 0.0
    seed: int = 0


class Windows:
    """A corpus as an endless stream of examples that can be entered anywhere.

    counts: of each word of the vocabulary, in the training text. Noise is drawn with probability
    proportional to count^0.75 (Mikolov et al. 2013b, section 2.2).
    """

    def __init__(
        self,
        corpus: WordCorpus,
        counts: list[int],
        settings: WindowSettings,
        device: str = "cpu",
    ) -> None:
        self.corpus, self.settings, self.device = corpus, settings, device
        self.counts = np.array(counts, np.float64)
        # Language modelling wants every word; the others learn more from the rare ones.
        threshold = 0.0 if settings.kind == "next-word" else settings.subsample
        self.keep = keep_probability(self.counts, threshold)
        weights = self.counts**0.75
        self.noise = np.cumsum(weights / weights.sum())

    def epoch(self, number: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32]]:
        """The ids that this pass keeps, and the places in them to visit, in order."""
        seed = self.settings.seed
        kept = subsampled(self.corpus.ids, self.keep, key_of(seed, number, _KEEP))
        if self.settings.kind == "next-word":  # every word, and the border before the first
            places = np.arange(len(kept) - 1, dtype=np.uint32)
        else:
            places = np.flatnonzero(kept).astype(np.uint32)
        np.random.Generator(np.random.PCG64(key_of(seed, number, _ORDER))).shuffle(places)
        return kept, places

    def batches_an_epoch(self) -> int:
        """As expected: subsampling makes epochs a little different."""
        visited = float((self.keep * self.counts).sum() / self.counts.sum()) * self.corpus.words
        return max(1, round(visited / self.settings.rows))

    def stream(self, epoch: int, position: int) -> Iterator[tuple[int, int, WordBatch]]:
        """(next epoch, next position, batch), starting at batch `position` of `epoch`."""
        rows = self.settings.rows
        while True:
            kept, places = self.epoch(epoch)
            last = -(-len(places) // rows)
            while position < last:
                chosen = places[position * rows : (position + 1) * rows]
                batch = self._batch(kept, chosen, epoch, position)
                position += 1
                following = (epoch + 1, 0) if position == last else (epoch, position)
                if len(batch.targets):
                    yield (*following, batch.to(self.device))
            epoch, position = epoch + 1, 0

    def _batch(
        self,
        kept: npt.NDArray[np.int32],
        places: npt.NDArray[np.uint32],
        epoch: int,
        position: int,
    ) -> WordBatch:
        centres = places.astype(np.int64)
        indices = tuple(int(i) for i in centres[:8])
        if self.settings.kind == "next-word":
            each = np.arange(len(centres))
            nothing = np.zeros((0, BLOCK), np.int64)
            return _tensors(kept[centres], each, kept[centres + 1], each, nothing, indices)
        neighbours, owner = self._neighbours(
            kept, centres, key_of(self.settings.seed, epoch, _REACH)
        )
        has_some = np.bincount(owner, minlength=len(centres)) > 0
        centres, owner = centres[has_some], (np.cumsum(has_some) - 1)[owner]
        sampled = self._noise(-(-len(centres) // BLOCK), epoch, position)
        each = np.arange(len(centres))
        if self.settings.kind == "skip-gram":
            return _tensors(kept[centres], each, neighbours, owner, sampled, indices)
        starts = np.searchsorted(owner, each)
        return _tensors(neighbours, starts, kept[centres], each, sampled, indices)

    def _neighbours(
        self, kept: npt.NDArray[np.int32], centres: npt.NDArray[np.int64], key: int
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Words at most `reach` places away in the same sentence, and whose neighbours they are.

        reach is drawn from 1 .. window for each centre: near words count more.
        """
        window = self.settings.window
        reach = (uniform(key, centres.astype(np.uint64)) * window).astype(np.int64) + 1
        steps = np.arange(1, window + 1)
        sides = []
        for direction in (-1, 1):
            around = np.clip(centres[:, None] + direction * steps, 0, len(kept) - 1)
            words = kept[around]  # B W, outwards
            inside = np.logical_and.accumulate(words != 0, axis=1) & (steps <= reach[:, None])
            sides.append((words, inside))
        words = np.concatenate([words for words, _ in sides], axis=1)
        owner, column = np.nonzero(np.concatenate([inside for _, inside in sides], axis=1))
        return words[owner, column], owner

    def _noise(self, blocks: int, epoch: int, position: int) -> npt.NDArray[np.int64]:
        """One word for each example, so 64 for each block of 64."""
        key = key_of(self.settings.seed, epoch, _SAMPLE, position)
        chance = np.random.Generator(np.random.PCG64(key)).random((blocks, BLOCK))
        found = np.searchsorted(self.noise, chance, side="right")
        return np.minimum(found, len(self.noise) - 1)


def _tensors(
    words: npt.NDArray[Any],
    starts: npt.NDArray[Any],
    targets: npt.NDArray[Any],
    owner: npt.NDArray[Any],
    sampled: npt.NDArray[Any],
    indices: tuple[int, ...],
) -> WordBatch:
    arrays = (words, starts, targets, owner, sampled)
    a, b, c, d, e = (torch.from_numpy(np.ascontiguousarray(x, np.int64)) for x in arrays)
    return WordBatch(a, b, c, d, e, indices)
