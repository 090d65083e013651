"""Packing: sequences of fixed length from concatenated documents, with the document borders for
attention masks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from headway.base.errors import DataError
from headway.base.shapes import Int, Tensor
from headway.data.mixing import check_weights, quotas_of
from headway.data.padding import IGNORED
from headway.data.stream import Array, Batch, Order, parts
from headway.data.text_corpus import TextCorpus

_ROWS, _SHIFT, _MIXTURE = range(3)  # purposes of random numbers


@dataclass(frozen=True)
class TextBatch(Batch):
    """A batch for next-token prediction.

    tokens: input ids. targets: the next token of each position, -1 where there is none to learn.
    lengths: lengths of the documents in each sequence, in order, with sum T; None if each sequence
    is from one document. indices: first positions of the sequences in the text, for messages.
    count: the number of targets that are not -1; None if they are to be counted.
    """

    examples = "sequences beginning at tokens"
    tokens: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    lengths: tuple[tuple[int, ...], ...] | None
    indices: tuple[int, ...]
    count: int | None = None


@dataclass
class _Source:
    """A corpus split into sequences, in a new random order in each pass.

    A pass has `num_sequences` sequences of `length` targets. It starts at a random token, so that
    the boundaries of sequences differ between passes. Less than two sequences are left over at both
    ends.
    """

    corpus: TextCorpus
    number: int
    length: int
    seed: int
    name: str
    _orders: dict[int, npt.NDArray[np.int64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.corpus) <= self.length:
            raise DataError(
                f"the text must have more than {self.length:,} tokens, the sequence length, but "
                f"has {len(self.corpus):,}",
                self.name,
                f"set --training.length to {max(len(self.corpus) - 1, 1)} or less, or add text",
            )

    @property
    def num_sequences(self) -> int:
        return max(1, (len(self.corpus) - self.length) // self.length)

    def starts(self, draws: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the positions of the first tokens of sequences `draws`, counted over all
        passes."""
        starts = np.empty_like(draws)
        for number in np.unique(draws // self.num_sequences):
            in_pass = draws // self.num_sequences == number
            spare = len(self.corpus) - 1 - self.num_sequences * self.length
            shift = self._random(_SHIFT, int(number)).integers(min(spare, self.length - 1) + 1)
            order = self._order(int(number))
            starts[in_pass] = shift + order[draws[in_pass] % self.num_sequences] * self.length
        return starts

    def _order(self, number: int) -> npt.NDArray[np.int64]:
        if number not in self._orders:
            while len(self._orders) > 1:  # an epoch may end in the next pass
                del self._orders[min(self._orders)]
            self._orders[number] = self._random(_ROWS, number).permutation(self.num_sequences)
        return self._orders[number]

    def _random(self, purpose: int, number: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.number, purpose, number])


class PackedSequences(Order[Array]):
    """The sequences of corpora: the order of an epoch, and batches of them.

    batch_size: number of sequences per batch. length: targets per sequence. weights: relative
    number of sequences from each corpus; if unset, proportional to their lengths, so that an epoch
    is one pass over all. names: those of the corpora for errors; if unset, their folders. Memory
    holds the indices of the sequences of an epoch.
    """

    def __init__(
        self,
        corpora: Sequence[TextCorpus],
        batch_size: int,
        length: int,
        *,
        weights: Sequence[float] = (),
        names: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        names = names or [str(corpus.folder) for corpus in corpora]
        if not corpora or batch_size < 1 or length < 1:
            raise ValueError(
                "the number of corpora, batch_size and length must be at least 1, but there are "
                f"{len(corpora)} corpora, {batch_size=}, {length=}"
            )
        check_weights(weights, len(corpora))
        self.sources = [_Source(c, i, length, seed, names[i]) for i, c in enumerate(corpora)]
        self.batch_size, self.length, self.seed = batch_size, length, seed
        sizes = [source.num_sequences for source in self.sources]
        self.quotas: npt.NDArray[np.int64] = quotas_of(sizes, weights)
        """The number of sequences from each corpus in an epoch."""
        self.examples_per_epoch = int(self.quotas.sum())

    def __call__(self, epoch: int) -> list[Array]:
        """Return (corpus, index of the sequence in its corpus) for each sequence of a batch."""
        return parts(self._mixed(epoch), self.batch_size)

    def batch(self, chosen: Array, epoch: int) -> TextBatch:
        """Return sequences, (corpus, index) for each, as a batch."""
        starts = np.empty(len(chosen), np.int64)
        for number, source in enumerate(self.sources):
            of_source = chosen[:, 0] == number
            starts[of_source] = source.starts(chosen[of_source, 1])
        corpora = [self.sources[int(number)].corpus for number in chosen[:, 0]]
        return _cut(list(zip(corpora, starts.tolist(), strict=True)), self.length)

    def _mixed(self, epoch: int) -> npt.NDArray[np.int64]:
        """Return (corpus, index of the sequence in its corpus) for each sequence of an epoch."""
        numbers = np.repeat(np.arange(len(self.quotas)), self.quotas)
        numbers = np.random.default_rng([self.seed, 0, _MIXTURE, epoch]).permutation(numbers)
        mixed = np.stack((numbers, np.empty_like(numbers)), axis=1)
        for number, quota in enumerate(self.quotas.tolist()):
            # In increasing order: otherwise, with many passes of a corpus per epoch, each batch
            # would need the orders of all passes.
            mixed[numbers == number, 1] = epoch * quota + np.arange(quota)
        return mixed


def in_order(
    corpus: TextCorpus, batch_size: int, length: int, device: str = "cpu"
) -> Iterator[TextBatch]:
    """Yield batches for evaluation in which each token of a corpus but the first is a target
    once."""
    starts = range(0, len(corpus) - 1, length)
    for first in range(0, len(starts), batch_size):
        chosen = [(corpus, start) for start in starts[first : first + batch_size]]
        yield _cut(chosen, length).to(device)


def _cut(segments: Sequence[tuple[TextCorpus, int]], length: int) -> TextBatch:
    """Return a batch of the sequences that start at these positions of these corpora.

    Positions after the end of a text are padded with zeros and have no target.
    """
    tokens = np.zeros((len(segments), length), np.int64)
    targets = np.full((len(segments), length), IGNORED, np.int64)
    lengths = []
    for index, (corpus, start) in enumerate(segments):
        ids: npt.NDArray[Any] = corpus.ids[start : start + length + 1].astype(np.int64)
        real = len(ids) - 1
        tokens[index, :real], targets[index, :real] = ids[:-1], ids[1:]
        low, high = np.searchsorted(corpus.offsets, (start + 1, start + real + 1))
        borders = corpus.offsets[low:high] - start  # starts of documents, 1 ... real
        if corpus.has_separate_ends:
            targets[index, borders - 1] = IGNORED
        inside = [int(b) for b in borders if b < real]
        ends = [*inside, real, length] if real < length else [*inside, length]
        lengths.append(tuple(int(n) for n in np.diff(ends, prepend=0)))
    packed = any(len(parts) > 1 for parts in lengths)
    return TextBatch(
        torch.from_numpy(tokens),
        torch.from_numpy(targets),
        tuple(lengths) if packed else None,
        tuple(start for _, start in segments[:8]),
        int((targets != IGNORED).sum()),
    )
