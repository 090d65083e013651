"""Replaces parts of a finished model by parts with the learner's function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from torch import nn

from headway.attention import Kernel

M = TypeVar("M", bound=nn.Module)


def replace_kernels(model: M, kernel: Callable[[Kernel], Kernel]) -> M:
    """Replace the kernel of every attention layer, in place."""
    for name, module in list(model.named_modules()):
        if isinstance(module, Kernel):
            model.set_submodule(name, kernel(module))
    return model


def swap_class(model: M, old: type[nn.Module], new: type[nn.Module], **values: object) -> M:
    """Make each module of class `old` one of its subclass `new`, in place; parameters are kept.

    values: attributes of the new class.
    """
    for module in model.modules():
        if type(module) is old:
            module.__class__ = new
            for name, value in values.items():
                setattr(module, name, value)
    return model
