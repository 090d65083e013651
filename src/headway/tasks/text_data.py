"""From a person's text files to shards and held-out text: what all models of running text share."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

from headway.bundle import EncoderBundle, TextBundle
from headway.data.documents import COLLECTIONS, Part, read_documents, text_files
from headway.errors import DataError, UsageError
from headway.tasks.job import Emit
from headway.tasks.opening import load_as
from headway.tasks.sections import TextDataConfig


@runtime_checkable
class Shards(Protocol):
    """Encoded text in a folder."""

    @property
    def tokens(self) -> int: ...


S = TypeVar("S", bound=Shards)
B = TypeVar("B", bound=TextBundle | EncoderBundle)


def check_text(data: TextDataConfig, recipe: str) -> None:
    """UsageError unless all text is there."""
    if not data.train:
        raise UsageError(
            "there is no text to learn from",
            hint=f"headway train {recipe} FILE_OR_FOLDER ..., or --data python-docs",
        )
    for source in (*data.train, *data.valid):
        if source not in COLLECTIONS or Path(source).exists():
            text_files(Path(source))


def opened(kind: type[B], start: str, length: int) -> B:
    """The model that a run goes on from. UsageError if its places are too few for the rows."""
    found = load_as(kind, start)
    check_room(found, start, length)
    return found


def check_room(found: TextBundle | EncoderBundle, start: str, length: int) -> None:
    """UsageError if the places of the model in `start` are too few for rows of that length."""
    room = found.model.max_length
    if room is not None and length > room:
        raise UsageError(
            f"rows of {length} tokens are longer than the {room} places that {start} knows",
            hint=f"--training.length {room}",
        )


def prepared(
    place: Path,
    open_it: Callable[[Path], S],
    make: Callable[[Path, Callable[[int], None]], S],
    emit: Emit,
) -> S:
    """The shards in the folder `place`, made once."""
    reused = place.exists()

    def progress(done: int) -> None:
        emit({"kind": "preparing", "what": place.name, "done": done, "unit": "bytes"})

    corpus = open_it(place) if reused else make(place, progress)
    facts = {"what": place.name, "count": corpus.tokens, "unit": "tokens", "reused": reused}
    emit({"kind": "prepared", **facts})
    return corpus


def held_out(data: TextDataConfig, halves: Sequence[Halves]) -> Iterator[Part]:
    """data.valid, or the end of each of data.train."""
    if data.valid:
        yield from read_documents(data.valid, data.split, data.key)
    for half in () if data.valid else halves:
        yield from half.valid()


class Halves:
    """One of data.train, and where it is cut: what is held out stands at its end."""

    def __init__(self, source: str, data: TextDataConfig, emit: Emit) -> None:
        self.source, self.data, self.emit = source, data, emit

    @cached_property
    def border(self) -> int:
        """The first character that is held out, or near it. DataError where there is no text.

        Found when the text is cut for the first time: a run that goes on has its shards.
        """
        characters, starts = 0, array("q")
        for part in self._parts():
            if part.first:
                starts.append(characters)
            characters += len(part.text)
            done = {"done": characters, "unit": "characters"}
            self.emit({"kind": "preparing", "what": self.source, **done})
        if not characters:
            raise DataError("there is no text in it", self.source)
        wanted = int(characters * (1 - self.data.held_out))
        return wanted if len(starts) == 1 else min(starts[1:], key=lambda x: abs(x - wanted))

    def _parts(self) -> Iterator[Part]:
        return read_documents([self.source], self.data.split, self.data.key)

    def train(self) -> Iterator[Part]:
        border = self.border
        if self.data.valid:
            yield from self._parts()
            return
        for part, is_held_out in self._cut(border):
            if not is_held_out:
                yield part

    def valid(self) -> Iterator[Part]:
        first = True
        for part, is_held_out in self._cut(self.border):
            if is_held_out:
                yield Part(part.text, part.first or first)
                first = False

    def _cut(self, border: int) -> Iterator[tuple[Part, bool]]:
        """Each part and whether it is held out. A single document is cut at an end of line; of
        many, the border is where one begins."""
        seen = 0
        for part in self._parts():
            if seen >= border or seen + len(part.text) <= border:
                yield part, seen >= border
            else:
                at = part.text.rfind("\n", 0, border - seen) + 1 or border - seen
                yield Part(part.text[:at], part.first), False
                yield Part(part.text[at:], False), True
            seen += len(part.text)
