"""From a person's text files to tokenizer, shards and held-out text in the run folder."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from headway.bundle import TextBundle, load_as
from headway.data.documents import COLLECTIONS, Part, read_documents, text_files
from headway.data.text_corpus import TextCorpus, prepare_text
from headway.errors import DataError, UsageError
from headway.recipes.family import Emit
from headway.recipes.language_config import LanguageDataConfig, LanguageRunConfig
from headway.text import Characters, TextPieces, TextTokenizer, load_tokenizer
from headway.text.pieces import FILE

TRAINED = ("bpe", "characters")


@dataclass(frozen=True)
class PreparedLanguage:
    """What a language model learns from: one corpus for each of data.train."""

    tokenizer: TextTokenizer
    train: list[TextCorpus]
    valid: TextCorpus


def check_sources(config: LanguageRunConfig) -> None:
    """UsageError unless all text is there and the weights go with it."""
    data = config.data
    if not data.train:
        raise UsageError(
            "there is no text to learn from",
            hint="headway train gpt FILE_OR_FOLDER ..., or --data python-docs",
        )
    for source in (*data.train, *data.valid):
        if source not in COLLECTIONS or Path(source).exists():
            text_files(Path(source))
    if data.weights and len(data.weights) != len(data.train):
        raise UsageError(
            f"--data.weights has {len(data.weights)} numbers for {len(data.train)} texts",
            hint="one for each",
        )
    if any(weight < 0 for weight in data.weights) or (data.weights and not sum(data.weights)):
        raise UsageError(
            f"--data.weights {' '.join(f'{weight:g}' for weight in data.weights)}: no shares",
            hint="positive numbers; 3 1 takes three rows of the first for one of the second",
        )
    if config.lora.rank and config.optimizer.kind == "muon":
        raise UsageError(
            "adapters (lora.rank) are no matrices for Muon", hint="--optimizer.kind adamw"
        )
    if config.training.start is not None:
        if data.tokenizer != "bpe":
            raise UsageError(
                "a model to start from brings its tokenizer", hint="leave out --data.tokenizer"
            )
    elif data.tokenizer not in TRAINED and not Path(data.tokenizer).is_dir():
        raise UsageError(
            f"data.tokenizer={data.tokenizer}: no such folder",
            hint=f"{' or '.join(TRAINED)}, or the folder of a model",
        )


def prepare_language(
    config: LanguageRunConfig, start: TextBundle | None, folder: Path, emit: Emit
) -> PreparedLanguage:
    """Tokenizer and shards in `folder`, made once. Pieces are learned from training
    text alone; an alphabet is that of all text, as a character that it lacks could not be read."""
    data = config.data
    halves = [_Halves(source, data, emit) for source in data.train]
    tokenizer = _tokenizer(data, start, halves, folder, emit)

    def shards(name: str, parts: Callable[[], Iterator[Part]]) -> TextCorpus:
        place = folder / "data" / name
        reused = place.exists()
        if reused:
            corpus = TextCorpus.open(place, tokenizer)
        else:

            def progress(done: int) -> None:
                emit({"kind": "preparing", "what": name, "done": done, "unit": "bytes"})

            corpus = prepare_text(parts(), tokenizer, place, progress)
        facts = {"what": name, "count": len(corpus), "unit": "tokens", "reused": reused}
        emit({"kind": "prepared", **facts})
        return corpus

    many = len(halves) > 1
    train = [
        shards(f"train-{i + 1}" if many else "train", half.train) for i, half in enumerate(halves)
    ]

    def held_out() -> Iterator[Part]:
        if data.valid:
            yield from read_documents(data.valid, data.split, data.key)
        for half in () if data.valid else halves:
            yield from half.valid()

    return PreparedLanguage(tokenizer, train, shards("valid", held_out))


class _Halves:
    """One of data.train, and where it is cut: what is held out stands at its end."""

    def __init__(self, source: str, data: LanguageDataConfig, emit: Emit) -> None:
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


def _tokenizer(
    data: LanguageDataConfig,
    start: TextBundle | None,
    halves: list[_Halves],
    folder: Path,
    emit: Emit,
) -> TextTokenizer:
    if (folder / FILE).exists():
        tokenizer, how = load_tokenizer(folder), "reused"
    elif start is not None:
        tokenizer, how = start.tokenizer, "of the model it starts from"
    elif data.tokenizer in TRAINED:
        emit({"kind": "preparing", "what": "tokenizer", "done": 0, "unit": "bytes"})
        if data.tokenizer == "bpe":
            texts = (part.text for half in halves for part in half.train())
            tokenizer = TextPieces.train(texts, data.vocabulary)
        else:
            every = read_documents((*data.train, *data.valid), data.split, data.key)
            tokenizer = Characters.train(part.text for part in every)
        how = data.tokenizer
    else:
        tokenizer, how = load_as(TextBundle, data.tokenizer).tokenizer, f"of {data.tokenizer}"
    if not (folder / FILE).exists():
        tokenizer.save(folder)
    emit({"kind": "tokenizer", "pieces": tokenizer.size, "how": how})
    return tokenizer
