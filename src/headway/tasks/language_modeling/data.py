"""From a person's text files to tokenizer, shards and held-out text in the run folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from headway.bundle import TextBundle
from headway.data.documents import Part, read_documents
from headway.data.text_corpus import TextCorpus, prepare_text
from headway.errors import UsageError
from headway.tasks.job import Emit
from headway.tasks.language_modeling.config import LanguageDataConfig, LanguageRunConfig
from headway.tasks.opening import load_as
from headway.tasks.text_data import Halves, check_text, held_out, prepared
from headway.text import Characters, TextPieces, TextTokenizer, load_tokenizer
from headway.text.text_bpe import FILE

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
    check_text(data, config.recipe)
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
    halves = [Halves(source, data, emit) for source in data.train]
    tokenizer = _tokenizer(data, start, halves, folder, emit)

    def shards(name: str, parts: Callable[[], Iterator[Part]]) -> TextCorpus:
        return prepared(
            folder / "data" / name,
            lambda place: TextCorpus.open(place, tokenizer),
            lambda place, progress: prepare_text(parts(), tokenizer, place, progress),
            emit,
        )

    many = len(halves) > 1
    train = [
        shards(f"train-{i + 1}" if many else "train", half.train) for i, half in enumerate(halves)
    ]
    return PreparedLanguage(tokenizer, train, shards("valid", lambda: held_out(data, halves)))


def _tokenizer(
    data: LanguageDataConfig,
    start: TextBundle | None,
    halves: list[Halves],
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
