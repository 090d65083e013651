"""Running text as sentences on disk: what encoders make their rows of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headway.data.documents import Part
from headway.data.text_corpus import TextCorpus, prepare_text
from headway.text import MarkedTokenizer, split_sentences

LONGEST = 64  # tokens: a longer sentence counts as several


class SentenceEncoder:
    """A tokenizer that ends each text with [SEP]; its documents begin with [CLS]."""

    def __init__(self, tokenizer: MarkedTokenizer) -> None:
        self.tokenizer, self.size = tokenizer, tokenizer.size
        self.bos = self.eos = tokenizer.marks.start
        self.fingerprint = f"sentences of {LONGEST} {tokenizer.fingerprint}"

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, with [SEP] at its end and after every 64 tokens in it."""
        end, found = self.tokenizer.marks.end, []
        for ids in self.tokenizer.encode_batch(texts):
            row = []
            for start in range(0, max(1, len(ids)), LONGEST):  # one without tokens has a mark too
                row += [*ids[start : start + LONGEST], end]
            found.append(row)
        return found


class SentenceCorpus:
    """Sentences of documents, read from disk where they are touched.

    sentence i is ids[starts[i] : ends[i]], without marks. documents: the first sentence of each
    document, and at last the number of sentences. lengths: tokens of each sentence; sums: of all
    before it. Memory holds these numbers, some 32 bytes a sentence, and no text.
    """

    def __init__(self, text: TextCorpus, start: int, end: int) -> None:
        """`start` and `end`: the marks [CLS] and [SEP], as `SentenceEncoder` puts them."""
        self.text, self.start, self.end = text, start, end
        self.ids = text.ids
        self.ends: npt.NDArray[np.int64] = np.flatnonzero(self.ids == end)
        self.starts = np.concatenate(([0], self.ends[:-1] + 1))
        begun = self.ids[self.starts] == start
        self.starts[begun] += 1
        self.lengths = self.ends - self.starts
        self.sums: npt.NDArray[np.int64] = np.concatenate(([0], np.cumsum(self.lengths)))
        self.documents: npt.NDArray[np.int64] = np.append(np.flatnonzero(begun), len(self.ends))

    @classmethod
    def open(cls, folder: Path, tokenizer: MarkedTokenizer) -> SentenceCorpus:
        """Map the sentences in `folder`, encoded with `tokenizer`, else DataError."""
        text = TextCorpus.open(folder, SentenceEncoder(tokenizer))
        return cls(text, tokenizer.marks.start, tokenizer.marks.end)

    def __len__(self) -> int:
        """Sentences."""
        return len(self.ends)

    @property
    def tokens(self) -> int:
        """Tokens of all sentences."""
        return int(self.lengths.sum())

    def run(self, first: int, last: int) -> npt.NDArray[np.int64]:
        """The tokens of sentences `first` to `last` - 1; [SEP] where a document ends between."""
        ids: npt.NDArray[np.int64]
        ids = self.ids[self.starts[first] : self.ends[last - 1]].astype(np.int64)
        ids = ids[ids != self.end]
        ids[ids == self.start] = self.end
        return ids

    def counts(self, size: int) -> npt.NDArray[np.int64]:
        """How often each of `size` tokens stands in the text. Memory holds 16 million of them."""
        found = np.zeros(size, np.int64)
        for start in range(0, len(self.ids), 1 << 24):
            found += np.bincount(self.ids[start : start + (1 << 24)], minlength=size)
        found[[self.start, self.end]] = 0
        return found

    def sentence(self, number: int) -> list[int]:
        """The tokens of one sentence."""
        return [int(i) for i in self.run(number, number + 1)]


def sentences_of(parts: Iterable[Part]) -> Iterator[Part]:
    """The sentences of documents, each as a part; documents without any are left out."""
    first = True
    for part in parts:
        first = first or part.first
        for sentence in split_sentences(part.text):
            yield Part(sentence, first)
            first = False


def prepare_sentences(
    parts: Iterable[Part],
    tokenizer: MarkedTokenizer,
    folder: Path,
    progress: Callable[[int], None] = lambda num_bytes: None,
) -> SentenceCorpus:
    """Encode the sentences of documents into the new folder `folder`, and open it. See
    `prepare_text`."""
    encoder = SentenceEncoder(tokenizer)
    prepare_text(sentences_of(parts), encoder, folder, progress)
    return SentenceCorpus.open(folder, tokenizer)
