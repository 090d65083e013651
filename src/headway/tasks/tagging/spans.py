"""Spans of words from tags in the IOB, IOBES and BILOU schemes (B-person I-person O) and their
F1; and entities from the tags of tokens, as the pipeline of transformers for token
classification."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from headway.base.shapes import Float, Tensor

OUTSIDE = "O"
_TAG = re.compile(r"([BIESLU])-(.+)", re.DOTALL)
_FIRST, _LAST = frozenset("BSU"), frozenset("ELSU")


@dataclass(frozen=True, order=True)
class WordSpan:
    """The span of the words start, start + 1, ... end - 1, and its label."""

    start: int
    end: int
    label: str


def are_span_tags(names: Collection[str]) -> bool:
    """Return whether tags describe spans: all are O or like B-person, and at least one is not
    O."""
    return any(name != OUTSIDE for name in names) and all(
        name == OUTSIDE or _TAG.fullmatch(name) for name in names
    )


def spans_of(tags: Sequence[str]) -> list[WordSpan]:
    """Return the spans of one sentence, by the rules of the CoNLL-2000 evaluation script.

    A span begins at B, and at a tag that does not continue the span before it: after O, or after
    another label. So IOB1 and IOB2 give the same spans, and a predicted span without a B counts. In
    IOBES and BILOU, S and U begin and end a span, E and L end it. Tjong Kim Sang and Buchholz 2000.
    """
    spans: list[WordSpan] = []
    open_span: tuple[int, str] | None = None
    for index, tag in enumerate([*tags, OUTSIDE]):
        match = _TAG.fullmatch(tag)
        kind, label = (match[1], match[2]) if match else (OUTSIDE, "")
        continues = open_span is not None and label == open_span[1] and kind not in _FIRST
        if open_span is not None and not continues:
            spans.append(WordSpan(open_span[0], index, open_span[1]))
            open_span = None
        if match and open_span is None:
            open_span = (index, label)
        if open_span is not None and kind in _LAST:
            spans.append(WordSpan(open_span[0], index + 1, open_span[1]))
            open_span = None
    return spans


@dataclass(frozen=True)
class SpanScores:
    """Precision, recall and F1, from 0 to 1.

    true, predicted, correct: the numbers of true, predicted and correct spans.
    """

    precision: float
    recall: float
    f1: float
    true: int
    predicted: int
    correct: int


def score_spans(predicted: Sequence[Sequence[str]], true: Sequence[Sequence[str]]) -> SpanScores:
    """Score the spans of predicted tags against those of true tags, micro-averaged.

    predicted, true: the tags of each sentence, one per word. A span is correct if its first word,
    its last word and its label are. precision = correct / predicted, recall = correct / true, f1 =
    their harmonic mean; 0 if the denominator is 0. Tjong Kim Sang and Buchholz 2000, section 4.
    """
    if len(predicted) != len(true):
        raise ValueError(
            f"the numbers of sentences {len(predicted)=} and {len(true)=} must be equal"
        )
    num_true = num_predicted = num_correct = 0
    for i, (tags, true_tags) in enumerate(zip(predicted, true, strict=True)):
        if len(tags) != len(true_tags):
            raise ValueError(f"sentence {i} (from 0): {len(tags)} tags for {len(true_tags)} words")
        spans, true_spans = set(spans_of(tags)), set(spans_of(true_tags))
        num_true += len(true_spans)
        num_predicted += len(spans)
        num_correct += len(spans & true_spans)
    precision, recall = num_correct / max(num_predicted, 1), num_correct / max(num_true, 1)
    f1 = 2 * num_correct / max(num_predicted + num_true, 1)
    return SpanScores(precision, recall, f1, num_true, num_predicted, num_correct)


Strategy = Literal["none", "simple", "first", "average", "max"]


@dataclass(frozen=True)
class TaggedToken:
    """The token text[start:end] of a text. word: its string. continues: whether it continues a
    word. probabilities: of the tags."""

    word: str
    start: int
    end: int
    continues: bool
    probabilities: Float[Tensor, " C"]


@dataclass(frozen=True)
class Entity:
    """The entity text[start:end].

    label: its tag, without B- and I- unless it is a single token. word: its tokens as a text.
    probability: the mean of its parts. index: the position of a single token, from 1; None for a
    group.
    """

    label: str
    word: str
    start: int
    end: int
    probability: float
    index: int | None = None


@dataclass(frozen=True)
class TextEntities:
    """A text and its entities, without those that are tagged O."""

    text: str
    entities: tuple[Entity, ...]


def entities_of(
    tokens: Sequence[TaggedToken],
    tags: Sequence[str],
    strategy: Strategy,
    join: Callable[[Sequence[str]], str],
) -> tuple[Entity, ...]:
    """Return the entities that the tags of tokens form.

    strategy: "none": every token is one. "simple": consecutive tokens with the same label are one.
    The others do this with words, whose tag is that of their "first" token, that of the token with
    the "max" probability, or that with the highest "average" probability. join: makes a text of
    strings of tokens.
    """
    if strategy in ("none", "simple"):
        parts = [_part(tags, [token], token.probabilities, token.word) for token in tokens]
    else:
        parts = [
            _part(tags, word, _of_word(word, strategy), join([token.word for token in word]))
            for word in _words(tokens)
        ]
    if strategy == "none":
        numbered = [
            Entity(part.label, part.word, part.start, part.end, part.probability, number)
            for number, part in enumerate(parts, start=1)
        ]
        return tuple(entity for entity in numbered if entity.label != "O")
    groups = [_group(parts_of_group, join) for parts_of_group in _grouped(parts)]
    return tuple(entity for entity in groups if entity.label != "O")


def _part(
    tags: Sequence[str], tokens: Sequence[TaggedToken], probabilities: Tensor, word: str
) -> Entity:
    probability, tag = probabilities.max(-1)
    start, end = tokens[0].start, tokens[-1].end
    return Entity(tags[int(tag)], word, start, end, float(probability))


def _words(tokens: Sequence[TaggedToken]) -> list[list[TaggedToken]]:
    words: list[list[TaggedToken]] = []
    for token in tokens:
        if words and token.continues:
            words[-1].append(token)
        else:
            words.append([token])
    return words


def _of_word(word: Sequence[TaggedToken], strategy: Strategy) -> Tensor:
    """Return the probabilities of the tags of a word."""
    if strategy == "first":
        return word[0].probabilities
    if strategy == "max":
        return max(word, key=lambda token: float(token.probabilities.max())).probabilities
    return torch.stack([token.probabilities for token in word]).mean(0)


def _grouped(parts: Sequence[Entity]) -> list[list[Entity]]:
    """Return the parts in groups with the same label; B- begins a group."""
    groups: list[list[Entity]] = []
    for part in parts:
        is_begin = part.label.startswith("B-")
        if groups and not is_begin and _without_prefix(part) == _without_prefix(groups[-1][-1]):
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups


def _without_prefix(part: Entity) -> str:
    return part.label[2:] if part.label.startswith(("B-", "I-")) else part.label


def _group(parts: Sequence[Entity], join: Callable[[Sequence[str]], str]) -> Entity:
    return Entity(
        parts[0].label.split("-", 1)[-1],
        join([part.word for part in parts]),
        parts[0].start,
        parts[-1].end,
        sum(part.probability for part in parts) / len(parts),
    )
