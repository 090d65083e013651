"""Rows of running text: every row full, documents end to end, borders where a mask can see them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from headway.data.epochs import endless
from headway.data.text_corpus import TextCorpus
from headway.errors import DataError, UsageError
from headway.shapes import Int, Tensor

IGNORED = -1
_ROWS, _SHIFT, _MIXTURE = range(3)  # what a random order is for


@dataclass(frozen=True)
class TextBatch:
    """Rows for next-token prediction.

    tokens: what is read. targets: the token after each, -1 where there is none to learn. lengths:
    of the documents inside each row, in order, together T; None when every row is of one document.
    indices: places in the text, for messages.
    """

    examples: ClassVar[str] = "sequences beginning at tokens"  # what `indices` count, for messages
    tokens: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    lengths: tuple[tuple[int, ...], ...] | None
    indices: tuple[int, ...]

    def to(self, device: str) -> TextBatch:
        return TextBatch(
            self.tokens.to(device), self.targets.to(device), self.lengths, self.indices
        )


@dataclass
class _Source:
    """A corpus cut into rows, pass after pass, each in an order and from a place of its own.

    A pass has `rows` rows of `length` targets; it begins at a random token, so that rows are cut
    elsewhere each time. What is left over at both ends is less than two rows.
    """

    corpus: TextCorpus
    number: int
    length: int
    seed: int
    _orders: dict[int, npt.NDArray[np.int64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.corpus) <= self.length:
            raise DataError(
                f"a text of {len(self.corpus):,} tokens is too short for rows of {self.length}",
                str(self.corpus.folder),
                f"--training.length {max(len(self.corpus) - 1, 1)} or less, or more text",
            )

    @property
    def rows(self) -> int:
        return max(1, (len(self.corpus) - self.length) // self.length)

    def starts(self, draws: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """First tokens of the rows drawn as number `draws`, counted over all passes."""
        found = np.empty_like(draws)
        for number in np.unique(draws // self.rows):
            mine = draws // self.rows == number
            spare = len(self.corpus) - 1 - self.rows * self.length
            shift = self._random(_SHIFT, int(number)).integers(min(spare, self.length - 1) + 1)
            order = self._order(int(number))
            found[mine] = shift + order[draws[mine] % self.rows] * self.length
        return found

    def _order(self, number: int) -> npt.NDArray[np.int64]:
        if number not in self._orders:
            while len(self._orders) > 1:  # an epoch's end may lie in the next pass
                del self._orders[min(self._orders)]
            self._orders[number] = self._random(_ROWS, number).permutation(self.rows)
        return self._orders[number]

    def _random(self, purpose: int, number: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.number, purpose, number])


class TextRows:
    """Corpora as an endless stream of rows that can be entered anywhere.

    rows: in a batch (the last of an epoch may have fewer). length: targets a row. weights: shares
    of the rows that come from each corpus, which then repeat at their own pace; by length unless
    given, so that an epoch is one pass over all. Batch and order follow from (seed, epoch,
    position) alone; memory holds the row numbers of an epoch.
    """

    def __init__(
        self,
        corpora: Sequence[TextCorpus],
        rows: int,
        length: int,
        *,
        weights: Sequence[float] = (),
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        if not corpora or rows < 1 or length < 1:
            raise ValueError(f"{len(corpora)} corpora, {rows=}, {length=}: all must be 1 or more")
        if weights and len(weights) != len(corpora):
            raise UsageError(
                f"{len(weights)} weights for {len(corpora)} corpora",
                hint="--data.weights: one positive number for each of --data.train",
            )
        if weights and not all(weight > 0 and math.isfinite(weight) for weight in weights):
            raise UsageError(
                f"the weights {', '.join(map(str, weights))} are not all positive numbers",
                hint="--data.weights: shares of the rows; leave out a corpus that shall have none",
            )
        self.sources = [_Source(c, i, length, seed) for i, c in enumerate(corpora)]
        self.rows, self.length, self.seed, self.device = rows, length, seed, device
        total = sum(source.rows for source in self.sources)
        shares = np.array(weights or [source.rows for source in self.sources], dtype=np.float64)
        ends = np.round(np.cumsum(shares / shares.sum()) * total).astype(np.int64)
        self.quotas: npt.NDArray[np.int64] = np.diff(ends, prepend=0)
        """Rows of each corpus in an epoch."""
        self._epoch = -1
        self._mixture: npt.NDArray[np.int64] = np.empty((0, 2), np.int64)

    @property
    def batches_an_epoch(self) -> int:
        return -(-int(self.quotas.sum()) // self.rows)

    def stream(self, epoch: int, position: int) -> Iterator[tuple[int, int, TextBatch]]:
        """(next epoch, next position, batch), starting at batch `position` of `epoch`."""
        return endless(
            lambda _: range(self.batches_an_epoch),
            lambda place, number: self._batch(number, place).to(self.device),
            epoch,
            position,
        )

    def _batch(self, epoch: int, position: int) -> TextBatch:
        if epoch != self._epoch:
            self._epoch, self._mixture = epoch, self._mixed(epoch)
        chosen = self._mixture[position * self.rows : (position + 1) * self.rows]
        starts = np.empty(len(chosen), np.int64)
        for number, source in enumerate(self.sources):
            mine = chosen[:, 0] == number
            starts[mine] = source.starts(chosen[mine, 1])
        corpora = [self.sources[int(number)].corpus for number in chosen[:, 0]]
        return _cut(list(zip(corpora, starts.tolist(), strict=True)), self.length)

    def _mixed(self, epoch: int) -> npt.NDArray[np.int64]:
        """(corpus, how many of its rows came before) for each row of an epoch, in order."""
        numbers = np.repeat(np.arange(len(self.quotas)), self.quotas)
        numbers = np.random.default_rng([self.seed, 0, _MIXTURE, epoch]).permutation(numbers)
        mixed = np.stack((numbers, np.empty_like(numbers)), axis=1)
        for number, quota in enumerate(self.quotas.tolist()):
            # In order, or a corpus of many passes an epoch would need them all for every batch.
            mixed[numbers == number, 1] = epoch * quota + np.arange(quota)
        return mixed


def in_order(
    corpus: TextCorpus, rows: int, length: int, device: str = "cpu"
) -> Iterator[TextBatch]:
    """Every token of a corpus but the first, once each, as a target: for evaluation."""
    starts = range(0, len(corpus) - 1, length)
    for first in range(0, len(starts), rows):
        chosen = [(corpus, start) for start in starts[first : first + rows]]
        yield _cut(chosen, length).to(device)


def _cut(rows: Sequence[tuple[TextCorpus, int]], length: int) -> TextBatch:
    """The rows that begin there. Past the end of a text stand zeros that nobody learns."""
    tokens = np.zeros((len(rows), length), np.int64)
    targets = np.full((len(rows), length), IGNORED, np.int64)
    lengths = []
    for row, (corpus, start) in enumerate(rows):
        ids: npt.NDArray[Any] = corpus.ids[start : start + length + 1].astype(np.int64)
        real = len(ids) - 1
        tokens[row, :real], targets[row, :real] = ids[:-1], ids[1:]
        low, high = np.searchsorted(corpus.offsets, (start + 1, start + real + 1))
        borders = corpus.offsets[low:high] - start  # where documents begin, 1 ... real
        if corpus.marks_ends:
            targets[row, borders - 1] = IGNORED
        inside = [int(b) for b in borders if b < real]
        ends = [*inside, real, length] if real < length else [*inside, length]
        lengths.append(tuple(int(n) for n in np.diff(ends, prepend=0)))
    packed = any(len(parts) > 1 for parts in lengths)
    return TextBatch(
        torch.from_numpy(tokens),
        torch.from_numpy(targets),
        tuple(lengths) if packed else None,
        tuple(start for _, start in rows[:8]),
    )
