"""The data of masked language modelling: sentences on disk, and their preparation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headway.base.chunks import chunks
from headway.base.errors import DataError, UsageError
from headway.bundle import EncoderBundle
from headway.data.documents import Part, read_documents
from headway.data.store import Array, Store, ids_dtype, new_store
from headway.tasks.job import Emit
from headway.tasks.masked_language_modeling.config import EncoderDataConfig, EncoderRunConfig
from headway.tasks.opening import load_as
from headway.tasks.text_data import RunningText, check_text, prepare_texts, tokenizer_of_run
from headway.text import EncoderTokenizer, extended, new_words, split_sentences

LONGEST = 64  # tokens; a longer sentence is split into several
CHUNK = 64  # number of sentences encoded at once
COMPARED = 2000  # number of held-out sentences on which tokens per word are counted
MOST_ALONE = 0.5  # of the text may be of no use for next-sentence prediction


@dataclass(frozen=True)
class SentenceCorpus:
    """Sentences of documents, memory-mapped from disk, without special tokens.

    sums: number of tokens of all sentences before each, and finally of all: sentence i is
    ids[sums[i] : sums[i + 1]]. documents: the first sentence of each document, and finally the
    number of sentences. separator: id of [SEP]. Memory holds about 20 bytes per sentence, no text.
    """

    folder: Path
    ids: Array
    sums: npt.NDArray[np.int64]
    documents: npt.NDArray[np.int64]
    separator: int

    @classmethod
    def open(cls, folder: Path, tokenizer: EncoderTokenizer) -> SentenceCorpus:
        """Map the sentences in `folder`. Raises DataError unless they were encoded with
        `tokenizer`."""
        store, size = Store.open(folder, _fingerprint(tokenizer), "tokenizer"), tokenizer.size
        ids, sums = store.sequences("sentences", ids_dtype(size), below=size, may_be_empty=True)
        begins = store.array("begins", "uint8", below=2)
        documents = np.append(np.flatnonzero(begins), store.count)
        return cls(folder, ids, np.array(sums), documents, tokenizer.special_tokens.end)

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.sums) - 1

    @property
    def tokens(self) -> int:
        """The number of tokens of all sentences."""
        return len(self.ids)

    @property
    def alone(self) -> int:
        """The number of tokens in documents of one sentence, which no other follows."""
        documents = self.documents
        return int(self.lengths[documents[:-1][np.diff(documents) == 1]].sum())

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of tokens of each sentence."""
        return np.diff(self.sums)

    def run(self, first: int, last: int) -> npt.NDArray[np.int64]:
        """Return the tokens of sentences `first` to `last` - 1, with [SEP] at document borders."""
        start, end = self.sums[first], self.sums[last]
        ids: npt.NDArray[np.int64] = self.ids[start:end].astype(np.int64)
        low, high = np.searchsorted(self.documents, (first + 1, last))
        borders = self.sums[self.documents[low:high]] - start
        return np.insert(ids, borders, self.separator) if len(borders) else ids

    def counts(self, size: int) -> npt.NDArray[np.int64]:
        """Return the number of occurrences of each of `size` ids in the text.

        Memory holds 16 million tokens at a time.
        """
        counts = np.zeros(size, np.int64)
        for start in range(0, len(self.ids), 1 << 24):
            counts += np.bincount(self.ids[start : start + (1 << 24)], minlength=size)
        return counts

    def sentence(self, number: int) -> list[int]:
        """Return the tokens of one sentence."""
        return [int(i) for i in self.run(number, number + 1)]


def sentences_of(parts: Iterable[Part]) -> Iterator[Part]:
    """Yield the sentences of documents, each as a part; documents without sentences are
    skipped."""
    first = True
    for part in parts:
        first = first or part.first
        for sentence in split_sentences(part.text):
            yield Part(sentence, first)
            first = False


def prepare_sentences(
    parts: Iterable[Part],
    tokenizer: EncoderTokenizer,
    folder: Path,
    progress: Callable[[int], None] = lambda num_bytes: None,
) -> SentenceCorpus:
    """Encode the sentences of documents into the new folder `folder`, and open it.

    A sentence of more than 64 tokens becomes several. Raises DataError if there is no text.
    """
    num_bytes = 0
    with new_store(folder, _fingerprint(tokenizer)) as store:
        for chunk in chunks(sentences_of(parts), CHUNK):
            sentences: list[list[int]] = []
            begins: list[bool] = []
            encoded = tokenizer.encode_batch([part.text for part in chunk])
            for part, ids in zip(chunk, encoded, strict=True):
                num_bytes += len(part.text.encode())
                starts = range(0, max(1, len(ids)), LONGEST)
                sentences += [ids[start : start + LONGEST] for start in starts]
                begins += [part.first and start == 0 for start in starts]
            store.append_sequences("sentences", sentences, ids_dtype(tokenizer.size))
            store.append("begins", begins, "uint8")
            progress(num_bytes)
        if not num_bytes:
            raise DataError(
                "the files have no text, or only whitespace", hint="give files that have text"
            )
    return SentenceCorpus.open(folder, tokenizer)


def _fingerprint(tokenizer: EncoderTokenizer) -> str:
    return f"sentences of {LONGEST} {tokenizer.fingerprint}"


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
    tokenizer = tokenizer_of_run(
        folder, EncoderTokenizer.load, lambda: _tokenizer(config, start, text), emit
    )
    train, valid = prepare_texts(
        text,
        folder,
        lambda path: SentenceCorpus.open(path, tokenizer),
        lambda parts, path, progress: prepare_sentences(parts, tokenizer, path, progress),
        lambda corpus: corpus.tokens,
        joined=False,
    )
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


def check_successors(prepared: PreparedSentences, config: EncoderRunConfig) -> None:
    """Raise DataError if most of the training text is in documents of one sentence, from which
    next-sentence prediction makes no pairs."""
    alone = sum(corpus.alone for corpus in prepared.train)
    fraction = alone / sum(corpus.tokens for corpus in prepared.train)
    if not config.model.next_sentence or fraction <= MOST_ALONE:
        return
    hint = "make documents of several sentences that belong together"
    if config.training.start is None:
        hint = f"--model.next-sentence false learns masked words only; or {hint}"
    raise DataError(
        f"next-sentence prediction learns from documents of several sentences, but {fraction:.0%} "
        "of the text is in documents of one sentence",
        ", ".join(config.data.train),
        hint,
    )


def sentences_of_files(paths: Sequence[Path], data: EncoderDataConfig) -> list[str]:
    """Read the sentences of text files or folders. Raises DataError if there are none."""
    parts = read_documents([str(path) for path in paths], data.split, data.text)
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
) -> tuple[EncoderTokenizer, str]:
    """Return the tokenizer that the settings name, and its origin."""
    data = config.data
    if start is not None:
        tokenizer, how = start.tokenizer, "of the pre-trained model"
        if not data.new_tokens:
            return tokenizer, how
        texts = (part.text for half in text.train for part in half.train())
        words = new_words(tokenizer, texts, data.new_tokens)
        tokenizer = extended(tokenizer, words)
        _report_fertility(start.tokenizer, tokenizer, text)
        return tokenizer, f"{how}, and {len(words):,} new tokens"
    if data.tokenizer is not None:
        return load_as(EncoderBundle, data.tokenizer).tokenizer, f"of {data.tokenizer}"
    text.emit({"kind": "preparing", "what": "tokenizer", "done": 0, "unit": "bytes"})
    sources = [(part.text for part in half.train()) for half in text.train]
    learned = EncoderTokenizer.train_on(sources, data.vocabulary, data.lower, data.smoothing)
    return learned, "WordPiece"


def _report_fertility(old: EncoderTokenizer, new: EncoderTokenizer, text: RunningText) -> None:
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
    text.emit({"kind": "note", "text": note})
