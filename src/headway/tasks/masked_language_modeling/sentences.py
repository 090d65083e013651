"""A corpus of sentences on disk, from which the training sequences of encoders are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headway.data.documents import Part
from headway.data.text_corpus import TextCorpus, prepare_text
from headway.text import EncoderTokenizer, split_sentences

LONGEST = 64  # tokens; a longer sentence is split into several


class SentenceEncoder:
    """A tokenizer that adds [SEP] at the end of each text; documents begin with [CLS]."""

    def __init__(self, tokenizer: EncoderTokenizer) -> None:
        self.tokenizer, self.size = tokenizer, tokenizer.size
        self.bos = self.eos = tokenizer.special_tokens.start
        self.fingerprint = f"sentences of {LONGEST} {tokenizer.fingerprint}"

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, with [SEP] at its end and after every 64 tokens."""
        end, encoded = self.tokenizer.special_tokens.end, []
        for ids in self.tokenizer.encode_batch(texts):
            ids_with_ends = []
            for start in range(0, max(1, len(ids)), LONGEST):  # an empty text has a [SEP] too
                ids_with_ends += [*ids[start : start + LONGEST], end]
            encoded.append(ids_with_ends)
        return encoded


class SentenceCorpus:
    """Sentences of documents, memory-mapped from disk.

    Sentence i is ids[starts[i] : ends[i]], without special tokens. documents: the first sentence of
    each document, and finally the number of sentences. lengths: number of tokens of each sentence.
    sums: number of tokens of all sentences before it. Memory holds these numbers, about 32 bytes
    per sentence, and no text.
    """

    def __init__(self, text: TextCorpus, start: int, end: int) -> None:
        """Index the sentences of `text`. start, end: ids of [CLS] and [SEP]."""
        self.text, self.start, self.end = text, start, end
        self.ids = text.ids
        self.ends: npt.NDArray[np.int64] = np.flatnonzero(self.ids == end)
        self.starts = np.concatenate(([0], self.ends[:-1] + 1))
        begins_document = self.ids[self.starts] == start
        self.starts[begins_document] += 1
        self.lengths = self.ends - self.starts
        self.sums: npt.NDArray[np.int64] = np.concatenate(([0], np.cumsum(self.lengths)))
        self.documents: npt.NDArray[np.int64] = np.append(
            np.flatnonzero(begins_document), len(self.ends)
        )

    @classmethod
    def open(cls, folder: Path, tokenizer: EncoderTokenizer) -> SentenceCorpus:
        """Map the sentences in `folder`. Raises DataError unless they were encoded with
        `tokenizer`."""
        text = TextCorpus.open(folder, SentenceEncoder(tokenizer))
        return cls(text, tokenizer.special_tokens.start, tokenizer.special_tokens.end)

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.ends)

    @property
    def tokens(self) -> int:
        """The number of tokens of all sentences."""
        return int(self.lengths.sum())

    def run(self, first: int, last: int) -> npt.NDArray[np.int64]:
        """Return the tokens of sentences `first` to `last` - 1, with [SEP] at document borders."""
        ids: npt.NDArray[np.int64]
        ids = self.ids[self.starts[first] : self.ends[last - 1]].astype(np.int64)
        ids = ids[ids != self.end]
        ids[ids == self.start] = self.end
        return ids

    def counts(self, size: int) -> npt.NDArray[np.int64]:
        """Return the number of occurrences of each of `size` ids in the text.

        Memory holds 16 million tokens at a time.
        """
        counts = np.zeros(size, np.int64)
        for start in range(0, len(self.ids), 1 << 24):
            counts += np.bincount(self.ids[start : start + (1 << 24)], minlength=size)
        counts[[self.start, self.end]] = 0
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

    progress: called with the number of bytes done. Raises as `prepare_text`.
    """
    encoder = SentenceEncoder(tokenizer)
    prepare_text(sentences_of(parts), encoder, folder, progress)
    return SentenceCorpus.open(folder, tokenizer)
