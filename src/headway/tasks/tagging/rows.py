"""Sentences with a tag at each word, as an encoder reads them: rows of pieces, and batches."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from headway.data.batches import padded
from headway.data.framed import FramedBatch, collate_framed
from headway.data.packing import IGNORED
from headway.shapes import Int, Tensor
from headway.text import MarkedTokenizer


@dataclass(frozen=True)
class WordRow:
    """Words of one sentence that follow each other, framed.

    ids: [CLS], their pieces, [SEP]. firsts: of each word, where its first piece stands there.
    """

    ids: Sequence[int]
    firsts: Sequence[int]


def word_rows(
    tokenizer: MarkedTokenizer, sentences: Sequence[Sequence[str]], length: int
) -> list[list[WordRow]]:
    """Each sentence as rows of at most `length` ids, cut between words: no word is lost.

    Of a word that alone is longer the first pieces are read. One that the tokenizer makes nothing
    of (a character that joins others, say) is read as [MASK], a word that is not seen.
    """
    different = list(dict.fromkeys(word for words in sentences for word in words))
    pieces: list[list[int]] = [[] for _ in different]
    for i, place in zip(*tokenizer.encode_words(different), strict=True):
        pieces[place].append(i)
    unseen, room = [tokenizer.marks.mask], length - 2
    known = {word: (own or unseen)[:room] for word, own in zip(different, pieces, strict=True)}
    return [
        [_row(tokenizer, part) for part in _parts([known[word] for word in words], room)]
        for words in sentences
    ]


def _parts(words: Sequence[list[int]], room: int) -> Iterator[list[list[int]]]:
    """Words in order, in parts of at most `room` pieces, each as full as can be."""
    part: list[list[int]] = []
    size = 0
    for word in words:
        if part and size + len(word) > room:
            yield part
            part, size = [], 0
        part.append(word)
        size += len(word)
    if part:
        yield part


def _row(tokenizer: MarkedTokenizer, words: Sequence[list[int]]) -> WordRow:
    ids, _ = tokenizer.marks.frame([i for word in words for i in word])
    firsts, place = array("i"), 1
    for word in words:
        firsts.append(place)
        place += len(word)
    return WordRow(array("i", ids), firsts)


@dataclass(frozen=True)
class TaggedBatch:
    """tags: the number of a word's tag at its first piece, -1 at what is not asked for. indices:
    where in the data the rows stand."""

    examples: ClassVar[str] = "sentences"  # what `indices` count, for messages
    texts: FramedBatch
    tags: Int[Tensor, "B T"]
    indices: tuple[int, ...] = ()

    def to(self, device: str) -> TaggedBatch:
        """The same on another device."""
        return TaggedBatch(self.texts.to(device), self.tags.to(device), self.indices)


def collate_tagged(
    rows: Sequence[WordRow],
    tags: Sequence[Sequence[int]],
    pad: int,
    indices: Sequence[int] = (),
) -> TaggedBatch:
    """Rows with the number of each word's tag, as one batch."""
    targets = []
    for row, numbers in zip(rows, tags, strict=True):
        target = [IGNORED] * len(row.ids)
        for place, number in zip(row.firsts, numbers, strict=True):
            target[place] = number
        targets.append(target)
    texts = collate_framed([row.ids for row in rows], None, pad)
    return TaggedBatch(texts, padded(targets, IGNORED)[0], tuple(indices))


@dataclass(frozen=True)
class TaggedTexts:
    """rows: of all sentences, in order. tags: a number for each word of each row. sentences: which
    sentence each row is of, from 0."""

    rows: Sequence[WordRow]
    tags: Sequence[Sequence[int]]
    sentences: Sequence[int]

    def batch(self, indices: Sequence[int], pad: int, device: str = "cpu") -> TaggedBatch:
        """The rows that stand there."""
        rows, tags = [self.rows[i] for i in indices], [self.tags[i] for i in indices]
        return collate_tagged(rows, tags, pad, indices).to(device)

    def joined(self, rows: Sequence[Sequence[int]]) -> list[list[int]]:
        """Numbers for each word of each row, as whole sentences."""
        found: list[list[int]] = [[] for _ in range(1 + max(self.sentences, default=-1))]
        for sentence, numbers in zip(self.sentences, rows, strict=True):
            found[sentence] += numbers
        return found
