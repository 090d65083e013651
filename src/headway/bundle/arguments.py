"""The arguments of Python callers, checked against the annotations of the function.

A wrong type is found where the caller made it: deep inside a search or a tokenizer it would be an
error of a library, or a silently different result.
"""

import functools
import inspect
import os
import typing
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

from headway.base.errors import UsageError
from headway.base.settings import Configuration, override

F = TypeVar("F", bound=Callable[..., object])
S = TypeVar("S", bound=Configuration)

SHOWN = 60  # characters of a wrong value that an error shows
_WORDS: dict[Any, tuple[str, str]] = {
    Any: ("any value", "values"),
    str: ("text", "texts"),
    bool: ("True or False", "True or False"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    NoneType: ("None", "None"),
    Path: ("a path", "paths"),
    os.PathLike: ("a path", "paths"),
    type: ("a class", "classes"),
}
"""Type -> the words for one value of it, and for several."""


def checked(function: F) -> F:
    """Raise UsageError for arguments of the wrong type, by their names in Python.

    Checked are text, numbers, paths, classes, literals, lists and unions of these; other
    annotations allow any value. A list may be any sequence with a length, such as an array.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*arguments: object, **options: object) -> Any:
        bound = signature.bind(*arguments, **options)
        for name, hint in _hints(function).items():
            if name in bound.arguments:
                _check(name, bound.arguments[name], hint, f"{function.__qualname__}()")
        return function(*arguments, **options)

    return cast(F, call)


def changed(settings: S, changes: Mapping[str, object], where: str) -> S:
    """Return settings with the changes of a caller in Python; None leaves a setting as it is.

    Raises UsageError for an unknown name, and for a value of a wrong type or beyond its limits.
    """
    hints, chosen = typing.get_type_hints(type(settings)), {}
    for name, value in changes.items():
        if value is not None:
            _check(name, value, hints.get(name, Any), where)
            chosen[name] = value
    return override(settings, chosen, where)


@functools.cache
def _hints(function: Callable[..., object]) -> dict[str, object]:
    """The annotations of the arguments, without those of `*arguments` and `**options`."""
    hints = typing.get_type_hints(inspect.unwrap(function))
    single = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return {p.name: hints[p.name] for p in parameters if p.kind not in single and p.name in hints}


def _check(name: str, value: Any, hint: object, where: str) -> None:
    """UsageError if the value does not have the type; it names the item of a list that has not."""
    if _fits(value, hint):
        return
    item = _item_type(hint)
    if item is not None and isinstance(value, str | bytes):
        kind = name if item is Any else _words(item)[1]  # images must be a list of images
        raise UsageError(f"{name} must be a list of {kind}, not one string", where, f"[{name}]")
    if item is not None and _is_list(value):
        wrong = next(i for i, element in enumerate(value) if not _fits(element, item))
        _check(f"{name}[{wrong}]", value[wrong], item, where)
    shown = repr(value)
    shown = shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."
    raise UsageError(f"{name}={shown}: must be {_words(hint)[0]}", where)


def _item_type(hint: object) -> Any:
    """The type of the items if a type, or one of a union, is a list; None if there is none."""
    for part in get_args(hint) if _is_union(hint) else (hint,):
        if get_origin(part) in (Sequence, list):
            return get_args(part)[0]
    return None


def _fits(value: Any, hint: Any) -> bool:
    origin, parts = get_origin(hint), get_args(hint)
    if _is_union(hint):
        return any(_fits(value, part) for part in parts)
    if origin is Literal:
        return isinstance(value, str | int | NoneType) and value in parts
    if origin in (Sequence, list):
        return _is_list(value) and all(_fits(item, parts[0]) for item in value)
    if origin is tuple:
        return _is_list(value) and (
            all(_fits(item, parts[0]) for item in value)
            if parts[-1] is Ellipsis
            else len(value) == len(parts) and all(map(_fits, value, parts))
        )
    if hint in (int, float):
        return isinstance(value, Integral if hint is int else Real) and not isinstance(value, bool)
    if hint is None or hint is NoneType:
        return value is None
    if hint in (Path, os.PathLike) or origin is os.PathLike:
        return isinstance(value, os.PathLike)
    if origin in (Callable, Mapping, type) or hint in (str, bool):
        return isinstance(value, origin or hint)
    return not _is_class(hint) or isinstance(value, hint)


def _is_union(hint: object) -> bool:
    return get_origin(hint) in (typing.Union, UnionType)


def _is_class(hint: object) -> bool:
    """Whether a type is a class of Headway, of which a value must be an instance."""
    is_own = isinstance(hint, type) and hint.__module__.startswith("headway.")
    return is_own and not getattr(hint, "_is_protocol", False)


def _is_list(value: object) -> bool:
    has_items = hasattr(value, "__len__") and hasattr(value, "__getitem__")
    return has_items and not isinstance(value, str | bytes | Mapping) and hasattr(value, "__iter__")


def _words(hint: object) -> tuple[str, str]:
    """The words for one value of a type, and for several."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint in _WORDS or origin in _WORDS:
        return _WORDS[hint if hint in _WORDS else origin]
    if _is_union(hint):
        one, several = (dict.fromkeys(_words(part)[i] for part in parts) for i in (0, 1))
        return " or ".join(one), " or ".join(several)
    if origin is Literal:
        named = " or ".join(map(repr, parts))
        return named, named
    if origin in (Sequence, list):
        return f"a list of {_words(parts[0])[1]}", f"lists of {_words(parts[0])[1]}"
    if origin is tuple:
        return f"a pair ({', '.join(_words(part)[0] for part in parts)})", "pairs of texts"
    if origin is Mapping:
        return "a dictionary", "dictionaries"
    if origin is Callable:
        return "a function", "functions"
    name = getattr(hint, "__name__", str(hint))
    return f"an object of {name}", f"objects of {name}"


__all__ = ["changed", "checked"]
