"""Running text for language models and encoders: checks, tokenizer, held-out text, corpora."""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

from headway.base.errors import DataError, UsageError
from headway.base.settings import flatten, override
from headway.bundle import EncoderBundle, TextBundle
from headway.data.documents import COLLECTIONS, Part, has_validation, read_documents, text_files
from headway.data.formats.split_files import TRAIN, VALID
from headway.data.overlap import Sides, passages
from headway.data.prepared import Progress, numbered, prepared, progress_of
from headway.data.read_once import ReadOnce
from headway.models import BertConfig, GPTConfig
from headway.tasks.job import Emit
from headway.tasks.opening import load_as
from headway.tasks.sections import RunSettings, TextDataConfig
from headway.text import EncoderTokenizer, TextTokenizer, TokenizerPair

B = TypeVar("B", bound=TextBundle | EncoderBundle)
R = TypeVar("R", bound=RunSettings)
T = TypeVar("T", TextTokenizer, EncoderTokenizer, TokenizerPair)
C = TypeVar("C")
FILES = "tokenizer*.json"  # of the tokenizer of a run, or of both of a translator


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


def held_out_folder(run: Path) -> Path:
    """Return the folder of the held-out text of a run. Raises UsageError if it is missing."""
    folder = run / "data" / "valid"
    if not folder.is_dir():
        what, hint = "the held-out text of the run is missing", f"headway eval {run} FILE"
        raise UsageError(what, str(folder), f"name a text file: {hint}")
    return folder


def opened(kind: type[B], start: str | None, length: int) -> B | None:
    """Load the pre-trained model `start`, if one is named.

    length: the sequence length of the run. Raises UsageError if the model has too few positions.
    """
    if start is None:
        return None
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

    data: the settings. emit: receives progress. train: the texts of data.train.
    """

    def __init__(
        self, data: TextDataConfig, emit: Emit = lambda event: None, folder: Path | None = None
    ) -> None:
        """folder: where the copies of large texts are written (`ReadOnce`)."""
        self.data, self.emit = data, emit
        self.train = [TextSplit(source, data, emit, folder) for source in data.train]
        self._valid = None
        if data.valid:
            self._valid = _once(
                lambda: read_documents(data.valid, data.split, data.text, VALID), folder
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


def sides_of_text(data: TextDataConfig) -> Sides:
    """Return the training text and passages of the held-out text."""
    text = RunningText(data)
    return Sides(
        train=(part.text for source in text.train for part in source.train()),
        held_out=(passage for part in text.held_out() for passage in passages(part.text)),
    )


def fitted_model(
    config: R, start: TextBundle | EncoderBundle | None, vocabulary: int, length: int
) -> R:
    """Set the shape of the model: that of the pre-trained model, but with the dropout of the run;
    or else the vocabulary size, and a maximum length that allows sequences of `length` tokens."""
    if start is not None:
        shape = flatten(asdict(start.config), "model.")
        shape["model.dropout"] = config.model.dropout
        return override(config, shape, "the pre-trained model")
    length = max(config.model.max_length, length)
    decided = {"model.vocabulary": vocabulary, "model.max_length": length}
    return override(config, decided, "the tokenizer")


def described(model: GPTConfig | BertConfig) -> str:
    """Describe the shape of a model for the terminal."""
    return (
        f"{model.num_layers} layers, d={model.model_dim}, {model.num_heads} heads, "
        f"vocabulary size {model.vocabulary:,}"
    )


def tokenizer_of_run(
    folder: Path, load: Callable[[Path], T], make: Callable[[], tuple[T, str]], emit: Emit
) -> T:
    """Load the tokenizer of the run folder, or make one and save it there.

    make: returns a tokenizer, and its origin in words.
    """
    if any(folder.glob(FILES)):
        tokenizer, how = load(folder), "reused"
    else:
        tokenizer, how = make()
        tokenizer.save(folder)
    emit({"kind": "tokenizer", "vocabulary_size": tokenizer.size, "how": how})
    return tokenizer


def prepare_texts(
    text: RunningText,
    folder: Path,
    open_it: Callable[[Path], C],
    make: Callable[[Iterator[Part], Path, Progress], C],
    tokens: Callable[[C], int],
    *,
    joined: bool,
) -> tuple[list[C], list[C]]:
    """Prepare the texts of data.train in the run folder, or reuse them.

    open_it, make: as in `prepared`. tokens: returns the number of tokens of a corpus. Returns the
    training corpora, one for each text, and the held-out corpora: likewise, or a single corpus if
    they are `joined` or if data.valid is set.
    """

    def corpus(name: str, parts: Callable[[], Iterator[Part]]) -> C:
        return prepared(
            folder / "data" / name,
            open_it,
            lambda path, progress: make(parts(), path, progress),
            lambda corpus: {"count": tokens(corpus), "unit": "tokens"},
            text.emit,
            "bytes",
        )

    def split(name: str, read: Callable[[TextSplit], Iterator[Part]]) -> list[C]:
        halves = zip(numbered(name, len(text.train)), text.train, strict=True)
        return [corpus(name, partial(read, half)) for name, half in halves]

    train = split("train", TextSplit.train)
    if text.data.valid or joined:
        return train, [corpus("valid", text.held_out)]
    return train, split("valid", TextSplit.valid)


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
        return read_documents([self.source], self.data.split, self.data.text, split)

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
