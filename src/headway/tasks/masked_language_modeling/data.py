"""From a person's text files to word pieces, sentences and held-out sentences in the run folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from headway.bundle import EncoderBundle
from headway.data.documents import Part, read_documents
from headway.data.sentences import SentenceCorpus, prepare_sentences, sentences_of
from headway.errors import DataError, UsageError
from headway.tasks.job import Emit
from headway.tasks.masked_language_modeling.config import EncoderDataConfig, EncoderRunConfig
from headway.tasks.opening import load_as
from headway.tasks.text_data import Halves, check_text, held_out, prepared
from headway.text import MarkedTokenizer, extended, new_words
from headway.text.hf_tokenizer import FILE

COMPARED = 2000  # held-out sentences that fertility is measured on


@dataclass(frozen=True)
class PreparedSentences:
    """What an encoder learns from: one corpus for each of data.train, and held-out ones likewise
    (one only where data.valid names them).

    new: of each piece that the tokenizer has and the start's lacks, the start's pieces.
    """

    tokenizer: MarkedTokenizer
    train: list[SentenceCorpus]
    valid: list[SentenceCorpus]
    new: list[list[int]]


def check_encoder(config: EncoderRunConfig) -> None:
    """UsageError unless all text is there and the settings go together."""
    data, start = config.data, config.training.start
    check_text(data, config.recipe)
    if start is None and config.recipe == "bert-domain":
        raise UsageError(
            "bert-domain goes on with the training of an encoder, and none is named",
            hint="--from RUN or --from MODEL; headway train bert begins with nothing",
        )
    if start is not None and data.tokenizer is not None:
        raise UsageError(
            "a model to start from brings its tokenizer", hint="leave out --data.tokenizer"
        )
    if start is None and data.new_pieces:
        raise UsageError(
            "new pieces are for the vocabulary of a model to start from, and none is named",
            hint="--from MODEL; or --data.vocabulary for a larger one of its own",
        )
    if not config.model.masked_words:
        raise UsageError(
            "model.masked_words=false: hidden words are what this training is about",
            hint="--model.masked-words true",
        )


def prepare_encoder(
    config: EncoderRunConfig, start: EncoderBundle | None, folder: Path, emit: Emit
) -> PreparedSentences:
    """Tokenizer and sentences in `folder`, made once. Pieces are learned from training text."""
    data = config.data
    halves = [Halves(source, data, emit) for source in data.train]
    tokenizer = _tokenizer(config, start, halves, folder, emit)

    def shards(name: str, parts: Callable[[], Iterator[Part]]) -> SentenceCorpus:
        return prepared(
            folder / "data" / name,
            lambda place: SentenceCorpus.open(place, tokenizer),
            lambda place, progress: prepare_sentences(parts(), tokenizer, place, progress),
            emit,
        )

    def each(what: str, make: Callable[[Halves], Iterator[Part]]) -> list[SentenceCorpus]:
        many = len(halves) > 1
        names = [f"{what}-{i + 1}" if many else what for i in range(len(halves))]
        return [shards(name, partial(make, half)) for name, half in zip(names, halves, strict=True)]

    train = each("train", Halves.train)
    if data.valid:
        valid = [shards("valid", lambda: held_out(data, halves))]
    else:
        valid = each("valid", Halves.valid)
    for corpora, side in ((train, "train on"), (valid, "hold out")):
        if not all(corpus.tokens for corpus in corpora):
            raise DataError(
                f"there is no text to {side}",
                ", ".join(data.train),
                "more text, --valid FILE, or another --data.held-out",
            )
    new: list[list[int]] = []
    if start is not None:
        old = start.tokenizer
        words = tokenizer.pieces(range(old.size, tokenizer.size))
        new = old.encode_batch(words)
    return PreparedSentences(tokenizer, train, valid, new)


def sentences_of_files(paths: Sequence[Path], data: EncoderDataConfig) -> list[str]:
    """The sentences of text files or folders. DataError if there are none."""
    parts = read_documents([str(path) for path in paths], data.split, data.key)
    return _sentences(parts, ", ".join(map(str, paths)))


def held_out_sentences(data: EncoderDataConfig) -> list[str]:
    """The sentences that a run holds out, as they are in its text. DataError if there are none."""
    halves = [Halves(source, data, lambda event: None) for source in data.train]
    return _sentences(held_out(data, halves), ", ".join(data.valid or data.train))


def _sentences(parts: Iterator[Part], where: str) -> list[str]:
    texts = [part.text for part in sentences_of(parts)]
    if not texts:
        raise DataError("there is no text to evaluate on", where)
    return texts


def _tokenizer(
    config: EncoderRunConfig,
    start: EncoderBundle | None,
    halves: list[Halves],
    folder: Path,
    emit: Emit,
) -> MarkedTokenizer:
    data = config.data

    if (folder / FILE).exists():
        tokenizer, how = MarkedTokenizer.load(folder), "reused"
    elif start is not None:
        tokenizer, how = start.tokenizer, "of the model it starts from"
        if data.new_pieces:
            texts = (part.text for half in halves for part in half.train())
            words = new_words(tokenizer, texts, data.new_pieces)
            tokenizer, how = extended(tokenizer, words), f"{how}, and {len(words):,} new ones"
            _tell_fertility(start.tokenizer, tokenizer, config, halves, emit)
    elif data.tokenizer is not None:
        tokenizer = load_as(EncoderBundle, data.tokenizer).tokenizer
        how = f"of {data.tokenizer}"
    else:
        emit({"kind": "preparing", "what": "tokenizer", "done": 0, "unit": "bytes"})
        each = [(part.text for part in half.train()) for half in halves]
        tokenizer = MarkedTokenizer.train_on(each, data.vocabulary, data.lower, data.smoothing)
        how = "word pieces"
    if not (folder / FILE).exists():
        tokenizer.save(folder)
    emit({"kind": "tokenizer", "pieces": tokenizer.size, "how": how})
    return tokenizer


def _tell_fertility(
    old: MarkedTokenizer,
    new: MarkedTokenizer,
    config: EncoderRunConfig,
    halves: list[Halves],
    emit: Emit,
) -> None:
    """Tokens a word of held-out text, before and after the vocabulary was extended."""
    parts = sentences_of(held_out(config.data, halves))
    texts = [part.text for part in islice(parts, COMPARED)]
    words = max(1, sum(len(text.split()) for text in texts))
    before, after = (sum(map(len, each.encode_batch(texts))) / words for each in (old, new))
    text = f"held-out text has {before:.3f} tokens a word with the old pieces, {after:.3f} with the"
    emit({"kind": "note", "text": text + " new ones"})
