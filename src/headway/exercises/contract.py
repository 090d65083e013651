"""The contract of an exercise: what a learner writes, how it is checked, and where it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.abc import InspectLoader
from types import ModuleType
from typing import TYPE_CHECKING, Any

from headway.exercises.catalogue import CATALOGUE

if TYPE_CHECKING:
    from headway.models import Translator

Function = Callable[..., Any]
"""The function of an exercise: the learner's, the reference, or a mistaken variant."""

SHAPE, GRADIENTS, RANDOM = "shape", "gradients", "random inputs"
"""The names of the checks that are no cases."""
STEPS, SECONDS = 400, 60.0
"""Number of steps of the training of the tiny translator, and the seconds after which it stops."""
HOLE = "raise NotImplemented" + "Error"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One call that is checked: its name, its arguments, and what must be returned.

    rung: name of the check. why: the computation by hand, or the property that is checked.
    expected: the result, calculated by hand; None if the reference calculates it.
    """

    rung: str
    arguments: tuple[object, ...]
    why: str
    expected: Any = None


@dataclass(frozen=True)
class Mistake:
    """A known mistake, and the sentence for a learner who made it.

    edits: old text -> new text, which make the mistake in the body of the solution. A function that
    returns what this variant returns, in every call, has the mistake.
    """

    sentence: str
    edits: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Plug:
    """How the learner's function becomes a part of the tiny translator.

    part: the part that it replaces, for the message. config: settings of the translator.
    register: adds the function to a registry while the model is made. transform: replaces parts of
    the finished model. loss: loss of logits and targets. pairs: decoder inputs and outputs of a
    batch. decode: tokens of a source sentence. show: text to print after training.
    """

    part: str
    config: Mapping[str, object] = field(default_factory=dict)
    register: Callable[[Function], AbstractContextManager[None]] | None = None
    transform: Callable[[Translator, Function], Translator] | None = None
    loss: Callable[[Function], Function] | None = None
    pairs: Callable[[Function], Function] | None = None
    decode: Callable[[Any, Function, list[int]], list[int]] | None = None
    show: Callable[[Any, Function, list[str]], str] | None = None


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """An exercise: one function that a learner writes.

    name: name of the exercise in the catalogue, and of its file. signature: the `def` line. body:
    the body of the solution. reference: the function of Headway; None: the solution. cases: calls
    with names, the worked example first. random: arguments by seed, for comparisons with the
    reference. gradients: whether gradients are compared too. mistakes: the known ones.
    """

    name: str
    equation: str
    shapes: str
    signature: str
    body: str
    hints: tuple[str, ...]
    cases: tuple[Case, ...]
    random: Callable[[int], tuple[object, ...]]
    mistakes: tuple[Mistake, ...]
    reference: Function | None = None
    gradients: bool = False
    imports: str = "import torch\nfrom torch import Tensor"
    plug: Plug | None = None

    @property
    def function(self) -> str:
        """The name of the function that the learner writes."""
        return self.signature.removeprefix("def ").split("(")[0]

    @property
    def title(self) -> str:
        """The title in the catalogue."""
        return CATALOGUE[self.name].title

    @property
    def tour(self) -> str:
        """The page and the heading of the tour that explain the function."""
        return CATALOGUE[self.name].tour

    @property
    def rungs(self) -> list[str]:
        """The names of the checks, in order."""
        gradients = [GRADIENTS] if self.gradients else []
        return [SHAPE, *(case.rung for case in self.cases), *gradients, RANDOM]

    @property
    def start(self) -> str:
        """The text of the learner's file, with a hole."""
        return self._text(f'    {HOLE}("replace this line")')

    @property
    def solution(self) -> str:
        """The text of a file that passes all checks."""
        return self._text(_indented(self.body))

    @cached_property
    def correct(self) -> Function:
        """The function that the learner's is compared with."""
        return self.reference or function_of(self.solution, self.function)

    def variant(self, mistake: Mistake) -> Function:
        """Return the function of the solution with a mistake."""
        body = self.body
        for old, new in mistake.edits.items():
            assert old in body, f"{self.name}: {old!r}"
            body = body.replace(old, new)
        return function_of(self._text(_indented(body)), self.function)

    def _text(self, body: str) -> str:
        head = (
            f"{self.title}.\n\n"
            f"{self.equation.strip()}\n\nShapes and types:\n{_indented(self.shapes)}\n\n"
            f"Tour:   {self.tour}\n"
            f"Check:  headway exercise check {self.name}\n"
            f"Hint:   headway exercise hint {self.name}\n"
        )
        imports = f"{self.imports}\n\n\n" if self.imports else "\n"
        return f'"""{head}"""\n\n{imports}{self.signature}\n{body}\n'


class _Source(InspectLoader):
    """Imports a module from its text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def get_source(self, fullname: str) -> str:
        return self.text


def function_of(text: str, name: str) -> Function:
    """Return the function of that name in the text of a module."""
    module = ModuleType(name)
    _Source(text).exec_module(module)
    function: Function = getattr(module, name)
    return function


def _indented(text: str) -> str:
    lines = text.strip("\n").split("\n")
    return "\n".join(f"    {line}" if line else "" for line in lines)
