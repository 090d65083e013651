"""Running text for language models and encoders: checks, held-out text, and encoded shards."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from headway.base.errors import DataError, UsageError
from headway.bundle import EncoderBundle, TextBundle
from headway.data.documents import COLLECTIONS, Part, has_validation, read_documents, text_files
from headway.data.prepared import progress_of
from headway.data.read_once import ReadOnce
from headway.data.split_files import TRAIN, VALID
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


class RunningText:
    """The training and validation text of a run; each text is read once.

    train: the texts of data.train.
    """

    def __init__(
        self, data: TextDataConfig, emit: Emit = lambda event: None, folder: Path | None = None
    ) -> None:
        """emit: receives progress. folder: where the copies of large texts are written
        (`ReadOnce`)."""
        self.train = [TextSplit(source, data, emit, folder) for source in data.train]
        self._valid = None
        if data.valid:
            self._valid = _once(
                lambda: read_documents(data.valid, data.split, data.key, VALID), folder
            )

    def held_out(self) -> Iterator[Part]:
        """Yield the validation text: data.valid, or the end of every text of data.train."""
        if self._valid is not None:
            yield from self._valid
            return
        for text in self.train:
            yield from text.valid()

    def every(self) -> Iterator[Part]:
        """Yield the text of all files."""
        for text in self.train:
            yield from text.every()
        yield from self._valid or ()


class TextSplit:
    """One text of data.train, split into training text and held-out text at its end.

    The held-out text of a folder with files of a validation split is that split. parts: the whole
    text, without that split.
    """

    def __init__(
        self, source: str, data: TextDataConfig, emit: Emit, folder: Path | None = None
    ) -> None:
        """folder: as that of `ReadOnce`."""
        self.source, self.data, self.emit = source, data, emit
        self.parts = _once(self._measured, folder)
        self._valid = None
        if not data.valid and has_validation(source):
            self._valid = _once(lambda: self._documents(VALID), folder)
        self._characters, self._starts = 0, array("q")

    def _measured(self) -> Iterator[Part]:
        """Read the text, and count its characters up to the start of each document."""
        progress = progress_of(self.emit, self.source, "characters")
        for part in self._documents(TRAIN):
            if part.first:
                self._starts.append(self._characters)
            self._characters += len(part.text)
            progress(self._characters)
            yield part

    def every(self) -> Iterator[Part]:
        """Yield the whole text, and the validation split of its folder."""
        yield from self.parts
        yield from self._valid or ()

    def _documents(self, split: str) -> Iterator[Part]:
        return read_documents([self.source], self.data.split, self.data.key, split)

    @cached_property
    def border(self) -> int:
        """The position in characters at which the held-out text starts, approximately.

        It is computed when the text is first split, which a resumed run does not need. Raises
        DataError if the text is empty.
        """
        if not len(self.parts):
            raise DataError("the text is empty", self.source)
        starts, characters = self._starts, self._characters
        target = int(characters * (1 - self.data.held_out))
        return target if len(starts) == 1 else min(starts[1:], key=lambda x: abs(x - target))

    def train(self) -> Iterator[Part]:
        """Yield the training text."""
        border = self.border
        if self.data.valid or self._valid is not None:
            yield from self.parts
            return
        for part, is_held_out in self._cut(border):
            if not is_held_out:
                yield part

    def valid(self) -> Iterator[Part]:
        """Yield the held-out text."""
        if self._valid is not None:
            yield from self._valid
            return
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
        for part in self.parts:
            if offset >= border or offset + len(part.text) <= border:
                yield part, offset >= border
            else:
                at = part.text.rfind("\n", 0, border - offset) + 1 or border - offset
                yield Part(part.text[:at], part.first), False
                yield Part(part.text[at:], False), True
            offset += len(part.text)


def _once(read: Callable[[], Iterator[Part]], folder: Path | None) -> ReadOnce[Part]:
    return ReadOnce(
        read, lambda part: [part.text, part.first], lambda values: Part(*values), folder
    )
