"""Which examples are held out for validation: those whose content has a hash in a fixed range."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from headway.errors import DataError
from headway.tasks.job import Emit

T = TypeVar("T")


def is_held_out(content: str | bytes, fraction: float) -> bool:
    """Whether an example is held out. Only its content decides, so that no sentence or image is on
    both sides."""
    return _is_below(_digest(content), fraction)


def hold_out(
    examples: Sequence[T],
    content: Callable[[T], str | bytes],
    fraction: float,
    labels: Callable[[T], Iterable[str]] = lambda example: (),
    emit: Emit = lambda event: None,
    unit: str = "examples",
) -> tuple[list[T], list[T]]:
    """The examples to train on and those that are held out, both in the given order.

    The first example with a label that no training example has is kept for training, together with
    all examples of the same content: a model cannot learn a class that it is never shown. `emit`
    receives a note with their number.
    """
    digests = [_digest(content(example)) for example in examples]
    held = [_is_below(digest, fraction) for digest in digests]
    learned = {
        label
        for example, is_held in zip(examples, held, strict=True)
        if not is_held
        for label in labels(example)
    }
    needed: set[bytes] = set()
    for example, digest, is_held in zip(examples, digests, held, strict=True):
        if is_held and (digest in needed or not learned.issuperset(labels(example))):
            needed.add(digest)
            learned.update(labels(example))
    train: list[T] = []
    valid: list[T] = []
    for example, digest, is_held in zip(examples, digests, held, strict=True):
        (valid if is_held and digest not in needed else train).append(example)
    kept = len(train) - held.count(False)
    if kept:
        text = (
            f"{kept:,} of the {held.count(True):,} {unit} to hold out stay in training: some of "
            "their labels occur in no other training example"
        )
        emit({"kind": "note", "text": text})
    return train, valid


def check_sides(
    train: Sequence[T],
    valid: Sequence[T],
    what: str,
    sources: str,
    hint: str = "--data.valid FILE, or another --data.held-out",
) -> None:
    """DataError unless there are examples to train on and held-out ones. what: all of them, in
    words; sources: where they come from."""
    if not train or not valid:
        side = "held out" if train else "left to train on"
        raise DataError(f"of {what} none is {side}", sources, hint)


def check_known(
    labelled: Iterable[tuple[str, str]], known: Iterable[str], what: str, among: str | None = None
) -> None:
    """DataError for a label that is none of the known ones.

    labelled: each label, and where it is. what: a label, in words. among: the examples that have
    the known labels; None: those are the labels of a model.
    """
    labels = set(known)
    for label, where in labelled:
        if label not in labels:
            unknown = f"the model does not know the {what} {label!r}"
            absent = f"the {what} {label!r} does not stand in {among}"
            raise DataError(unknown if among is None else absent, where)


def evenly_spaced(count: int, most: int | None) -> list[int]:
    """The numbers of at most `most` of `count` examples, at equal distances; None: of all."""
    chosen = count if most is None else min(most, count)
    return [i * count // chosen for i in range(chosen)]


def _digest(content: str | bytes) -> bytes:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).digest()


def _is_below(digest: bytes, fraction: float) -> bool:
    return int.from_bytes(digest[:8], "big") < fraction * 2**64
