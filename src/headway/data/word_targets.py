"""Batches of sentences with one target per word, for tagging with an encoder."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from headway.base.shapes import Bool, Shaped, Tensor
from headway.data.padding import EncoderBatch, collate_encoder_batch
from headway.data.stream import Batch, Indices
from headway.text import EncoderTokenizer


@dataclass(frozen=True)
class WordSequence:
    """Consecutive words of one sentence as a framed sequence.

    ids: [CLS], the tokens of the words, [SEP]. firsts: for each word, the position of its first
    token in `ids`.
    """

    ids: Sequence[int]
    firsts: Sequence[int]


def word_sequences(
    tokenizer: EncoderTokenizer, sentences: Sequence[Sequence[str]], length: int
) -> list[list[WordSequence]]:
    """Return each sentence as sequences of at most `length` ids, split between words, so that no
    word is lost.

    A word that alone is too long is truncated. A word without tokens (for example, a joining
    character) is replaced by [MASK].
    """
    distinct = list(dict.fromkeys(word for words in sentences for word in words))
    tokens_of_words: list[list[int]] = [[] for _ in distinct]
    for i, word_index in zip(*tokenizer.encode_words(distinct), strict=True):
        tokens_of_words[word_index].append(i)
    unknown, room = [tokenizer.special_tokens.mask], length - 2
    tokens_by_word = {
        word: (tokens or unknown)[:room]
        for word, tokens in zip(distinct, tokens_of_words, strict=True)
    }
    return [
        [_row(tokenizer, part) for part in _parts([tokens_by_word[word] for word in words], room)]
        for words in sentences
    ]


def token_sequences(
    tokenizer: EncoderTokenizer, words: Sequence[Sequence[int]], length: int
) -> list[WordSequence]:
    """Return the tokens of words as sequences of at most `length` ids, in which every token counts
    as a word. They are split between words, if a word is not too long itself."""
    room = length - 2
    pieces = [list(word[i : i + room]) for word in words for i in range(0, max(len(word), 1), room)]
    return [
        _row(tokenizer, [[token] for piece in part for token in piece])
        for part in _parts(pieces, room)
    ]


def _parts(words: Sequence[list[int]], room: int) -> Iterator[list[list[int]]]:
    """Yield the words in order, in parts of at most `room` tokens, each as long as possible."""
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


def _row(tokenizer: EncoderTokenizer, words: Sequence[list[int]]) -> WordSequence:
    ids, _ = tokenizer.special_tokens.frame([i for word in words for i in word])
    firsts, position = array("i"), 1
    for word in words:
        firsts.append(position)
        position += len(word)
    return WordSequence(array("i", ids), firsts)


@dataclass(frozen=True)
class WordBatch(Batch):
    """A batch of sequences with one target per word.

    words: True at the first token of each word. targets: targets of the words, sequence by
    sequence. indices: indices of the sequences in the data.
    """

    examples = "sentences"
    texts: EncoderBatch
    words: Bool[Tensor, "B T"]
    targets: Shaped[Tensor, " N"]
    indices: tuple[int, ...] = ()


@dataclass(frozen=True)
class WordTargets:
    """The sequences of all sentences, in order (`rows`), with a class or a value for each word."""

    rows: Sequence[WordSequence]
    targets: Sequence[Sequence[int | float]]

    @classmethod
    def of(
        cls, rows_of: Sequence[Sequence[WordSequence]], targets_of: Sequence[Sequence[int | float]]
    ) -> WordTargets:
        """Combine the sequences of each sentence with the targets of its words."""
        rows: list[WordSequence] = []
        targets: list[list[int | float]] = []
        for word_rows_of_sentence, targets_of_sentence in zip(rows_of, targets_of, strict=True):
            remaining = iter(targets_of_sentence)
            for row in word_rows_of_sentence:
                rows.append(row)
                targets.append([next(remaining) for _ in row.firsts])
        return cls(rows, targets)

    @property
    def lengths(self) -> list[int]:
        """The number of tokens of each sequence."""
        return [len(row.ids) for row in self.rows]

    def batch(self, indices: Indices, pad: int) -> WordBatch:
        """Return the sequences with these indices as a batch."""
        chosen = [int(i) for i in indices]
        rows = [self.rows[i] for i in chosen]
        texts = collate_encoder_batch([row.ids for row in rows], None, pad)
        words = torch.zeros_like(texts.keys)
        for row, firsts in zip(words, (row.firsts for row in rows), strict=True):
            row[list(firsts)] = True
        targets = torch.tensor([target for i in chosen for target in self.targets[i]])
        return WordBatch(texts, words, targets, tuple(chosen))
