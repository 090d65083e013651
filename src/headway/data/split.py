"""Which examples are held out for validation: those whose content has a hash in a fixed range."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Any, TypeVar

from headway.base.errors import DataError

SPLITS = ("train", "valid", "test")
T = TypeVar("T")


def is_held_out(content: str | bytes, fraction: float) -> bool:
    """Return whether an example is held out.

    Only its content decides, so that no sentence or image is in both splits.
    """
    return _is_below(_digest(content), fraction)


def hold_out(
    examples: Sequence[T],
    content: Callable[[T], str | bytes],
    fraction: float,
    labels: Callable[[T], Iterable[str]] = lambda example: (),
    emit: Callable[[dict[str, Any]], None] = lambda event: None,
    unit: str = "examples",
) -> tuple[list[T], list[T]]:
    """Split examples into training examples and held-out examples; both keep their order.

    The first held-out example with a label that no training example has stays in training, together
    with all examples of the same content: a model cannot learn a class without an example. If that
    leaves none of few examples, those of one content are held out whose labels all occur in the
    others, if there are any. content: the text or bytes of an example that decide. labels: the
    labels of an example. emit: receives a note with the number of examples that stay. unit: what
    the examples are called in the note.
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
    if fraction > 0 and all(digest in needed for digest in compress(digests, held)):
        spare = _spare_content(examples, digests, labels)
        if spare is not None:
            held, needed = [digest == spare for digest in digests], set()
    train: list[T] = []
    valid: list[T] = []
    for example, digest, is_held in zip(examples, digests, held, strict=True):
        (valid if is_held and digest not in needed else train).append(example)
    returned = len(train) - held.count(False)
    if returned:
        text = (
            f"{returned:,} of the {held.count(True):,} {unit} to hold out stay in training: some "
            "of their labels occur in no other training example"
        )
        emit({"kind": "note", "text": text})
    return train, valid


def _spare_content(
    examples: Sequence[T], digests: Sequence[bytes], labels: Callable[[T], Iterable[str]]
) -> bytes | None:
    """Return the first digest, in their order, without whose examples the others have all labels.

    None if there is no such digest, or if all digests are equal.
    """
    everywhere = Counter(label for example in examples for label in set(labels(example)))
    for chosen in sorted(set(digests)) if len(set(digests)) > 1 else ():
        of_chosen = compress(examples, (digest == chosen for digest in digests))
        counts = Counter(label for example in of_chosen for label in set(labels(example)))
        if all(count < everywhere[label] for label, count in counts.items()):
            return chosen
    return None


def split_of(text: str) -> str:
    """Return the split of a text: test for about 10 % of all texts, valid for 5 %, else train.

    Newer data does not move a text to another split.
    """
    percentile = int.from_bytes(_digest(text)[:8], "big") % 100
    return "test" if percentile < 10 else "valid" if percentile < 15 else "train"


def majority_baseline(labels: Iterable[str]) -> str:
    """Describe the accuracy of always predicting the most frequent label."""
    counts = Counter(labels)
    label, count = counts.most_common(1)[0]
    return f"majority baseline ({label!r}): accuracy {count / counts.total():.1%}"


def check_sides(
    train: Sequence[T],
    valid: Sequence[T],
    examples: str,
    sources: str,
    hint: str = "--data.valid FILE, or another --data.held-out",
    content: Callable[[T], str | bytes] | None = None,
) -> None:
    """Raise DataError if the training or the validation split is empty.

    examples: all examples, in words. sources: their files. hint: how to fix it. content: that of
    `hold_out`, if it made the splits.
    """
    if not train or not valid:
        split = "validation" if train else "training"
        reason = "" if content is None else repeats(map(content, (*train, *valid)))
        raise DataError(f"the {split} split of {examples} is empty{reason}", sources, hint)


def repeats(contents: Iterable[str | bytes]) -> str:
    """Return the end of a message on a split that is too small: how many contents differ.

    It is empty if all differ.
    """
    digests = [_digest(content) for content in contents]
    different = len(set(digests))
    if different == len(digests):
        return ""
    counted = "all of them are equal" if different == 1 else f"only {different:,} of them differ"
    return f": {counted}, and equal ones are always in the same split"


def check_known(
    labelled: Iterable[tuple[str, str]], known: Iterable[str], noun: str, among: str | None = None
) -> None:
    """Raise DataError for a label that is not among the known labels.

    labelled: labels with their locations (file and line). noun: the word for a label, such as
    "class". among: the examples that have the known labels, in words; None: the known labels are
    those of a model.
    """
    labels = set(known)
    for label, where in labelled:
        if label not in labels:
            owner = "the model" if among is None else among
            verb = "has" if among is None else "have"
            raise DataError(f"{owner} {verb} no {noun} {label!r}", where)


def evenly_spaced(count: int, most: int | None) -> list[int]:
    """Choose the indices of at most `most` of `count` examples, evenly spaced; None: all."""
    chosen = count if most is None else min(most, count)
    return [i * count // chosen for i in range(chosen)]


def _digest(content: str | bytes) -> bytes:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).digest()


def _is_below(digest: bytes, fraction: float) -> bool:
    return int.from_bytes(digest[:8], "big") < fraction * 2**64
