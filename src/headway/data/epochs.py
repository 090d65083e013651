"""Epochs of batches without end, which can be entered anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

B = TypeVar("B")
T = TypeVar("T")


def repeated(batches: Sequence[B]) -> Iterator[tuple[int, int, B]]:
    """The same batches in each epoch, without end: (next epoch, next position, batch).

    For a list of batches of your own; `headway.training.fit` reads it. ValueError if it is empty.
    """
    if not batches:
        raise ValueError("there is no batch to repeat")
    return endless(lambda epoch: batches, lambda batch, epoch: batch, 0, 0)


def endless(
    epoch_of: Callable[[int], Sequence[T]], make: Callable[[T, int], B], epoch: int, position: int
) -> Iterator[tuple[int, int, B]]:
    """(next epoch, next position, batch), starting at batch `position` of `epoch`.

    epoch_of: what the batches of an epoch are made of, one each. make: such a batch, in its epoch.
    """
    while True:
        things = epoch_of(epoch)
        while position < len(things):
            batch = make(things[position], epoch)
            position += 1
            following = (epoch + 1, 0) if position == len(things) else (epoch, position)
            yield (*following, batch)
        epoch, position = epoch + 1, 0
