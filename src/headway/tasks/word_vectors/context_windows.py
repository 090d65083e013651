"""Batches of words and their context windows: skip-gram, CBOW and next-word examples.

One epoch keeps some of the words (subsampling), visits each of them once in shuffled order, and
takes 1 to `window` words on both sides as its context, within the sentence. All randomness depends
only on (seed, epoch, position), so training can resume at any batch. Memory: about 20 bytes per
word of the text at the start of an epoch, then 8.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from headway.base.shapes import Int, Tensor
from headway.data.stream import Array, Batch, Order, parts
from headway.tasks.word_vectors.data import (
    WordCorpus,
    keep_probability,
    key_of,
    subsampled,
    uniform,
)

Kind = Literal["skip-gram", "cbow", "next-word"]
BLOCK = 64  # examples that share their sampled words
_KEEP, _REACH, _ORDER, _SAMPLE = range(4)  # purposes of a key


@dataclass(frozen=True)
class WordBatch(Batch):
    """B bags of words, and the words to predict from each.

    words: the bags concatenated, I ids. starts: index in `words` of the start of each bag.
    targets: P words to predict, target p from bag owner[p]. sampled: G x M negative samples
    (noise); bags 64 g to 64 g + 63 share row g. Skip-gram: the bag is one word, its targets are the
    context words. CBOW: the bag is the context words, its target is the word. Next word: one word,
    one target, no negative samples. indices: the first positions of the batch, for messages.
    """

    examples = "centre words"
    words: Int[Tensor, " I"]
    starts: Int[Tensor, " B"]
    targets: Int[Tensor, " P"]
    owner: Int[Tensor, " P"]
    sampled: Int[Tensor, "G M"]
    indices: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ContextWindowSettings:
    """How examples are made. batch_size: number of centre words per batch. window: maximum distance
    of a context word. subsample: threshold t of subsampling (`keep_probability`)."""

    kind: Kind
    batch_size: int
    window: int = 5
    subsample: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class Centres:
    """The centre words of a batch. ids: all ids that the epoch keeps. positions: those of the words
    in `ids`. number: the number of the batch in the epoch. rank, size: which of several processes
    makes its part of the batch."""

    ids: npt.NDArray[np.int32]
    positions: Array
    number: int
    rank: int = 0
    size: int = 1


class Windows(Order[Centres]):
    """The centre words of a corpus: the order of an epoch, and batches of them with their context.

    counts: number of occurrences of each vocabulary word in the training text. Negative samples are
    drawn with probability proportional to count^0.75 (Mikolov et al. 2013b, section 2.2).
    """

    def __init__(
        self, corpus: WordCorpus, counts: list[int], settings: ContextWindowSettings
    ) -> None:
        self.corpus, self.settings, self.batch_size = corpus, settings, settings.batch_size
        self.counts = np.array(counts, np.float64)
        # Language modelling needs every word; the other kinds learn more from rare words.
        threshold = 0.0 if settings.kind == "next-word" else settings.subsample
        self.keep = keep_probability(self.counts, threshold)
        kept = float((self.keep * self.counts).sum() / max(self.counts.sum(), 1.0))
        self.examples_per_epoch = round(kept * corpus.words)
        weights = self.counts**0.75
        self.noise = np.cumsum(weights / weights.sum())

    @property
    def batches_per_epoch(self) -> int:
        return max(1, round(self.examples_per_epoch / self.batch_size))

    def __call__(self, epoch: int) -> list[Centres]:
        seed = self.settings.seed
        ids = subsampled(self.corpus.ids, self.keep, key_of(seed, epoch, _KEEP))
        if self.settings.kind == "next-word":  # every word, and the border before the first
            positions = np.arange(len(ids) - 1, dtype=np.uint32)
        else:
            positions = np.flatnonzero(ids).astype(np.uint32)
        np.random.Generator(np.random.PCG64(key_of(seed, epoch, _ORDER))).shuffle(positions)
        batches = parts(positions, self.batch_size)
        return [Centres(ids, positions, number) for number, positions in enumerate(batches)]

    def part(self, item: Centres, rank: int, size: int) -> Centres:
        """Return the part of process `rank`: every `size`-th block of 64 words, since the words of
        a block share their negative samples; or every `size`-th word if there are no samples."""
        if self.settings.kind == "next-word":
            return replace(item, positions=item.positions[rank::size])
        return replace(item, rank=rank, size=size)

    def batch(self, chosen: Centres, epoch: int) -> WordBatch | None:
        """Return words with their context as a batch; None if no word has any."""
        ids, centres = chosen.ids, chosen.positions.astype(np.int64)
        if not len(centres):
            return None
        indices = tuple(int(i) for i in centres[:8])
        if self.settings.kind == "next-word":
            range_of_bags = np.arange(len(centres))
            no_noise = np.zeros((0, BLOCK), np.int64)
            targets = ids[centres + 1]
            return _batch_of(indices, ids[centres], range_of_bags, targets, range_of_bags, no_noise)
        neighbours, owner = self._neighbours(
            ids, centres, key_of(self.settings.seed, epoch, _REACH)
        )
        if not len(neighbours):
            return None
        has_some = np.bincount(owner, minlength=len(centres)) > 0
        centres, owner = centres[has_some], (np.cumsum(has_some) - 1)[owner]
        sampled = self._noise(-(-len(centres) // BLOCK), epoch, chosen.number)
        if chosen.size > 1:
            is_own = np.arange(len(centres)) // BLOCK % chosen.size == chosen.rank
            if not is_own.any():
                return None
            neighbours, owner = neighbours[is_own[owner]], owner[is_own[owner]]
            centres, owner = centres[is_own], (np.cumsum(is_own) - 1)[owner]
            sampled = sampled[chosen.rank :: chosen.size]
        range_of_bags = np.arange(len(centres))
        if self.settings.kind == "skip-gram":
            return _batch_of(indices, ids[centres], range_of_bags, neighbours, owner, sampled)
        starts = np.searchsorted(owner, range_of_bags)
        return _batch_of(indices, neighbours, starts, ids[centres], range_of_bags, sampled)

    def _neighbours(
        self, ids: npt.NDArray[np.int32], centres: npt.NDArray[np.int64], key: int
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Return the context words of all centres, and the index of the centre of each.

        Context words are at most `reach` positions away in the same sentence. reach is sampled
        uniformly from 1 .. window for each centre, so near words have more weight.
        """
        window = self.settings.window
        reach = (uniform(key, centres.astype(np.uint64)) * window).astype(np.int64) + 1
        steps = np.arange(1, window + 1)
        sides = []
        for direction in (-1, 1):
            around = np.clip(centres[:, None] + direction * steps, 0, len(ids) - 1)
            words = ids[around]  # B W, outwards
            inside = np.logical_and.accumulate(words != 0, axis=1) & (steps <= reach[:, None])
            sides.append((words, inside))
        words = np.concatenate([words for words, _ in sides], axis=1)
        owner, column = np.nonzero(np.concatenate([inside for _, inside in sides], axis=1))
        return words[owner, column], owner

    def _noise(self, blocks: int, epoch: int, position: int) -> npt.NDArray[np.int64]:
        """Return negative samples: one word per example, so 64 for each block of 64."""
        key = key_of(self.settings.seed, epoch, _SAMPLE, position)
        chance = np.random.Generator(np.random.PCG64(key)).random((blocks, BLOCK))
        word_ids = np.searchsorted(self.noise, chance, side="right")
        return np.minimum(word_ids, len(self.noise) - 1)


def _batch_of(indices: tuple[int, ...], *arrays: Array) -> WordBatch:
    a, b, c, d, e = (torch.from_numpy(np.ascontiguousarray(x, np.int64)) for x in arrays)
    return WordBatch(a, b, c, d, e, indices)
