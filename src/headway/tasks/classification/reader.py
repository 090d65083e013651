"""The reader of a text classifier: tokenizer, and labels or the scale of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from headway.base.errors import UsageError
from headway.base.files import are_distinct_names, is_count
from headway.bundle import Preprocessing, StoredReader
from headway.text import EncoderTokenizer, SpecialTokens, TextTokenizer, load_tokenizer

Texts = str | tuple[str, str]
"""One input: a text, or a pair of texts."""


@dataclass(frozen=True)
class Numbers:
    """The scale of the numbers in training: their mean, standard deviation and range.

    The model predicts z = (y - mean) / deviation, or y = sigmoid(z) if `sigmoid` is True: so models
    of other libraries with one label, which were not trained by regression, score a pair of texts.
    lowest, highest: None if unknown, for models of other libraries.
    """

    mean: float
    deviation: float
    lowest: float | None = None
    highest: float | None = None
    sigmoid: bool = False

    @classmethod
    def of(cls, values: Sequence[float]) -> Numbers:
        """Compute the scale of at least two different numbers."""
        mean = math.fsum(values) / len(values)
        variance = math.fsum((value - mean) ** 2 for value in values) / len(values)
        return cls(mean, math.sqrt(variance), min(values), max(values))

    def scaled(self, value: float) -> float:
        """Convert a label y to the model's z."""
        return (value - self.mean) / self.deviation

    def restored(self, value: float) -> float:
        """Convert the model's z to a label y."""
        if self.sigmoid:
            return 0.5 * (1 + math.tanh(value / 2))
        return value * self.deviation + self.mean


@dataclass(frozen=True)
class ClassReader(StoredReader):
    """Encodes the texts of a classifier, and names its outputs.

    tokenizer: the tokenizer of a language model or of an encoder. labels: the distinct names of the
    classes, in order; empty for a regression model, which has `numbers`. max_length: the maximum
    number of tokens of a text or of both texts of a pair, special tokens included; longer texts are
    truncated at the end, in a pair the longer text first. pairs: whether every input is a pair;
    None if unknown, for models of other libraries.
    """

    FILE: ClassVar[str] = "classes.json"
    tokenizer: TextTokenizer | EncoderTokenizer
    labels: tuple[str, ...]
    max_length: int
    numbers: Numbers | None = None
    pairs: bool | None = False

    @property
    def outputs(self) -> int:
        """The number of outputs of the head."""
        return 1 if self.numbers is not None else len(self.labels)

    @property
    def pad(self) -> int:
        """The padding token at the right of shorter sequences; no other token attends to it."""
        if isinstance(self.tokenizer, EncoderTokenizer):
            return self.tokenizer.special_tokens.pad
        return self.tokenizer.eos

    def encode(
        self, texts: Sequence[Texts], first: int = 1
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Encode texts or pairs, truncated to `max_length`.

        The special tokens are those of `SpecialTokens.frame` for the tokenizer of an encoder. For a
        language model they are <bos> text <eos>, or <bos> text <eos> text <eos>, so that the last
        token attends to the whole input. first: the number of the first input, in errors.

        Returns ids and token types (1 for the tokens of a second text). Raises UsageError for a
        pair if the model takes single texts, and for a single text if it takes pairs.
        """
        for number, text in enumerate(texts, start=first):
            if self.pairs is not None and isinstance(text, str) == self.pairs:
                expected, actual = (
                    ("pairs of texts", "a single text")
                    if self.pairs
                    else ("single texts", "a pair of texts")
                )
                raise UsageError(
                    f"this model classifies {expected}, but the input is {actual}: "
                    f"{str(text)[:60]!r}",
                    f"text {number}",
                    '(first, second); headway classify RUN "..." --second "..."'
                    if self.pairs
                    else "leave out the second text",
                )
        framed = self._framed(texts, self.max_length)
        return [ids for ids, _ in framed], [types for _, types in framed]

    def lengths(self, texts: Sequence[Texts]) -> list[int]:
        """Return the number of tokens of each input before truncation, special tokens included."""
        return [len(ids) for ids, _ in self._framed(texts, None)]

    def _framed(
        self, texts: Sequence[Texts], limit: int | None
    ) -> list[tuple[list[int], list[int]]]:
        """Return ids and token types of each input, at most `limit` ids; None: no truncation."""
        firsts = [text if isinstance(text, str) else text[0] for text in texts]
        seconds = [text[1] for text in texts if not isinstance(text, str)]
        second_ids = iter(self.tokenizer.encode_batch(seconds))
        return [
            specials.frame(ids, None if isinstance(text, str) else next(second_ids), limit)
            for text, (specials, ids) in zip(texts, self._first_ids(firsts), strict=True)
        ]

    def _first_ids(self, texts: list[str]) -> list[tuple[SpecialTokens, list[int]]]:
        """Return the special tokens and the ids of single texts, or of first texts of pairs."""
        if isinstance(self.tokenizer, EncoderTokenizer):
            return [
                (self.tokenizer.special_tokens, ids) for ids in self.tokenizer.encode_batch(texts)
            ]
        end, encoded = self.tokenizer.eos, []
        for start, *ids in map(self.tokenizer.begin, texts):
            encoded.append((SpecialTokens(pad=end, start=start, end=end, mask=end), ids))
        return encoded

    def contents(self) -> tuple[Preprocessing, dict[str, object]]:
        settings: dict[str, object] = {"labels": self.labels, "max_length": self.max_length}
        if self.numbers is not None:
            numbers = asdict(self.numbers)
            if not self.numbers.sigmoid:
                del numbers["sigmoid"]
            settings["numbers"] = numbers
        if self.pairs is not False:
            settings["pairs"] = self.pairs
        return self.tokenizer, settings

    @classmethod
    def load(
        cls,
        folder: Path,
        load: Callable[[Path], TextTokenizer | EncoderTokenizer] = load_tokenizer,
    ) -> ClassReader:
        """Load the files that `save` wrote; `load` loads the tokenizer.

        Raises DataError if they are invalid.
        """
        settings = cls.load_settings(folder, _are_classes, "a list of classes and a maximum length")
        numbers = Numbers(**settings["numbers"]) if "numbers" in settings else None
        labels, pairs = tuple(settings["labels"]), settings.get("pairs", False)
        return cls(load(folder), labels, settings["max_length"], numbers, pairs)


def _are_classes(settings: dict[str, object]) -> bool:
    labels, numbers = settings.get("labels"), settings.get("numbers")
    return (
        are_distinct_names(labels)
        and is_count(settings.get("max_length"), 2)
        and type(settings.get("pairs", False)) in {bool, type(None)}
        and ("numbers" not in settings or (not labels and _are_numbers(numbers)))
    )


def _are_numbers(values: object) -> bool:
    return (
        isinstance(values, dict)
        and {"sigmoid", *values} == Numbers.__dataclass_fields__.keys()
        and type(values.get("sigmoid", False)) is bool
        and all(type(values[key]) in {int, float} for key in ("mean", "deviation"))
        and all(type(values[key]) in {int, float, type(None)} for key in ("lowest", "highest"))
        and values["deviation"] > 0
    )
