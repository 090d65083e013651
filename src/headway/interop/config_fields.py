"""config.json as a table: each key is read into a field of ours and written from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from headway.interop.hf_config import LARGEST, HFConfig
from headway.interop.weight_names import needs

NOTHING: Mapping[str, object] = MappingProxyType({})
Values = dict[str, Any]
"""Fields of a configuration of ours, or keys of config.json, with their values."""
Default = int | Callable[[Values], int] | None
"""The value of a missing key, perhaps computed from the fields before it; None: an error."""


@dataclass(frozen=True)
class Key:
    """A key of config.json and the field of ours with its value.

    theirs: "" for a field that is not written. ours: "" for a key that is not read. read: returns
    the field for the file and the fields before it. write: returns the key for our configuration.
    allowed: the values of the field that the file can express; empty: all.
    """

    theirs: str
    ours: str
    read: Callable[[HFConfig, Values], object]
    write: Callable[[Any], object]
    allowed: tuple[object, ...] = ()


def whole(
    theirs: str, ours: str, default: Default = None, *, below: int = LARGEST, source: str = ""
) -> Key:
    """A whole number. source: the property of ours that is written, if it is not the field."""

    def read(hf_config: HFConfig, fields: Values) -> int:
        value = default(fields) if callable(default) else default
        return hf_config.whole(theirs, value, below)

    return Key(theirs, ours, read, attrgetter(source or ours))


def number(theirs: str, ours: str, default: float, high: float = math.inf) -> Key:
    """A number from 0 to below `high`."""
    return Key(
        theirs, ours, lambda file, _: file.number(theirs, default, high=high), attrgetter(ours)
    )


def probability(theirs: str, ours: str, default: float) -> Key:
    """A number from 0 to below 1."""
    return number(theirs, ours, default, 1.0)


def flag(theirs: str, ours: str, default: bool) -> Key:
    """True or false."""
    return Key(theirs, ours, lambda file, _: file.flag(theirs, default), attrgetter(ours))


def choice(theirs: str, ours: str, meanings: Mapping[str, str], default: str) -> Key:
    """One of several names. meanings: theirs -> ours; of several with one meaning, the first is
    written."""
    names = {our_name: name for name, our_name in reversed([*meanings.items()])}
    return Key(
        theirs,
        ours,
        lambda file, _: file.choice(theirs, meanings, default),
        lambda config: names[getattr(config, ours)],
        tuple(names),
    )


def written(theirs: str, source: str) -> Key:
    """A key that repeats a property of ours for other programs and is not read."""
    return Key(theirs, "", lambda file, _: None, attrgetter(source))


def computed(ours: str, value: Callable[[Values], object]) -> Key:
    """A field of ours that follows from those before it and has no key."""
    return Key("", ours, lambda _, fields: value(fields), lambda config: None)


@dataclass(frozen=True, kw_only=True)
class Fields:
    """How the config.json of a family and our configuration correspond.

    fixed: the fields of ours that have one value in this family. expected: the keys that must be
    missing or have this value. constant: the keys that always are written with this value. check:
    raises DataError for a file, whose fields it gets, that has other unsupported values.
    """

    keys: tuple[Key, ...]
    fixed: Mapping[str, object] = field(default_factory=dict)
    expected: Mapping[str, object] = field(default_factory=dict)
    constant: Mapping[str, object] = field(default_factory=dict)
    check: Callable[[HFConfig, Values], None] = lambda hf_config, fields: None

    def read(self, hf_config: HFConfig) -> Values:
        """Return the fields of our configuration. Raises DataError for an unsupported value."""
        for key, value in self.expected.items():
            hf_config.must_be(key, value)
        fields: Values = dict(self.fixed)
        for item in self.keys:
            if item.ours:
                fields[item.ours] = item.read(hf_config, fields)
        self.check(hf_config, fields)
        return fields

    def write(self, config: object) -> Values:
        """Return the keys of config.json for our configuration: the inverse of `read`."""
        values = {item.theirs: item.write(config) for item in self.keys if item.theirs}
        return {**values, **self.constant}

    def lacks(self, config: object) -> list[str]:
        """Return the settings of our configuration that the family does not have."""
        required = {name: (value,) for name, value in self.fixed.items()}
        choices = {item.ours: item.allowed for item in self.keys if item.allowed}
        return needs(config, {**required, **choices})

    def without(self, *theirs: str) -> Fields:
        """Return the table without the keys of these names."""
        return replace(self, keys=tuple(key for key in self.keys if key.theirs not in theirs))

    def extended(
        self,
        *keys: Key,
        fixed: Mapping[str, object] = NOTHING,
        expected: Mapping[str, object] = NOTHING,
        constant: Mapping[str, object] = NOTHING,
        check: Callable[[HFConfig, Values], None] | None = None,
    ) -> Fields:
        """Return the table with further entries, which replace those of the same names."""
        names, read = {key.theirs for key in keys} - {""}, {key.ours for key in keys}
        kept = {name: value for name, value in self.fixed.items() if name not in read}
        return replace(
            self,
            keys=(*(key for key in self.keys if key.theirs not in names), *keys),
            fixed={**kept, **fixed},
            expected={**self.expected, **expected},
            constant={**self.constant, **constant},
            check=check or self.check,
        )
