"""Running text for language models and encoders: checks, held-out text, and encoded shards."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from headway.base.errors import DataError, UsageError
from headway.bundle import EncoderBundle, TextBundle
from headway.data.documents import COLLECTIONS, Part, read_documents, text_files
from headway.data.prepared import progress_of
from headway.tasks.job import Emit
from headway.tasks.opening import load_as
from headway.tasks.sections import TextDataConfig

B = TypeVar("B", bound=TextBundle | EncoderBundle)


def check_text(data: TextDataConfig, recipe: str) -> None:
    """Raise UsageError if no training text is named, or if a text file is missing."""
    if not data.train:
        raise UsageError(
            "no training text is named",
            hint=f"headway train {recipe} FILE_OR_FOLDER ..., or --data python-docs",
        )
    for source in (*data.train, *data.valid):
        if source not in COLLECTIONS or Path(source).exists():
            text_files(Path(source))


def opened(kind: type[B], start: str, length: int) -> B:
    """Load the pre-trained model `start`.

    length: the sequence length of the run. Raises UsageError if the model has too few positions.
    """
    bundle = load_as(kind, start)
    check_max_length(bundle, start, length)
    return bundle


def check_max_length(bundle: TextBundle | EncoderBundle, start: str, length: int) -> None:
    """Raise UsageError if the model in `start` has fewer learned positions than `length`."""
    limit = bundle.model.max_length
    if limit is not None and length > limit:
        raise UsageError(
            f"training.length={length} is more than the {limit} positions of the model {start}",
            hint=f"--training.length {limit}",
        )


def held_out(data: TextDataConfig, halves: Sequence[TextSplit]) -> Iterator[Part]:
    """Read the validation text: data.valid, or the end of every text of data.train."""
    if data.valid:
        yield from read_documents(data.valid, data.split, data.key)
    for half in () if data.valid else halves:
        yield from half.valid()


class TextSplit:
    """One text of data.train, split into training text and held-out text at its end."""

    def __init__(self, source: str, data: TextDataConfig, emit: Emit) -> None:
        self.source, self.data, self.emit = source, data, emit

    @cached_property
    def border(self) -> int:
        """The position in characters at which the held-out text starts, approximately.

        It is computed when the text is first split, which a resumed run does not need. Raises
        DataError if the text is empty.
        """
        progress = progress_of(self.emit, self.source, "characters")
        characters, starts = 0, array("q")
        for part in self._parts():
            if part.first:
                starts.append(characters)
            characters += len(part.text)
            progress(characters)
        if not characters:
            raise DataError("the text is empty", self.source)
        target = int(characters * (1 - self.data.held_out))
        return target if len(starts) == 1 else min(starts[1:], key=lambda x: abs(x - target))

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
        """Yield the parts of the text, and whether they are held out.

        A single document is split at the end of a line; several documents are split between two.
        """
        offset = 0
        for part in self._parts():
            if offset >= border or offset + len(part.text) <= border:
                yield part, offset >= border
            else:
                at = part.text.rfind("\n", 0, border - offset) + 1 or border - offset
                yield Part(part.text[:at], part.first), False
                yield Part(part.text[at:], False), True
            offset += len(part.text)
