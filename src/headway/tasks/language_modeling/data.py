"""The data of language modelling: tokenizer, shards and held-out text in the run folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from headway.base.errors import UsageError
from headway.bundle import TextBundle
from headway.data.documents import Part
from headway.data.prepared import numbered, prepared
from headway.data.text_corpus import TextCorpus, prepare_text
from headway.tasks.job import Emit
from headway.tasks.language_modeling.config import LanguageDataConfig, LanguageRunConfig
from headway.tasks.opening import load_as
from headway.tasks.text_data import RunningText, check_text
from headway.text import (
    CharacterTokenizer,
    TextBPE,
    TextTokenizer,
    TextUnigram,
    load_tokenizer,
)
from headway.text.text_subwords import FILE

TRAINED = ("bpe", "unigram", "characters")


@dataclass(frozen=True)
class PreparedLanguage:
    """The tokenizer, one training corpus for each text of data.train, and the validation corpus."""

    tokenizer: TextTokenizer
    train: list[TextCorpus]
    valid: TextCorpus


def check_sources(config: LanguageRunConfig) -> None:
    """Raise UsageError if text is missing, or if settings conflict."""
    data = config.data
    check_text(data, config.recipe)
    if data.weights and len(data.weights) != len(data.train):
        raise UsageError(
            f"--data.weights has {len(data.weights)} numbers for {len(data.train)} texts",
            hint="give one number for each text",
        )
    if any(weight < 0 for weight in data.weights) or (data.weights and not sum(data.weights)):
        raise UsageError(
            f"--data.weights {' '.join(f'{weight:g}' for weight in data.weights)}: weights must "
            "be at least 0, and their sum above 0",
            hint="3 1 samples three sequences of the first text for one of the second",
        )
    if config.lora.rank and config.optimizer.kind == "muon":
        raise UsageError(
            "lora.rank cannot be combined with optimizer.kind=muon", hint="--optimizer.kind adamw"
        )
    if config.training.start is not None:
        if data.tokenizer != "bpe":
            raise UsageError(
                f"data.tokenizer={data.tokenizer}: fine-tuning uses the tokenizer of the "
                "pre-trained model",
                hint="leave out --data.tokenizer",
            )
    elif data.tokenizer not in TRAINED and not Path(data.tokenizer).is_dir():
        raise UsageError(
            f"data.tokenizer={data.tokenizer}: no such folder",
            hint=f"{', '.join(TRAINED)}, or the folder of a model",
        )


def prepare_language(
    config: LanguageRunConfig, start: TextBundle | None, folder: Path, emit: Emit
) -> PreparedLanguage:
    """Prepare tokenizer and shards in the run folder, or reuse them.

    Sub-words are learned from the training text only. A character vocabulary has the characters of
    all text, because unknown characters could not be encoded.
    """
    data = config.data
    text = RunningText(data, emit, folder)
    tokenizer = _tokenizer(data, start, text, folder, emit)

    def corpus(name: str, parts: Callable[[], Iterator[Part]]) -> TextCorpus:
        return prepared(
            folder / "data" / name,
            lambda path: TextCorpus.open(path, tokenizer),
            lambda path, progress: prepare_text(parts(), tokenizer, path, progress),
            lambda corpus: {"count": len(corpus), "unit": "tokens"},
            emit,
            "bytes",
        )

    names = numbered("train", len(text.train))
    train = [corpus(name, half.train) for name, half in zip(names, text.train, strict=True)]
    return PreparedLanguage(tokenizer, train, corpus("valid", text.held_out))


def _tokenizer(
    data: LanguageDataConfig,
    start: TextBundle | None,
    text: RunningText,
    folder: Path,
    emit: Emit,
) -> TextTokenizer:
    if (folder / FILE).exists():
        tokenizer, how = load_tokenizer(folder), "reused"
    elif start is not None:
        tokenizer, how = start.tokenizer, "of the pre-trained model"
    elif data.tokenizer in TRAINED:
        emit({"kind": "preparing", "what": "tokenizer", "done": 0, "unit": "bytes"})
        if data.tokenizer == "characters":
            tokenizer = CharacterTokenizer.train(part.text for part in text.every())
        else:
            texts = (part.text for half in text.train for part in half.train())
            kind = TextUnigram if data.tokenizer == "unigram" else TextBPE
            tokenizer = kind.train(texts, data.vocabulary)
        how = data.tokenizer
    else:
        tokenizer, how = load_as(TextBundle, data.tokenizer).tokenizer, f"of {data.tokenizer}"
    if not (folder / FILE).exists():
        tokenizer.save(folder)
    emit({"kind": "tokenizer", "vocabulary_size": tokenizer.size, "how": how})
    return tokenizer
