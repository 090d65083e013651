"""Replaces parts of a finished model by parts with the learner's function."""

from collections.abc import Callable

from torch import nn

from headway.attention import Kernel
from headway.exercises.contract import Function
from headway.models import Translator


def replace_kernels(model: Translator, kernel: Callable[[Kernel], Kernel]) -> Translator:
    """Replace the kernel of every attention layer, in place."""
    for name, module in list(model.named_modules()):
        if isinstance(module, Kernel):
            model.set_submodule(name, kernel(module))
    return model


def swapped(
    old: type[nn.Module], new: type[nn.Module], attribute: str
) -> Callable[[Translator, Function], Translator]:
    """Return a `Plug.transform` that makes each module of class `old` one of its subclass `new`, in
    place; parameters are kept.

    attribute: the attribute of the new class that is the learner's function.
    """

    def transform(model: Translator, learner: Function) -> Translator:
        for module in model.modules():
            if type(module) is old:
                module.__class__ = new
                setattr(module, attribute, learner)
        return model

    return transform
