"""Shapes and types of `headway`'s functions, checked by jaxtyping and beartype while tests run.

jaxtyping's own hook checks every call, which is four fifths of the time of a search in a tiny
model. Here a call is checked when it is the first of its kind in a file of tests: the same
function, and arguments of the same types and shapes. After `_COMPARED` calls in one test a
function is not checked any more.
"""

import functools
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from importlib.util import find_spec
from types import FunctionType
from typing import Any, runtime_checkable

import jaxtyping
import numpy as np
from torch import Tensor
from torch.compiler import is_exporting

from headway.base.settings import Configuration

_check_every_call = jaxtyping.jaxtyped
_checked: set[tuple[Any, ...]] = set()
"""The calls of this file that need no check any more: the function's code, and `_kind`s."""
_test = 0
"""Counts the tests."""
_COMPARED = 10
"""Calls of a function in one test whose kinds are compared with earlier ones: those of a search or
a training repeat themselves, and the comparison takes a fifth of their time."""
_PASSED = 300
"""Calls without a comparison after which a method takes the place of its check, until the next
file: the check of each call of a search is a tenth of the time of all tests."""
_replaced: list[tuple[type, str, FunctionType, FunctionType]] = []
"""Methods that are in the place of their check: the class, the name, the check, the method."""
_KERNELS = "headway.transforms.kernels."
"""Of kernels, functions without types, Triton reads the source and the names in their module."""
_PLAIN = {int, float, str, bool, type(None), dict}


def install() -> None:
    """Check the functions of `headway`, which is not imported yet.

    Without beartype nothing is checked: the tests of a GPU run where nothing can be installed.
    """
    if find_spec("beartype") is None:
        return
    runtime_checkable(Configuration)  # its module is imported before the hook
    jaxtyping.install_import_hook("headway", "beartype.beartype")
    # The hook puts @jaxtyping.jaxtyped(typechecker=...) before every function and class.
    jaxtyping.jaxtyped = _first_calls


def start_file() -> None:
    """Check every kind of call anew, so that no file of tests depends on those before it."""
    _checked.clear()
    for owner, name, check, method in _replaced:
        if vars(owner).get(name) is method:  # else a test has replaced it
            setattr(owner, name, check)
    _replaced.clear()


def start_test() -> None:
    """Compare the first calls of each function anew."""
    global _test
    _test += 1


def _first_calls(*, typechecker: Any) -> Callable[[Any], Any]:
    def decorate(decorated: Any) -> Any:
        if isinstance(decorated, FunctionType):
            is_typed = "return" in decorated.__annotations__
            if decorated.__module__.startswith(_KERNELS) and not is_typed:
                return decorated
            return _of_function(decorated, typechecker)
        if isinstance(decorated, (classmethod, staticmethod)):
            return type(decorated)(decorate(decorated.__func__))
        if isinstance(decorated, property):
            parts = (decorated.fget, decorated.fset, decorated.fdel)
            return property(*(part and decorate(part) for part in parts))
        if getattr(decorated, "_is_protocol", False):
            return runtime_checkable(decorated)  # beartype checks arguments against it
        if is_dataclass(decorated) and "__init__" in vars(decorated):
            decorated.__init__ = _of_function(decorated.__init__, typechecker)
        return decorated

    return decorate


def _of_function(function: FunctionType, typechecker: Any) -> Callable[..., Any]:
    code = id(function.__code__)  # functions inside functions are made anew by every call
    check: Callable[..., Any] | None = None
    test = calls = passed = 0

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        nonlocal check, test, calls, passed
        if test != _test:
            test, calls = _test, 0
        elif calls == _COMPARED:
            passed += 1
            if passed == _PASSED:
                passed = 0
                _replace(call, function)
            return function(*arguments, **named)
        if is_exporting():  # sizes are symbols, which have no hash
            return function(*arguments, **named)
        calls += 1
        kinds = (code, *map(_kind, arguments), *named, *map(_kind, named.values()))
        if kinds in _checked:
            return function(*arguments, **named)
        if check is None:  # making it takes a millisecond, and many functions are never called
            check = _check_every_call(function, typechecker=typechecker)
        result = check(*arguments, **named)
        _checked.add(kinds)
        return result

    return call


def _replace(check: Any, function: FunctionType) -> None:
    """Put a method of a class in the place of its check."""
    owner: Any = sys.modules.get(function.__module__)
    *path, name = function.__qualname__.split(".")
    for part in path:
        owner = getattr(owner, part, None)
    if isinstance(owner, type) and vars(owner).get(name) is check:
        setattr(owner, name, function)
        _replaced.append((owner, name, check, function))


def _kind(value: Any) -> Any:
    """The type, for an array its shape too, and for a sequence the kind of its first item."""
    kind = type(value)
    if kind in _PLAIN:
        return kind
    if isinstance(value, (Tensor, np.ndarray)):
        return value.shape, value.dtype
    return (kind, _kind(value[0])) if kind in (list, tuple) and value else kind
