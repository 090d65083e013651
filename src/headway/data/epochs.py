"""Endless streams of batches over epochs that can start at any batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

B = TypeVar("B")
T = TypeVar("T")


def repeated(batches: Sequence[B]) -> Iterator[tuple[int, int, B]]:
    """Yield (next epoch, next position, batch) without end, with the same batches in each epoch.

    Use it to train on a list of your own batches with `headway.training.fit`. Raises ValueError if
    the list is empty.
    """
    if not batches:
        raise ValueError("there must be at least one batch to repeat, but the list is empty")
    return endless(lambda epoch: batches, lambda batch, epoch: batch, 0, 0)


def endless(
    epoch_of: Callable[[int], Sequence[T]], make: Callable[[T, int], B], epoch: int, position: int
) -> Iterator[tuple[int, int, B]]:
    """Yield (next epoch, next position, batch) without end, starting at batch `position` of
    `epoch`.

    epoch_of: returns one item per batch of an epoch. make: makes a batch from an item and the
    number of the epoch.
    """
    while True:
        items = epoch_of(epoch)
        while position < len(items):
            batch = make(items[position], epoch)
            position += 1
            following = (epoch + 1, 0) if position == len(items) else (epoch, position)
            yield (*following, batch)
        epoch, position = epoch + 1, 0
