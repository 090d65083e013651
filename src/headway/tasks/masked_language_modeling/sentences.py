"""A corpus of sentences on disk, from which the training sequences of encoders are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headway.base.chunks import chunks
from headway.base.errors import DataError
from headway.data.documents import Part
from headway.data.store import Array, Store, ids_dtype, new_store
from headway.text import EncoderTokenizer, split_sentences

LONGEST = 64  # tokens; a longer sentence is split into several
CHUNK = 64  # number of sentences encoded at once


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

    A sentence of more than 64 tokens becomes several. progress: called with the number of bytes
    done. Raises DataError if there is no text. After any error no partial folder remains.
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
