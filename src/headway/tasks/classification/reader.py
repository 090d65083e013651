"""The strings-to-ids side of a classifier, and the names, or the range, of what it says."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headway.errors import DataError, UsageError
from headway.files import are_distinct_names, json_bytes, read_json, write_file
from headway.text import MarkedTokenizer, Marks, TextTokenizer, load_tokenizer

CLASSES_FILE = "classes.json"
FORMAT = 1
Texts = str | tuple[str, str]
"""What is read at once: a text, or two."""


@dataclass(frozen=True)
class Numbers:
    """The numbers that texts had in training: their mean, standard deviation and range.

    A model gives z = (y - mean) / deviation. lowest, highest: None where nobody said.
    """

    mean: float
    deviation: float
    lowest: float | None = None
    highest: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Numbers:
        """Those of at least two different numbers."""
        mean = math.fsum(values) / len(values)
        variance = math.fsum((value - mean) ** 2 for value in values) / len(values)
        return cls(mean, math.sqrt(variance), min(values), max(values))

    def scaled(self, value: float) -> float:
        """y -> z."""
        return (value - self.mean) / self.deviation

    def restored(self, value: float) -> float:
        """z -> y."""
        return value * self.deviation + self.mean


@dataclass(frozen=True)
class ClassReader:
    """How a classifier reads texts, and what its outputs mean.

    tokenizer: a language model's or an encoder's. labels: in the order of the classes, each once;
    none where texts get `numbers` instead. max_length: tokens that are read of a text, or of two
    together, marks included; what is longer is cut at its end, of two texts the longer one. pairs:
    every input is two texts, or none is; None where a model from elsewhere does not say.
    """

    tokenizer: TextTokenizer | MarkedTokenizer
    labels: tuple[str, ...]
    max_length: int
    numbers: Numbers | None = None
    pairs: bool | None = False

    @property
    def outputs(self) -> int:
        """So many numbers a model must give for a text."""
        return 1 if self.numbers is not None else len(self.labels)

    @property
    def pad(self) -> int:
        """What stands at the right of shorter rows; no real token sees it."""
        if isinstance(self.tokenizer, MarkedTokenizer):
            return self.tokenizer.marks.pad
        return self.tokenizer.eos

    def encode(
        self, texts: Sequence[Texts], first: int = 1
    ) -> tuple[list[list[int]], list[list[int]]]:
        """(ids, types: 1 for tokens of a second text).

        Of an encoder's tokenizer `Marks.frame`. Of a language model's <bos> text <eos>, or <bos>
        text <eos> text <eos>: the last token has read the whole of it. first: the number of the
        first input, in errors. UsageError for two texts where one is read, and for one where two
        are.
        """
        for number, text in enumerate(texts, start=first):
            if self.pairs is not None and isinstance(text, str) == self.pairs:
                reads, given = ("two texts", "one") if self.pairs else ("one text", "two")
                raise UsageError(
                    f"this model reads {reads} at once, and there is {given}: {str(text)[:60]!r}",
                    f"text {number}",
                    '(first, second); headway classify RUN "..." --second "..."',
                )
        framed = self._framed(texts, self.max_length)
        return [ids for ids, _ in framed], [types for _, types in framed]

    def lengths(self, texts: Sequence[Texts]) -> list[int]:
        """The number of tokens of each input, special tokens included, before any are cut."""
        return [len(ids) for ids, _ in self._framed(texts, None)]

    def _framed(
        self, texts: Sequence[Texts], room: int | None
    ) -> list[tuple[list[int], list[int]]]:
        """(ids, types) of each input, at most `room` ids."""
        firsts = [text if isinstance(text, str) else text[0] for text in texts]
        seconds = [text[1] for text in texts if not isinstance(text, str)]
        others = iter(self.tokenizer.encode_batch(seconds))
        return [
            marks.frame(ids, None if isinstance(text, str) else next(others), room)
            for text, (marks, ids) in zip(texts, self._begun(firsts), strict=True)
        ]

    def _begun(self, texts: list[str]) -> list[tuple[Marks, list[int]]]:
        """Ids of texts that stand first, and the marks around them."""
        if isinstance(self.tokenizer, MarkedTokenizer):
            return [(self.tokenizer.marks, ids) for ids in self.tokenizer.encode_batch(texts)]
        end, found = self.tokenizer.eos, []
        for start, *ids in map(self.tokenizer.begin, texts):
            found.append((Marks(pad=end, start=start, end=end, mask=end), ids))
        return found

    @property
    def fingerprint(self) -> str:
        """sha256 of all that the ids and the names of the classes depend on."""
        return hashlib.sha256(self.tokenizer.fingerprint.encode() + self._json()).hexdigest()

    def _json(self) -> bytes:
        facts: dict[str, Any] = {"format": FORMAT, "labels": self.labels}
        facts["max_length"] = self.max_length
        if self.numbers is not None:
            facts["numbers"] = asdict(self.numbers)
        if self.pairs is not False:
            facts["pairs"] = self.pairs
        return json_bytes(facts)

    def save(self, folder: Path) -> None:
        """Write tokenizer.json and classes.json."""
        self.tokenizer.save(folder)
        write_file(folder / CLASSES_FILE, self._json())

    @classmethod
    def load(
        cls,
        folder: Path,
        load: Callable[[Path], TextTokenizer | MarkedTokenizer] = load_tokenizer,
    ) -> ClassReader:
        """Read what `save` wrote; `load` reads the tokenizer. DataError if it is not that."""
        path = folder / CLASSES_FILE
        facts = read_json(path)
        if not isinstance(facts, dict) or not _are_classes(facts):
            raise DataError(f"not a list of classes (format {FORMAT})", str(path))
        numbers = Numbers(**facts["numbers"]) if "numbers" in facts else None
        labels, pairs = tuple(facts["labels"]), facts.get("pairs", False)
        return cls(load(folder), labels, facts["max_length"], numbers, pairs)


def _are_classes(facts: dict[str, Any]) -> bool:
    labels, numbers = facts.get("labels"), facts.get("numbers")
    return (
        facts.get("format") == FORMAT
        and are_distinct_names(labels)
        and type(facts.get("max_length")) is int
        and facts["max_length"] >= 2
        and type(facts.get("pairs", False)) in {bool, type(None)}
        and ("numbers" not in facts or (not labels and _are_numbers(numbers)))
    )


def _are_numbers(facts: Any) -> bool:
    return (
        isinstance(facts, dict)
        and facts.keys() == Numbers.__dataclass_fields__.keys()
        and all(type(facts[key]) in {int, float} for key in ("mean", "deviation"))
        and all(type(facts[key]) in {int, float, type(None)} for key in ("lowest", "highest"))
        and facts["deviation"] > 0
    )
