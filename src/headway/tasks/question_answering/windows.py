"""Windows of question and context for an encoder, batches of windows, and the answers in them.

Devlin et al. 2019, section 4.2 and released code (run_squad.py).
"""

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from headway.base.shapes import Bool, Float, Int, Tensor
from headway.data.padding import EncoderBatch, collate_encoder_batch
from headway.data.stream import Batch, Indices
from headway.text import SpecialTokens

LONGEST_QUESTION = 64
"""Maximum number of tokens of a question."""

LONGEST = 30
"""Maximum number of tokens of an answer."""

Span = tuple[float, int, int]
"""Score of an answer, and its first and last token in the context."""


@dataclass(frozen=True)
class Window:
    """A sequence [CLS] question [SEP] part of the context [SEP].

    ids: the ids of the whole sequence. first: the position in `ids` of the first token of the part.
    begin: the index of that token in the context, from 0. count: the number of tokens of the part.
    """

    ids: Sequence[int]
    first: int
    begin: int
    count: int

    @property
    def types(self) -> list[int]:
        """The token types: 0 for the question and its special tokens, 1 for the rest."""
        return [0] * self.first + [1] * (len(self.ids) - self.first)

    def place(self, span: tuple[int, int] | None) -> tuple[int, int]:
        """Return the positions in `ids` of the first and last token of a span of the context.

        Returns (0, 0), the position of [CLS], unless the window contains the whole span.
        """
        if span is None or span[0] < self.begin or span[1] >= self.begin + self.count:
            return 0, 0
        shift = self.first - self.begin
        return span[0] + shift, span[1] + shift


def max_question_length(special_tokens: SpecialTokens, length: int) -> int:
    """Return the maximum number of tokens of a question in windows of `length` tokens.

    It is 64, or half a window if that is less. Longer questions are truncated.
    """
    return min(LONGEST_QUESTION, (length - 2 - special_tokens.between) // 2)


def windows(
    special_tokens: SpecialTokens,
    question: Sequence[int],
    context: Sequence[int],
    length: int,
    stride: int,
) -> list[Window]:
    """Split a context into windows of at most `length` tokens, at a distance of `stride` tokens.

    Every token of the context is in a window: if a long question leaves less room than `stride`,
    the distance is that room. A question is truncated to `max_question_length` tokens.
    """
    if length < 8 or stride < 1:
        raise ValueError(f"{length=} must be at least 8 and {stride=} at least 1")
    num_special = 2 + special_tokens.between
    truncated = list(question[: max_question_length(special_tokens, length)])
    room = length - len(truncated) - num_special
    parts: list[Window] = []
    begin = 0
    while not parts or parts[-1].begin + parts[-1].count < len(context):
        part = context[begin : begin + room]
        ids, _ = special_tokens.frame(truncated, part)
        parts.append(Window(array("i", ids), len(truncated) + num_special - 1, begin, len(part)))
        begin += min(stride, room)
    return parts


def covered(spans: Sequence[tuple[int, int]], start: int, end: int) -> tuple[int, int] | None:
    """Return the first and the last token that overlap the characters [start, end), or None.

    spans: the character spans of the tokens, in order.
    """
    tokens = [i for i, (a, b) in enumerate(spans) if a < end and b > start and a < b]
    return (tokens[0], tokens[-1]) if tokens else None


@dataclass(frozen=True)
class AnswerBatch(Batch):
    """A batch of windows.

    starts, ends: the positions of the first and last token of the answer; 0, the position of [CLS],
    if the window does not contain it. indices: the indices of the windows in the data.
    """

    examples = "windows"
    texts: EncoderBatch
    starts: Int[Tensor, " B"]
    ends: Int[Tensor, " B"]
    indices: tuple[int, ...] = ()


def collate_windows(batch: Sequence[Window], pad: int, typed: bool = True) -> EncoderBatch:
    """Collate windows into a batch. typed: whether the model has token types (RoBERTa has none)."""
    types = [window.types for window in batch] if typed else None
    return collate_encoder_batch([window.ids for window in batch], types, pad)


@dataclass(frozen=True)
class AnswerTexts:
    """The training windows of all questions.

    targets: the positions of the first and last token of the answer in each window. typed: whether
    the model has token types.
    """

    windows: Sequence[Window]
    targets: Sequence[tuple[int, int]]
    typed: bool = True

    @property
    def lengths(self) -> list[int]:
        """The number of tokens of each window."""
        return [len(window.ids) for window in self.windows]

    def batch(self, indices: Indices, pad: int) -> AnswerBatch:
        """Return the windows with these indices as a batch."""
        chosen = [int(i) for i in indices]
        texts = collate_windows([self.windows[i] for i in chosen], pad, self.typed)
        targets = torch.tensor([self.targets[i] for i in chosen])
        return AnswerBatch(texts, targets[:, 0], targets[:, 1], tuple(chosen))


def best_spans(
    logits: Float[Tensor, "B T 2"], keys: Bool[Tensor, "B T"], batch: Sequence[Window], top: int
) -> list[list[Span]]:
    """Find the `top` most probable answers in each window, best first.

    The score of tokens i .. j is log P(start = i) + log P(end = j), where i <= j, j - i < 30, and
    both are tokens of the context. logits: of start and end. keys: True for real tokens. batch: the
    windows. Devlin et al. 2019, section 4.2.
    """
    logits = logits.float().masked_fill(~keys[..., None], -torch.inf)
    begin, end = logits.log_softmax(1).unbind(-1)  # B T
    length = logits.shape[1]
    positions = torch.arange(length, device=logits.device)
    firsts = torch.tensor([window.first for window in batch], device=logits.device)
    counts = torch.tensor([window.count for window in batch], device=logits.device)
    inside = (positions >= firsts[:, None]) & (positions < (firsts + counts)[:, None])  # B T
    distance = positions[None, :] - positions[:, None]  # T T: end minus start
    allowed = (distance >= 0) & (distance < LONGEST) & inside[:, :, None] & inside[:, None, :]
    scores = (begin[:, :, None] + end[:, None, :]).masked_fill(~allowed, -torch.inf)
    best = scores.flatten(1).topk(min(top, length * length), dim=1)
    spans = []
    for window, values, cells in zip(
        batch, best.values.tolist(), best.indices.tolist(), strict=True
    ):
        shift = window.begin - window.first
        spans.append(
            [
                (value, cell // length + shift, cell % length + shift)
                for value, cell in zip(values, cells, strict=True)
                if value > -math.inf
            ]
        )
    return spans


def merged(window_spans: Sequence[Sequence[Span]], top: int) -> list[Span]:
    """Merge the answers of the windows of one context into the `top` best.

    An answer that occurs in several overlapping windows counts once, with its highest score.
    """
    best: dict[tuple[int, int], float] = {}
    for score, first, last in (span for spans in window_spans for span in spans):
        best[first, last] = max(score, best.get((first, last), -math.inf))
    ranked = sorted(best.items(), key=lambda item: (-item[1], item[0]))
    return [(score, first, last) for (first, last), score in ranked[:top]]
