"""Configuration: frozen dataclasses with documented fields and dotted names.

Flags (`--optimizer.lr 3e-4`), YAML files and Python use the same names. A value that is text is
parsed by the type of its field.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeGuard, TypeVar, get_args, get_origin

from headway.base.errors import UsageError, closest, did_you_mean


class Configuration(Protocol):
    """A dataclass whose fields are settings, or sections that are such dataclasses."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


T = TypeVar("T")
C = TypeVar("C", bound=Configuration)
COMMAND_LINE = "the command line"
_types_by_name = functools.cache(typing.get_type_hints)
_KINDS: dict[object, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
}
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_LIMITS: dict[str, tuple[str, Callable[[float, float], bool]]] = {
    "gt": ("more than", lambda value, limit: value > limit),
    "ge": ("at least", lambda value, limit: value >= limit),
    "lt": ("less than", lambda value, limit: value < limit),
    "le": ("at most", lambda value, limit: value <= limit),
}


class Most(int):
    """An upper limit with its reason."""

    reason: str

    def __new__(cls, value: int, reason: str) -> Most:
        self = super().__new__(cls, value)
        self.reason = reason
        return self


# Far above the largest models of today, so that a typo raises an error and does not fill memory.
MOST = Most(10**9, "no setting needs more")
WIDTH = Most(2**17, "one matrix of that width squared takes 64 GB")
LAYERS = Most(1024, "the deepest models have about a hundred")
HEADS = Most(4096, "the largest models have about a hundred")
VOCABULARY = Most(2**21, "the largest tokenizers have about 260,000 tokens")
LENGTH = Most(2**20, "about the longest context of any model")
BATCH = Most(2**24, "such a batch does not fit in memory")
SAMPLES = Most(256, "samples are compared in pairs, and more rarely change the choice")
BEAMS = Most(
    1024, "each beam is one more sequence to decode; more than 100 rarely change the output"
)
PIXELS = Most(2**14, "images have at most 16,384 pixels per side")
THREADS = Most(1024, "more threads than processors slow each other down")
SEED = Most(2**63 - 1, "random seeds have 63 bits")
PENALTY = Most(10, "beyond that, the longest output always ranks first")
COPIES = Most(10_000, "time and memory grow in proportion")


def setting(
    default: object, help: str, *, names: Collection[str] | None = None, **limits: float | int
) -> Any:
    """A documented field: `lr: float = setting(7e-4, "Peak learning rate.", gt=0)`.

    limits: gt, ge, lt, le, checked for every value from outside. A number without an upper limit is
    at most `MOST`, one without a lower limit at least -MOST. names: the allowed values of a text,
    which may be a registry that other packages extend.
    """
    if unknown := limits.keys() - _LIMITS.keys():
        raise ValueError(f"unknown limits {sorted(unknown)}: must be of {', '.join(_LIMITS)}")
    return dataclasses.field(
        default=default, metadata={"help": help, "limits": limits, "names": names}
    )


def count(default: object, help: str, most: int, *, least: int = 1) -> Any:
    """A documented number of things, from `least` to `most`, often a `Most`."""
    return setting(default, help, ge=least, le=most)


def fraction(default: float, help: str) -> Any:
    """A documented number from 0 to less than 1, such as a probability."""
    return setting(default, help, ge=0, lt=1)


def with_default(config_class: type[Configuration], name: str, default: object) -> Any:
    """The setting of that name of a base class, with another default."""
    metadata = config_class.__dataclass_fields__[name].metadata
    return dataclasses.field(default=default, metadata=metadata)


def required(help: str, *, may_be_file: bool = False) -> Any:
    """A documented field without a default, for the input of a model.

    may_be_file: whether the value may also be the path of a file that contains the text.
    """
    metadata = {"help": help, "limits": {}, "may_be_file": may_be_file}
    return dataclasses.field(metadata=metadata)


def section(config_class: type[T], *, after: str | None = None) -> T:
    """A nested configuration. after: the inherited field after which files and help list it."""
    return dataclasses.field(default_factory=config_class, metadata={"after": after})


def sizes_inside(
    name: str, sizes: Mapping[str, Mapping[str, object]]
) -> dict[str, dict[str, object]]:
    """Return the named sizes of a configuration for one that has it as the section `name`."""
    return {size: flatten(values, f"{name}.") for size, values in sizes.items()}


def is_section(value: object) -> TypeGuard[Configuration]:
    """Whether the value of a field is a nested configuration, not a setting."""
    return dataclasses.is_dataclass(value)


def _in_order(config: Configuration) -> list[dataclasses.Field[object]]:
    """The fields of a configuration in the order of files and help (see `section`)."""
    ordered: list[dataclasses.Field[object]] = []
    for item in dataclasses.fields(config):
        if (after := item.metadata.get("after")) is None:
            ordered.append(item)
        else:
            names = [field.name for field in ordered]
            ordered.insert(names.index(after) + 1, item)
    return ordered


@dataclass(frozen=True)
class Field:
    """One setting of a configuration; `key` is its dotted name."""

    key: str
    type: object
    default: object
    help: str
    limits: Mapping[str, float | int]
    names: Collection[str] | None = None

    @property
    def expects(self) -> str:
        """The allowed values, in words."""
        if self.names is not None:
            return "one of " + ", ".join(self.names)
        limits = {name: limit for name, limit in self.limits.items() if abs(limit) != MOST}
        bounds = [f"{_LIMITS[name][0]} {_shown(limit)}" for name, limit in limits.items()]
        kind = _type_name(self.type, " and ".join(bounds))
        return f"{kind}, or none" if type(None) in get_args(self.type) else kind


def fields_of(config: Configuration) -> dict[str, Field]:
    """Every setting of a configuration by dotted key, with its value as the default."""
    return {field.key: field for field in _fields(config, "")}


def _fields(config: Configuration, prefix: str) -> Iterator[Field]:
    """Every setting; `prefix` is the section that the configuration is in, and a dot."""
    types_by_name = _types_by_name(config.__class__)
    for item in _in_order(config):
        key, value = f"{prefix}{item.name}", getattr(config, item.name)
        if is_section(value):
            yield from _fields(value, f"{key}.")
        else:
            yield _field(key, item, types_by_name[item.name], value)


def declared(config_class: type[Configuration]) -> dict[str, Field]:
    """Every setting of a class without sections, by name; the default may be `MISSING`."""
    types_by_name = typing.get_type_hints(config_class)
    items = dataclasses.fields(config_class)
    return {
        item.name: _field(item.name, item, types_by_name[item.name], item.default) for item in items
    }


def _field(key: str, item: dataclasses.Field[object], kind: object, default: object) -> Field:
    meta = item.metadata
    limits = _with_defaults(kind, meta.get("limits", {}))
    return Field(key, kind, default, meta.get("help", ""), limits, meta.get("names"))


def _with_defaults(kind: object, limits: Mapping[str, float | int]) -> Mapping[str, float | int]:
    """The limits of a field; a number always has a lower and an upper one."""
    if not {int, float} & {kind, *get_args(kind)} or get_origin(kind) is tuple:
        return limits
    full = dict(limits)
    if not {"gt", "ge"} & full.keys():
        full["ge"] = -MOST
    if not {"lt", "le"} & full.keys():
        full["le"] = MOST
    return full


def _shown(limit: float | int) -> str:
    """A limit as text: 1,000,000 or 0.5."""
    return f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"


def override(config: C, changes: Mapping[str, object], where: str) -> C:
    """A copy of a configuration with changed settings, by dotted key.

    where: the source of the changes, for error messages. UsageError for an unknown key or a value
    that is not allowed.
    """
    leaves = fields_of(config)
    tree: dict[str, Any] = {}
    for name, value in changes.items():
        key = name.replace("-", "_")
        if key not in leaves:
            meant, dashes = _meant(key, leaves), "--" if where == COMMAND_LINE else ""
            raise UsageError(
                f"unknown option {dashes}{name}" + _suggestion(meant, dashes),
                where,
                _explained(config, meant),
            )
        node = tree
        *parents, last = key.split(".")
        for parent in parents:
            node = node.setdefault(parent, {})
        if last in node:
            raise UsageError(f"{key} is set twice", where, "leave out one of them")
        node[last] = checked(leaves[key], value, where)
    return _rebuild(config, tree, where)


def _meant(key: str, leaves: Mapping[str, Field]) -> str | None:
    """The key that an unknown key probably means: the most similar key."""
    last = key.split(".")[-1]
    same = [leaf for leaf in leaves if leaf.split(".")[-1] == last]
    if len(same) == 1:
        return same[0]
    return closest(key, same) or closest(key, leaves) or _by_last_part(key, leaves)


def _suggestion(meant: str | None, dashes: str = "") -> str:
    """The end of an error message on an unknown key."""
    return "" if meant is None else f". Did you mean {dashes}{meant}?"


def _explained(config: Configuration, meant: str | None) -> str:
    """The command that explains the key that was meant, or what lists all settings."""
    if recipe := getattr(config, "recipe", ""):
        key = f" {meant}" if meant else ""
        command = f"headway config explain{key} --recipe {recipe}"
        return command if meant else f"{command} lists all settings"
    if meant:
        return f"headway config explain {meant}"
    names = ", ".join(fields_of(config))
    return f"the settings are {names}" if names else "there are no settings"


def _by_last_part(key: str, leaves: Mapping[str, Field]) -> str | None:
    """The key with the most similar last part: `lr` probably means `optimizer.lr`."""
    last = key.split(".")[-1]
    parts = {leaf.split(".")[-1]: leaf for leaf in leaves}
    meant = closest(last, parts)
    return parts[meant] if meant else None


def _rebuild(config: C, tree: Mapping[str, object], where: str) -> C:
    values = {
        name: _rebuild(getattr(config, name), value, where) if isinstance(value, dict) else value
        for name, value in tree.items()
    }
    try:
        return dataclasses.replace(config, **values)
    except UsageError:
        raise
    except ValueError as error:
        raise UsageError(str(error), where) from error


def to_dict(config: Configuration) -> dict[str, object]:
    """A configuration as nested dictionaries of plain values, for YAML and JSON."""
    return {
        field.name: to_dict(value) if is_section(value) else plain(value)
        for field in _in_order(config)
        for value in [getattr(config, field.name)]
    }


def flat(config: Configuration) -> dict[str, object]:
    """A configuration as a dictionary from dotted keys to values."""
    values: dict[str, object] = {}
    for item in _in_order(config):
        value = getattr(config, item.name)
        if is_section(value):
            values |= {f"{item.name}.{key}": inner for key, inner in flat(value).items()}
        else:
            values[item.name] = value
    return values


def flatten(mapping: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """A nested mapping as a dictionary from dotted keys to values; keeps empty mappings."""
    result: dict[str, object] = {}
    for key, value in mapping.items():
        if isinstance(value, Mapping) and value:
            result |= flatten(value, f"{prefix}{key}.")
        else:
            result[f"{prefix}{key}"] = value
    return result


def differences(a: Configuration, b: Configuration) -> list[tuple[str, object, object]]:
    """The settings in which two configurations of one class differ: (key, value in a, in b)."""
    pairs = zip(flat(a).items(), flat(b).values(), strict=True)
    return [(key, old, new) for (key, old), new in pairs if old != new]


def explain(config: Configuration, key: str) -> str:
    """Name, allowed values, default and help of one setting."""
    leaves = fields_of(config)
    name = key.replace("-", "_").lstrip("_")
    if name not in leaves:
        raise UsageError(
            f"unknown setting {key}" + _suggestion(_meant(name, leaves)),
            hint=_explained(config, None),
        )
    field = leaves[name]
    return f"{name}: {field.expects}, default {plain(field.default)}\n  {field.help}"


def checked(field: Field, value: object, where: str) -> object:
    """The value, parsed if it is text. UsageError for a wrong type or a value beyond the limits."""
    try:
        parsed = _parse(field.type, value)
        is_known = field.names is None or parsed in field.names
    except UsageError as error:  # a name whose package cannot be used
        raise UsageError(f"{field.key}={value}: {error.what}", error.where, error.hint) from error
    except (ValueError, TypeError, OverflowError):
        is_known = False
    if not is_known:
        choices = field.names or _choices(field.type)
        meant = did_you_mean(str(value).lower().replace("_", "-"), choices)
        raise UsageError(f"{field.key}={value}: must be {field.expects}{meant}", where)
    _check_limits(field, parsed, value, where)
    return parsed


def _choices(kind: object) -> list[str]:
    """The texts that a Literal allows, also as part of a union; none for other types."""
    return [t for part in (kind, *get_args(kind)) for t in get_args(part) if isinstance(t, str)]


def _check_limits(field: Field, parsed: object, value: object, where: str) -> None:
    """UsageError if `parsed` is beyond the limits. value: as written, for the message."""
    for name, limit in field.limits.items():
        if not isinstance(parsed, int | float) or _LIMITS[name][1](parsed, limit):
            continue
        expects = field.expects
        if abs(limit) == MOST:
            expects = f"{_LIMITS[name][0]} {_shown(limit)}"
        reason = f" ({limit.reason})" if isinstance(limit, Most) else ""
        raise UsageError(f"{field.key}={value}: must be {expects}{reason}", where)


def check_limits(config: Configuration, where: str) -> None:
    """UsageError if a value of a configuration is beyond its limits.

    For configurations that were made field by field from the file of another program.
    """
    for field in fields_of(config).values():
        _check_limits(field, field.default, field.default, where)


def _parse(kind: object, value: object) -> object:
    if get_origin(kind) in (typing.Union, types.UnionType):
        if value is None or (isinstance(value, str) and value.lower() in {"none", "null"}):
            if type(None) in get_args(kind):
                return None
            raise ValueError
        return _parse_first([k for k in get_args(kind) if k is not type(None)], value)
    if get_origin(kind) is Literal:
        choices = {str(choice): choice for choice in get_args(kind)}
        if str(value) not in choices:
            raise ValueError
        return choices[str(value)]
    if get_origin(kind) is tuple:
        items = [item.strip() for item in value.split(",")] if isinstance(value, str) else value
        if not isinstance(items, list | tuple):
            raise ValueError
        return tuple(_parse(get_args(kind)[0], item) for item in items)
    return _parse_plain(kind, value)


def _parse_first(kinds: Sequence[object], value: object) -> object:
    """The value parsed by the first of the types that accepts it."""
    for kind in kinds:
        with suppress(ValueError, TypeError, OverflowError):
            return _parse(kind, value)
    raise ValueError


def _parse_plain(kind: object, value: Any) -> object:
    if kind is bool:
        if isinstance(value, bool):
            return value
        return _WORDS[value.lower()] if str(value).lower() in _WORDS else _fail()
    if isinstance(value, bool) or value is None:
        _fail()
    if kind is int:
        whole = isinstance(value, int | str) or float(value).is_integer()
        return int(value) if whole else _fail()
    if kind is float:
        number = float(value)
        return number if abs(number) < float("inf") else _fail()
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    if kind is str and isinstance(value, str | int):
        return str(value)
    return _fail()


def _fail() -> typing.NoReturn:
    raise ValueError


def plain(value: object) -> object:
    """A value as YAML and JSON represent it: tuples as lists, paths as text."""
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _type_name(kind: object, bounds: str = "") -> str:
    """Describe the values of a type; bounds: those of its numbers, in words."""
    if get_origin(kind) in (typing.Union, types.UnionType):
        names = [_type_name(k, bounds) for k in get_args(kind) if k is not type(None)]
        return (", or " if bounds else " or ").join(names)
    if get_origin(kind) is Literal:
        choices = ", ".join(str(choice) for choice in get_args(kind))
        return choices if len(get_args(kind)) == 1 else f"one of {choices}"
    if get_origin(kind) is tuple:
        return f"a list, each {_type_name(get_args(kind)[0], bounds)}"
    return f"{_KINDS.get(kind, 'a path')} {bounds if kind in (int, float) else ''}".rstrip()
