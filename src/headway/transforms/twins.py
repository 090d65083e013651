"""The plain class of a module: the one whose file has the equation that a twin computes."""

from collections.abc import Mapping
from typing import Any

from torch import nn

_PLAIN: dict[type[nn.Module], type[nn.Module]] = {}


def add_twins(twins: Mapping[type[nn.Module], type[nn.Module]]) -> None:
    """Record twins by their plain class. Every module that defines a twin is imported before a
    model can have it, so none is missing when it is looked up."""
    _PLAIN.update({twin: plain for plain, twin in twins.items()})


def plain_class(module: nn.Module) -> type[Any]:
    """Return the class whose file has the equation that the module computes."""
    return _PLAIN.get(type(module), type(module))
