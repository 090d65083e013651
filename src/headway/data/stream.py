"""The stream of batches of a training run: without end, and resumable at any batch.

    order(epoch) -> the indices of the examples of each batch
    make(indices, epoch) -> batch

An order depends only on its seed and the number of the epoch, so (epoch, position) says where a run
is. N processes share each batch: process r has the examples r, r + N, r + 2 N ... of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from headway.base.errors import UsageError
from headway.base.ranks import Ranks
from headway.base.shapes import Tensor
from headway.base.transfers import upload
from headway.data.mixing import Mixture

Array = npt.NDArray[Any]
Indices = Sequence[int] | npt.NDArray[np.int64]
"""Indices of examples."""
B = TypeVar("B", bound="Batch")
T = TypeVar("T")
SHUFFLE = 0  # purpose of random numbers; `augmentation.VIEW` is another


@dataclass(frozen=True)
class Batch:
    """A batch: a frozen dataclass of tensors, smaller batches and plain values."""

    @property
    def examples(self) -> str:
        """What the field `indices` of a batch counts, for messages."""
        return "examples"

    def to(self: B, device: str) -> B:
        """Return the batch on another device."""
        moved = {field.name: _moved(getattr(self, field.name), device) for field in fields(self)}
        return replace(self, **moved)


def _moved(value: object, device: str) -> object:
    if isinstance(value, Tensor):
        return upload(value, device)
    if isinstance(value, Batch):
        return value.to(device)
    if isinstance(value, tuple) and value and isinstance(value[0], Tensor):
        return tuple(upload(tensor, device) for tensor in value)
    return value


class Order(ABC, Generic[T]):
    """Which examples each batch of an epoch has.

    examples_per_epoch: their number, or the expected one if epochs differ. batch_size: number of
    examples per batch; the last batch of an epoch may be smaller.
    """

    examples_per_epoch: int
    batch_size: int

    @property
    def batches_per_epoch(self) -> int:
        """The number of batches, or the expected one if epochs differ."""
        return -(-self.examples_per_epoch // self.batch_size)

    @abstractmethod
    def __call__(self, epoch: int) -> Sequence[T]:
        """Return one item per batch of an epoch: the indices of its examples, or what else makes
        the batch. It depends only on the seed and the epoch."""

    def part(self, item: T, rank: int, size: int) -> T | None:
        """Return the part of a batch for process `rank` of `size`, or None if it has none.

        The losses of the parts must add up to that of the batch. For an array of examples: those at
        the positions rank, rank + size, rank + 2 size, ...
        """
        examples: Any = item
        part: T = examples[rank::size]
        return part if len(examples) > rank else None


@dataclass(frozen=True)
class Batches(Generic[T, B]):
    """The batches of all epochs.

    make: makes a batch from an item of the order and the number of the epoch; None if there is
    nothing to learn from it, so that it is left out. device: the device of the batches.
    """

    order: Order[T]
    make: Callable[[T, int], B | None]
    device: str = "cpu"

    @property
    def examples_per_epoch(self) -> int:
        return self.order.examples_per_epoch

    @property
    def batches_per_epoch(self) -> int:
        return self.order.batches_per_epoch

    def stream(self, epoch: int, position: int) -> Iterator[tuple[int, int, B]]:
        """Yield (next epoch, next position, batch) without end, starting at batch `position` of
        `epoch`.

        The two numbers are the position after this batch: store them to resume exactly.
        """
        for place, item, of_epoch in self._items(epoch, position):
            batch = self.make(item, of_epoch)
            if batch is not None:
                yield (*place, batch.to(self.device))

    def shared(
        self,
        ranks: Ranks,
        epoch: int,
        position: int,
        uncounted: Callable[[B], Any] = lambda batch: None,
    ) -> Iterator[tuple[int, int, Any]]:
        """Yield as `stream` does, with this process's part of each batch.

        It is None if the batch has examples for other processes only, or what `uncounted` makes of
        the part of the first process. All processes are at the same
        position after each batch, so a run can be resumed with another number of processes.
        """
        if ranks.is_alone:
            yield from self.stream(epoch, position)
        for place, item, of_epoch in self._items(epoch, position):
            part = self.order.part(item, ranks.rank, ranks.size)
            batch = None if part is None else self.make(part, of_epoch)
            if batch is not None:
                yield (*place, batch.to(self.device))
            elif (whole := self.make(item, of_epoch)) is not None:
                first = self.order.part(item, 0, ranks.size)
                of_first = None if first is None else self.make(first, of_epoch)
                other = whole if of_first is None else of_first
                yield (*place, uncounted(other.to(self.device)))

    def _items(self, epoch: int, position: int) -> Iterator[tuple[tuple[int, int], T, int]]:
        """Yield (next epoch, next position), an item of the order, and its epoch, without end."""
        while True:
            items = self.order(epoch)
            while position < len(items):
                item, position = items[position], position + 1
                is_last = position == len(items)
                yield (epoch + 1, 0) if is_last else (epoch, position), item, epoch
            epoch, position = epoch + 1, position - len(items)


def parts(examples: Array, size: int) -> list[Array]:
    """Cut examples into batches of `size`; the last one may be smaller."""
    return [examples[start : start + size] for start in range(0, len(examples), size)]


class Shuffled(Order[Array]):
    """Each epoch has each of `count` examples once, shuffled."""

    def __init__(self, count: int, batch_size: int, seed: int) -> None:
        self.examples_per_epoch, self.batch_size, self.seed = count, batch_size, seed

    def __call__(self, epoch: int) -> list[Array]:
        random = np.random.default_rng([self.seed, SHUFFLE, epoch])
        return parts(random.permutation(self.examples_per_epoch), self.batch_size)


class ByLength(Order[Array]):
    """Batches of sequences of similar length, which need little padding.

    lengths: length of each sequence. Each epoch has each sequence once: all are shuffled, sorted by
    length in pools of `POOL` batches (ties stay shuffled), cut into batches, and the batches are
    shuffled.
    """

    POOL = 20

    def __init__(self, lengths: Sequence[int] | Array, batch_size: int, seed: int) -> None:
        self.keys: tuple[Array, ...] = (np.array(lengths),)  # to sort by, the first one last
        self.examples_per_epoch, self.batch_size, self.seed = len(lengths), batch_size, seed
        self.pool = batch_size * self.POOL
        self.mixture: Mixture | None = None

    def __call__(self, epoch: int) -> list[Array]:
        random = np.random.default_rng([self.seed, epoch])
        chosen = self.examples_per_epoch if self.mixture is None else self.mixture.epoch(epoch)
        batches: list[Array] = []
        for pool in parts(random.permutation(chosen), self.pool):
            batches += self._cut(pool[np.lexsort([key[pool] for key in self.keys])])
        return [batches[i] for i in random.permutation(len(batches))]

    def _cut(self, ranked: Array) -> list[Array]:
        return parts(ranked, self.batch_size)


class ByTokens(ByLength):
    """Batches of sentence pairs with batch size * (longest side + 1) <= tokens; + 1 is for </s>.

    As `ByLength`, in pools of `pool` pairs, sorted by target length, then source length. mixture:
    chooses the pairs of each epoch from several corpora; None for each pair once.
    """

    def __init__(
        self,
        source_lengths: Array,
        target_lengths: Array,
        tokens: int,
        seed: int,
        pool: int = 100_000,
        mixture: Mixture | None = None,
    ) -> None:
        self.keys = source_lengths, target_lengths
        self.tokens, self.seed, self.pool, self.mixture = tokens, seed, pool, mixture
        self.longest = np.maximum(source_lengths, target_lengths) + 1
        self.examples_per_epoch = len(self.longest)
        if len(self.longest) and (longest := int(self.longest.max())) > tokens:
            raise UsageError(
                f"a batch has at most {tokens} tokens, but the longest sentence has {longest}",
                hint=f"set --training.tokens to {longest} or more, or --data.max-length lower",
            )

    @cached_property
    def first_epoch(self) -> tuple[int, float]:
        """The number of batches of epoch 0, and the fraction of padding in them."""
        batches = self(0)
        return len(batches), self.padding(batches)

    @property
    def batches_per_epoch(self) -> int:
        return self.first_epoch[0]

    def _cut(self, ranked: Array) -> list[Array]:
        batches, start, widest = [], 0, 0
        for index, longest in enumerate(self.longest[ranked].tolist()):
            widest = max(widest, longest)
            if (index - start + 1) * widest > self.tokens:
                batches.append(ranked[start:index])
                start, widest = index, longest
        batches.append(ranked[start:])
        return batches

    def padding(self, batches: Sequence[Array]) -> float:
        """Return the fraction of padding among all positions of the padded matrices."""
        cells = real = 0
        for side in self.keys:
            for batch in batches:
                lengths = side[batch] + 1
                cells += int(lengths.max()) * len(batch)
                real += int(lengths.sum())
        return 1 - real / cells
