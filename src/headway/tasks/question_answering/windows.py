"""Questions and the texts that hold their answers, as an encoder reads them: windows, and batches.

Devlin et al. 2019, section 4.2 and released code (run_squad.py).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from headway.data.encoder_batches import FramedBatch, collate_framed
from headway.shapes import Int, Tensor
from headway.text import Marks

LONGEST_QUESTION = 64  # tokens


@dataclass(frozen=True)
class Window:
    """[CLS] question [SEP] part of a context [SEP].

    ids: all of them. first: where in ids the part begins. begin: which of the context's tokens
    stands there, from 0. count: tokens of the part.
    """

    ids: Sequence[int]
    first: int
    begin: int
    count: int

    @property
    def types(self) -> list[int]:
        """0 for the question and its marks, 1 for the rest."""
        return [0] * self.first + [1] * (len(self.ids) - self.first)

    def place(self, span: tuple[int, int] | None) -> tuple[int, int]:
        """Where in ids the context's tokens first .. last stand; (0, 0), [CLS], unless all do."""
        if span is None or span[0] < self.begin or span[1] >= self.begin + self.count:
            return 0, 0
        shift = self.first - self.begin
        return span[0] + shift, span[1] + shift


def question_room(marks: Marks, length: int) -> int:
    """The number of tokens that are read of a question, in windows of `length` ids: 64, or half a
    window; the rest of a longer one is cut."""
    return min(LONGEST_QUESTION, (length - 2 - marks.between) // 2)


def windows(
    marks: Marks, question: Sequence[int], context: Sequence[int], length: int, stride: int
) -> list[Window]:
    """A context in windows of at most `length` ids, each begun `stride` tokens after the last.

    No token is left out: where a long question leaves less room than that, they begin as far apart
    as there is room. A question is cut after `question_room` tokens.
    """
    if length < 8 or stride < 1:
        raise ValueError(f"{length=} must be at least 8 and {stride=} at least 1")
    around = 2 + marks.between
    asked = list(question[: question_room(marks, length)])
    room = length - len(asked) - around
    found: list[Window] = []
    begin = 0
    while not found or found[-1].begin + found[-1].count < len(context):
        part = context[begin : begin + room]
        ids, _ = marks.frame(asked, part)
        found.append(Window(array("i", ids), len(asked) + around - 1, begin, len(part)))
        begin += min(stride, room)
    return found


def covered(spans: Sequence[tuple[int, int]], start: int, end: int) -> tuple[int, int] | None:
    """(first, last): the tokens that share a character with [start, end). None if none does.

    spans: the characters of each token, in order.
    """
    found = [i for i, (a, b) in enumerate(spans) if a < end and b > start and a < b]
    return (found[0], found[-1]) if found else None


@dataclass(frozen=True)
class AnswerBatch:
    """Windows, one a row. starts, ends: where the answer's first and last token stand; 0, [CLS],
    where it is not in the window. indices: where in the data the windows stand."""

    examples: ClassVar[str] = "windows"  # what `indices` count, for messages
    texts: FramedBatch
    starts: Int[Tensor, " B"]
    ends: Int[Tensor, " B"]
    indices: tuple[int, ...] = ()

    def to(self, device: str) -> AnswerBatch:
        """The same on another device."""
        starts, ends = self.starts.to(device), self.ends.to(device)
        return AnswerBatch(self.texts.to(device), starts, ends, self.indices)


def collate_windows(given: Sequence[Window], pad: int, typed: bool = True) -> FramedBatch:
    """Windows as one batch. typed: the model knows two kinds of text (RoBERTa knows one)."""
    types = [window.types for window in given] if typed else None
    return collate_framed([window.ids for window in given], types, pad)


@dataclass(frozen=True)
class AnswerTexts:
    """windows: of all questions. targets: where in each the answer's first and last token stand."""

    windows: Sequence[Window]
    targets: Sequence[tuple[int, int]]
    typed: bool = True

    def batch(self, indices: Sequence[int], pad: int, device: str = "cpu") -> AnswerBatch:
        """The windows that stand there."""
        texts = collate_windows([self.windows[i] for i in indices], pad, self.typed)
        places = torch.tensor([self.targets[i] for i in indices])
        return AnswerBatch(texts, places[:, 0], places[:, 1], tuple(indices)).to(device)
