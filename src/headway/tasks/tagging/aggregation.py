"""Entities from the tags of tokens, as the pipeline of transformers for token classification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from headway.base.shapes import Float, Tensor

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
