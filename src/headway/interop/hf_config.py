"""Checked access to the config.json of another library: every error names file, key and value."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from headway.base.errors import DataError, HeadwayWarning
from headway.base.files import read_json

T = TypeVar("T")

ACTIVATIONS = {
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
"""Activation functions: Hugging Face's names -> ours."""
ACTIVATION_NAMES = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
"""Activation functions: our names -> the first of Hugging Face's."""

LABEL_LIMIT = 100_000
LARGEST = 2**31
"""Sizes are below this number."""


@dataclass(frozen=True)
class Ignored:
    """A key that Headway does not read.

    reason: why the key does not matter, or what is lost if its value is not neutral. neutral: the
    values that change nothing; None: all. refused: whether another value makes a file unusable.
    """

    reason: str
    neutral: tuple[object, ...] | None = None
    refused: bool = False

    def covers(self, value: object) -> bool:
        """Return whether a value changes nothing. 1 and true are different values."""
        if self.neutral is None:
            return True
        return any(value == other and type(value) is type(other) for other in self.neutral)


class RecordedValues(dict[str, object]):
    """The contents of a JSON object, which records the keys that were looked up."""

    def __init__(self, values: Mapping[str, object]) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.read.add(str(key))
        return super().__contains__(key)

    def get(self, key: str, default: object = None) -> Any:
        self.read.add(key)
        return super().get(key, default)


class HFConfig:
    """The contents of a config.json, read by methods that check the values.

    A key that is missing or null has the default of the method, if there is one; `nulls` are the
    keys that are null. Errors are DataError and name key and value. `check_all_read` deals with the
    other keys.
    """

    def __init__(self, values: Mapping[str, object], where: str) -> None:
        given = {key: value for key, value in values.items() if value is not None}
        self.values = RecordedValues(given)
        self.nulls = frozenset(values.keys() - given.keys())
        self.where = where

    @classmethod
    def load(cls, path: Path, model_type: str | None = None) -> HFConfig:
        """Read a file. model_type: the value of that key if the file does not have it."""
        values = read_json(path)
        if not isinstance(values, dict):
            raise DataError("must be a JSON object (names and values)", str(path))
        if model_type is not None and values.get("model_type") is None:
            values["model_type"] = model_type
        return cls(values, str(path))

    def whole(self, key: str, default: int | None = None, below: int = LARGEST) -> int:
        """Return a whole number above 0 and below `below`."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < below:
            raise self.refusal(key, value, f"a whole number above 0 and below {below:,}")
        return value

    def sides(self, key: str, default: int) -> tuple[int, int]:
        """Return height and width: two whole numbers above 0, or one for both."""
        value = self._get(key, default)
        pair = value if isinstance(value, list) else [value, value]
        valid = len(pair) == 2 and all(type(side) is int and 0 < side < LARGEST for side in pair)
        if not valid:
            expected = f"a whole number above 0 and below {LARGEST:,}, or two of them"
            raise self.refusal(key, value, expected)
        return pair[0], pair[1]

    def number(self, key: str, default: float, low: float = 0.0, high: float = math.inf) -> float:
        """Return a number that is at least `low` and below `high`."""
        value = self._get(key, default)
        numeric = isinstance(value, int | float) and not isinstance(value, bool)
        if not numeric or not low <= value < high:
            raise self.refusal(key, value, f"a number that is at least {low:g} and below {high:g}")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise self.refusal(key, value, "true or false")
        return value

    def choice(self, key: str, meanings: Mapping[str, T], default: str) -> T:
        """Return our name for a value. meanings: the allowed values -> our names."""
        value = self._get(key, default)
        if not isinstance(value, str) or value not in meanings:
            raise self.refusal(key, value, " or ".join(meanings))
        return meanings[value]

    def padding(self, limit: str, below: int) -> int:
        """Return the id of the padding token, whose default is 1. limit: the key of `below`."""
        pad = self.values.get("pad_token_id", 1)
        if type(pad) is not int or not 0 <= pad < below:
            raise self.refusal("pad_token_id", pad, f"an id below {limit}={below}")
        return pad

    def labels(self) -> tuple[str, ...]:
        """Return the class names in order: `id2label`; if it is missing, LABEL_0, LABEL_1, ... for
        `num_labels` classes (default 2)."""
        names = self.values.get("id2label")
        if names is None:
            count = self.whole("num_labels", 2, below=LABEL_LIMIT)
            return tuple(f"LABEL_{i}" for i in range(count))
        valid = isinstance(names, dict) and 0 < len(names) < LABEL_LIMIT
        labels = [names.get(str(i)) for i in range(len(names))] if valid else [None]
        if not all(isinstance(label, str) for label in labels) or len({*labels}) < len(labels):
            raise self.refusal(
                "id2label",
                names,
                "an object with the keys 0, 1, ... and a different name for each class",
            )
        return tuple(map(str, labels))

    def must_be(self, key: str, expected: object) -> None:
        """Raise DataError for an unsupported value: the key must be missing or have this value."""
        if self.values.get(key, expected) != expected:
            raise self.refusal(
                key, self.values[key], f"{expected!r}; other values are not supported"
            )

    def check_all_read(self, irrelevant: Mapping[str, Ignored]) -> None:
        """Warn of every key that no method has read, unless its value changes nothing.

        irrelevant: the keys that need not be read. A HeadwayWarning names the others with their
        values; a key that `Ignored.refused` marks raises DataError.
        """
        for key in self.values.keys() - self.values.read:
            value, rule = dict.__getitem__(self.values, key), irrelevant.get(key)
            if rule is not None and rule.covers(value):
                continue
            if rule is not None and rule.refused:
                raise self.refusal(key, value, f"left out: {rule.reason}")
            why = "Headway does not know this key" if rule is None else rule.reason
            text = f"{self.where}: {key}={shortened(value)} is ignored: {why}"
            warnings.warn(text, HeadwayWarning, stacklevel=3)

    def refusal(self, key: str, value: object, expected: str) -> DataError:
        """Return the error for the value of a key. expected: the allowed values, in words."""
        return DataError(f"{key}={shortened(value)}: must be {expected}", self.where)

    def _get(self, key: str, default: object) -> Any:
        if default is None and key not in self.values:
            raise DataError(f"the key {key} is missing", self.where)
        return self.values.get(key, default)


def shortened(value: object) -> str:
    """Return a value for a message, in at most 80 characters."""
    return repr(value)[:80]


def hf_labels(labels: Sequence[str]) -> dict[str, object]:
    """Return the keys of config.json for class names, the inverse of `HFConfig.labels`."""
    return {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }
