"""config.json of somebody else: every value checked, every refusal with its key."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from headway.errors import DataError
from headway.files import read_json

T = TypeVar("T")

ACTIVATIONS = {
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
"""The nonlinearities that most families name alike, and what we call them."""
ACTIVATION_NAMES = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
"""The way back: ours -> the first of theirs."""

LABEL_LIMIT = 100_000


class Facts:
    """What a config.json says. A key that is missing or null has its default, where there is one.

    DataError names the key and the value. Keys that nobody asks for are ignored.
    """

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values = {key: value for key, value in values.items() if value is not None}
        self.where = where

    @classmethod
    def load(cls, path: Path, model_type: str | None = None) -> Facts:
        """The facts of a file. model_type: what the file is taken to say where it says nothing."""
        values = read_json(path)
        if not isinstance(values, dict):
            raise DataError("must be names and values", str(path))
        if model_type is not None and values.get("model_type") is None:
            values["model_type"] = model_type
        return cls(values, str(path))

    def whole(self, key: str, default: int | None = None, below: int = 2**31) -> int:
        """A whole number above 0."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < below:
            limit = f" and below {below:,}" if below < 2**31 else ""
            raise self.refusal(key, value, f"a whole number above 0{limit}")
        return value

    def sides(self, key: str, default: int) -> tuple[int, int]:
        """Height and width: two whole numbers above 0, or one for both."""
        value = self._get(key, default)
        pair = value if isinstance(value, list) else [value, value]
        right = len(pair) == 2 and all(type(side) is int and 0 < side < 2**31 for side in pair)
        if not right:
            raise self.refusal(key, value, "a whole number above 0, or two of them")
        return pair[0], pair[1]

    def number(self, key: str, default: float, low: float = 0.0, high: float = math.inf) -> float:
        """A number: at least `low`, below `high`."""
        value = self._get(key, default)
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        if not plain or not low <= value < high:
            raise self.refusal(key, value, f"a number from {low:g} on and below {high:g}")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """true or false."""
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise self.refusal(key, value, "true or false")
        return value

    def choice(self, key: str, meanings: Mapping[str, T], default: str) -> T:
        """One of some words, and what we call it."""
        value = self._get(key, default)
        if not isinstance(value, str) or value not in meanings:
            raise self.refusal(key, value, " or ".join(meanings))
        return meanings[value]

    def labels(self) -> tuple[str, ...]:
        """The classes' names, in order: `id2label`, else as many as `num_labels` says, or two."""
        named = self.values.get("id2label")
        if named is None:
            count = self.whole("num_labels", 2, below=LABEL_LIMIT)
            return tuple(f"LABEL_{i}" for i in range(count))
        right = isinstance(named, dict) and 0 < len(named) < LABEL_LIMIT
        labels = [named.get(str(i)) for i in range(len(named))] if right else [None]
        if not all(isinstance(label, str) for label in labels) or len({*labels}) < len(labels):
            raise self.refusal("id2label", named, "another name for each class: 0, 1, ...")
        return tuple(map(str, labels))

    def must_be(self, key: str, wanted: Any) -> None:
        """Refuse what this reader has no form for: the key must be absent or have this value."""
        if self.values.get(key, wanted) != wanted:
            raise self.refusal(key, self.values[key], f"{wanted!r}: nothing else can be read here")

    def refusal(self, key: str, value: Any, wanted: str) -> DataError:
        """The error for a key of this file."""
        return DataError(f"{key}={str(value)[:80]}: must be {wanted}", self.where)

    def _get(self, key: str, default: Any) -> Any:
        if default is None and key not in self.values:
            raise DataError(f"{key} is missing", self.where)
        return self.values.get(key, default)


def label_facts(labels: Sequence[str]) -> dict[str, Any]:
    """The way back of `Facts.labels`."""
    return {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }
