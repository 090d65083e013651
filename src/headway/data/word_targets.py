"""Sentences with a target at each word, as an encoder reads them: rows of pieces, and batches."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from headway.data.encoder_batches import FramedBatch, collate_framed
from headway.shapes import Bool, Shaped, Tensor
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
class WordBatch:
    """words: True at the first piece of each word. targets: of the words, row by row. indices: the
    numbers of the rows in the data."""

    examples: ClassVar[str] = "sentences"  # what `indices` count, for messages
    texts: FramedBatch
    words: Bool[Tensor, "B T"]
    targets: Shaped[Tensor, " N"]
    indices: tuple[int, ...] = ()

    def to(self, device: str) -> WordBatch:
        """The same on another device."""
        words, targets = self.words.to(device), self.targets.to(device)
        return WordBatch(self.texts.to(device), words, targets, self.indices)


@dataclass(frozen=True)
class WordTargets:
    """rows: of all sentences, in order. targets: for each word of each row a class or a number."""

    rows: Sequence[WordRow]
    targets: Sequence[Sequence[int | float]]

    @classmethod
    def of(
        cls, rows_of: Sequence[Sequence[WordRow]], targets_of: Sequence[Sequence[int | float]]
    ) -> WordTargets:
        """Of sentences, each with its rows and the targets of its words."""
        rows: list[WordRow] = []
        targets: list[list[int | float]] = []
        for own, of_words in zip(rows_of, targets_of, strict=True):
            left = iter(of_words)
            for row in own:
                rows.append(row)
                targets.append([next(left) for _ in row.firsts])
        return cls(rows, targets)

    def batch(self, indices: Sequence[int], pad: int, device: str = "cpu") -> WordBatch:
        """The rows of these numbers."""
        rows = [self.rows[i] for i in indices]
        texts = collate_framed([row.ids for row in rows], None, pad)
        words = torch.zeros_like(texts.keys)
        for row, firsts in zip(words, (row.firsts for row in rows), strict=True):
            row[list(firsts)] = True
        targets = torch.tensor([target for i in indices for target in self.targets[i]])
        return WordBatch(texts, words, targets, tuple(indices)).to(device)
