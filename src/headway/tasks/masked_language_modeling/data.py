"""The data of masked language modelling: tokenizer, sentences and held-out sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.bundle import EncoderBundle
from headway.data.documents import Part, read_documents
from headway.data.prepared import numbered, prepared
from headway.tasks.job import Emit
from headway.tasks.masked_language_modeling.config import EncoderDataConfig, EncoderRunConfig
from headway.tasks.masked_language_modeling.sentences import (
    SentenceCorpus,
    prepare_sentences,
    sentences_of,
)
from headway.tasks.opening import load_as
from headway.tasks.text_data import RunningText, TextSplit, check_text
from headway.text import EncoderTokenizer, extended, new_words
from headway.text.hf_tokenizer import FILE

COMPARED = 2000
"""Number of held-out sentences on which fertility (tokens per word) is measured."""


@dataclass(frozen=True)
class PreparedSentences:
    """The tokenizer, and the training and held-out sentences of an encoder.

    train: one corpus for each text of data.train. valid: likewise, or a single corpus if data.valid
    is set. new: for each token that was added to the pre-trained model's vocabulary, its ids in the
    original vocabulary.
    """

    tokenizer: EncoderTokenizer
    train: list[SentenceCorpus]
    valid: list[SentenceCorpus]
    new: list[list[int]]


def check_encoder(config: EncoderRunConfig) -> None:
    """Raise UsageError if text is missing, or if settings conflict."""
    data, start = config.data, config.training.start
    check_text(data, config.recipe)
    if start is None and config.recipe == "bert-domain":
        raise UsageError(
            "bert-domain continues the pre-training of an encoder, and none is named",
            hint="--from RUN or --from MODEL; headway train bert trains from scratch",
        )
    if start is not None and data.tokenizer is not None:
        raise UsageError(
            f"data.tokenizer={data.tokenizer}: continued pre-training uses the tokenizer of the "
            "pre-trained model",
            hint="leave out --data.tokenizer",
        )
    if start is None and data.new_tokens:
        raise UsageError(
            f"data.new_tokens={data.new_tokens} extends the vocabulary of a pre-trained model, and "
            "none is named",
            hint="--from MODEL; or --data.vocabulary for the size of a new vocabulary",
        )
    if not config.model.masked_lm_head:
        raise UsageError(
            "model.masked_lm_head=false: masked language modelling needs the head for masked words",
            hint="--model.masked-lm-head true",
        )


def prepare_encoder(
    config: EncoderRunConfig, start: EncoderBundle | None, folder: Path, emit: Emit
) -> PreparedSentences:
    """Prepare tokenizer and sentences in the run folder, or reuse them.

    The tokenizer is trained on the training text only. Raises DataError if there is no training
    text or no held-out text.
    """
    data = config.data
    text = RunningText(data, emit, folder)
    tokenizer = _tokenizer(config, start, text, folder, emit)

    def corpus(name: str, parts: Callable[[], Iterator[Part]]) -> SentenceCorpus:
        return prepared(
            folder / "data" / name,
            lambda path: SentenceCorpus.open(path, tokenizer),
            lambda path, progress: prepare_sentences(parts(), tokenizer, path, progress),
            lambda corpus: {"count": corpus.tokens, "unit": "tokens"},
            emit,
            "bytes",
        )

    def split(name: str, read: Callable[[TextSplit], Iterator[Part]]) -> list[SentenceCorpus]:
        names = numbered(name, len(text.train))
        halves = zip(names, text.train, strict=True)
        return [corpus(name, partial(read, half)) for name, half in halves]

    train = split("train", TextSplit.train)
    valid = [corpus("valid", text.held_out)] if data.valid else split("valid", TextSplit.valid)
    for corpora, kind in ((train, "training"), (valid, "held-out")):
        if not all(corpus.tokens for corpus in corpora):
            raise DataError(
                f"there is no {kind} text",
                ", ".join(data.train),
                "more text, --data.valid FILE, or another --data.held-out",
            )
    new: list[list[int]] = []
    if start is not None:
        original = start.tokenizer
        words = tokenizer.token_strings(range(original.size, tokenizer.size))
        new = original.encode_batch(words)
    return PreparedSentences(tokenizer, train, valid, new)


def sentences_of_files(paths: Sequence[Path], data: EncoderDataConfig) -> list[str]:
    """Read the sentences of text files or folders. Raises DataError if there are none."""
    parts = read_documents([str(path) for path in paths], data.split, data.key)
    return _sentences(parts, ", ".join(map(str, paths)))


def held_out_sentences(data: EncoderDataConfig) -> list[str]:
    """Read the held-out sentences of a run from its text. Raises DataError if there are none."""
    return _sentences(RunningText(data).held_out(), ", ".join(data.valid or data.train))


def _sentences(parts: Iterator[Part], where: str) -> list[str]:
    texts = [part.text for part in sentences_of(parts)]
    if not texts:
        raise DataError("no text to evaluate", where)
    return texts


def _tokenizer(
    config: EncoderRunConfig,
    start: EncoderBundle | None,
    text: RunningText,
    folder: Path,
    emit: Emit,
) -> EncoderTokenizer:
    data = config.data

    if (folder / FILE).exists():
        tokenizer, how = EncoderTokenizer.load(folder), "reused"
    elif start is not None:
        tokenizer, how = start.tokenizer, "of the pre-trained model"
        if data.new_tokens:
            texts = (part.text for half in text.train for part in half.train())
            words = new_words(tokenizer, texts, data.new_tokens)
            tokenizer, how = extended(tokenizer, words), f"{how}, and {len(words):,} new tokens"
            _report_fertility(start.tokenizer, tokenizer, config, text, emit)
    elif data.tokenizer is not None:
        tokenizer = load_as(EncoderBundle, data.tokenizer).tokenizer
        how = f"of {data.tokenizer}"
    else:
        emit({"kind": "preparing", "what": "tokenizer", "done": 0, "unit": "bytes"})
        sources = [(part.text for part in half.train()) for half in text.train]
        tokenizer = EncoderTokenizer.train_on(sources, data.vocabulary, data.lower, data.smoothing)
        how = "WordPiece"
    if not (folder / FILE).exists():
        tokenizer.save(folder)
    emit({"kind": "tokenizer", "vocabulary_size": tokenizer.size, "how": how})
    return tokenizer


def _report_fertility(
    old: EncoderTokenizer,
    new: EncoderTokenizer,
    config: EncoderRunConfig,
    text: RunningText,
    emit: Emit,
) -> None:
    """Emit the tokens per word of held-out text, with the original and the extended vocabulary."""
    parts = sentences_of(text.held_out())
    texts = [part.text for part in islice(parts, COMPARED)]
    words = max(1, sum(len(text.split()) for text in texts))
    before, after = (
        sum(map(len, tokenizer.encode_batch(texts))) / words for tokenizer in (old, new)
    )
    note = (
        f"held-out text has {before:.3f} tokens per word with the original vocabulary and "
        f"{after:.3f} with the extended one"
    )
    emit({"kind": "note", "text": note})
