"""The ladder of checks: type and shape, worked examples, properties, gradients, random inputs.

It stops at the first check that fails, and names the mistake if the solution computes what a known
mistaken variant computes.
"""

import copy
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from headway.base.shapes import Tensor
from headway.exercises.contract import GRADIENTS, RANDOM, SHAPE, Case, Exercise, Function

SEEDS = range(4)
"""Seeds of the random inputs."""

CUT = (
    "the result does not depend on this input for autograd: `.detach()`, `.item()`, "
    "`torch.tensor(...)` or `torch.no_grad()` cuts the graph"
)


@dataclass(frozen=True, kw_only=True)
class RungResult:
    """The result of one check. message: what failed; mistake: its likely cause, if it is known."""

    rung: str
    passed: bool
    message: str = ""
    mistake: str = ""

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class Raised:
    """The outcome of a call that raised an exception: its type, and its text for the learner."""

    kind: str
    text: str


def climb(exercise: Exercise, learner: Function, path: Path | None = None) -> Iterator[RungResult]:
    """Yield the result of each check, until one fails.

    path: the learner's file, whose lines are shown if the function raises an exception.
    """
    for rung in exercise.rungs:
        message = _fault(exercise, learner, rung, path)
        if message is None:
            yield RungResult(rung=rung, passed=True)
            continue
        mistake = likely_mistake(exercise, learner, rung) or (CUT if CUT in message else "")
        yield RungResult(
            rung=rung, passed=False, message=message, mistake="" if mistake in message else mistake
        )
        return


def likely_mistake(exercise: Exercise, learner: Function, rung: str = "") -> str:
    """The sentence of the variant that returns what the learner's function returns, or ''.

    All calls are compared; if no variant agrees in all (there may be two mistakes), the call of the
    failed check, where exactly one variant must agree.
    """
    calls = [case.arguments for case in exercise.cases]
    calls += [exercise.random(seed) for seed in SEEDS]
    sentences = _agreeing(exercise, learner, calls)
    if sentences:
        return sentences[0]
    failed = [case.arguments for case in exercise.cases if case.rung == rung]
    sentences = _agreeing(exercise, learner, failed)
    return sentences[0] if len(sentences) == 1 else ""


def _agreeing(exercise: Exercise, learner: Function, calls: list[tuple[object, ...]]) -> list[str]:
    """The sentences of the variants that return the same in all calls; one must return a value."""
    outcomes = [call(learner, arguments) for arguments in calls]
    if all(isinstance(outcome, Raised) for outcome in outcomes):
        return []
    sentences = []
    for mistake in exercise.mistakes:
        variant = exercise.variant(mistake)
        variants = (call(variant, arguments) for arguments in calls)
        if all(same(a, b) for a, b in zip(outcomes, variants, strict=True)):
            sentences.append(mistake.sentence)
    return sentences


def call(function: Function, arguments: tuple[object, ...], path: Path | None = None) -> Any:
    """Return the result for copies of the arguments, or `Raised`."""
    try:
        return function(*copy.deepcopy(arguments))
    except Exception as error:  # the learner's code may raise anything
        return Raised(type(error).__name__, learner_lines(error, path))


def learner_lines(error: BaseException, path: Path | None) -> str:
    """An exception with the lines of the learner's file only."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [
        f"  line {frame.lineno}: {frame.line}"
        for frame in frames
        if path is not None and Path(frame.filename) == path
    ]
    # a recursion repeats one line
    shown = [*lines[:3], f"  ... {len(lines) - 6} lines more", *lines[-3:]]
    lines = lines if len(lines) <= 6 else shown
    if isinstance(error, SyntaxError) and error.lineno:
        lines = [f"  line {error.lineno}: {(error.text or '').strip()}"]
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return "\n".join([f"{type(error).__name__}: {text}".rstrip(": "), *lines])


def same(a: object, b: object) -> bool:
    """Whether two results are equal: numbers and tensors within 1e-4, all else exactly."""
    if isinstance(a, Raised) or isinstance(b, Raised):
        return isinstance(a, Raised) and isinstance(b, Raised) and a.kind == b.kind
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if a.shape != b.shape or a.is_floating_point() != b.is_floating_point():
            return False
        a, b = a.detach().double(), b.detach().double()
        return torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float | int) and isinstance(b, float | int):
        return abs(a - b) <= 1e-5 + 1e-4 * abs(b) or (a != a and b != b)
    return type(a) is type(b) and bool(a == b)


def kind(value: object) -> str:
    """Type and shape of a result."""
    if isinstance(value, Tensor):
        numbers = "numbers" if value.is_floating_point() else str(value.dtype).split(".")[1]
        return f"a tensor of shape {tuple(value.shape)} ({numbers})"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(kind, value)) + ")"
    if isinstance(value, bool) or value is None:
        return repr(value)
    return {"int": "a number", "float": "a number"}.get(type(value).__name__, _type(value))


def _type(value: object) -> str:
    return f"a {type(value).__name__}"


def shown(value: object) -> str:
    """A result in a few lines, with four decimals."""
    if isinstance(value, Tensor):
        if value.numel() > 64:
            return f"{kind(value)}, which begins {shown(value.flatten()[:6])}"
        return str(_rounded(value.tolist()))
    return str(_rounded(value))


def _rounded(value: object) -> Any:
    if isinstance(value, Tensor):
        return _rounded(value.tolist())
    if isinstance(value, float):
        return round(value, 4) + 0.0
    if isinstance(value, list | tuple):
        return type(value)(map(_rounded, value))
    return value


def _fault(exercise: Exercise, learner: Function, rung: str, path: Path | None) -> str | None:
    """What is wrong with the solution in one check; None if it passes."""
    if rung == SHAPE:
        return _shape_fault(exercise, learner, path)
    if rung == GRADIENTS:
        return _gradient_fault(exercise, learner)
    if rung == RANDOM:
        for seed in SEEDS:
            case = Case(rung=RANDOM, arguments=exercise.random(seed), why="equal to the reference")
            if (fault := _value_fault(exercise, learner, case, path)) is not None:
                return fault
        return None
    (case,) = (case for case in exercise.cases if case.rung == rung)
    return _value_fault(exercise, learner, case, path)


def _shape_fault(exercise: Exercise, learner: Function, path: Path | None) -> str | None:
    arguments = exercise.random(0)
    expected, result = call(exercise.correct, arguments), call(learner, arguments, path)
    if isinstance(result, Raised):
        if result.kind == "NotImplemented" + "Error":
            return "the hole is still there: replace the line that raises the error by your code"
        return f"the function raised an exception\n{result.text}"
    if kind(result) != kind(expected):
        note = ": a `return` is missing" if result is None else ""
        return f"expected  {kind(expected)}\nfound     {kind(result)}{note}"
    return None


def _value_fault(
    exercise: Exercise, learner: Function, case: Case, path: Path | None
) -> str | None:
    expected = case.expected
    if expected is None:
        expected = call(exercise.correct, case.arguments)
    result = call(learner, case.arguments, path)
    if isinstance(result, Raised):
        return f"{case.why}\nthe function raised an exception\n{result.text}"
    if same(result, expected):
        return None
    if kind(result) != kind(expected):
        return f"{case.why}\nexpected  {kind(expected)}\nfound     {kind(result)}"
    return f"{case.why}\nexpected  {shown(expected)}\nfound     {shown(result)}"


def _gradient_fault(exercise: Exercise, learner: Function) -> str | None:
    arguments = exercise.random(1)
    expected = _gradients(exercise.correct, arguments)
    try:
        gradients = _gradients(learner, arguments)
    except RuntimeError as error:  # such as a change of an input in place
        return f"autograd cannot differentiate the function: {str(error).splitlines()[0]}"
    for number, (gradient, true) in enumerate(zip(gradients, expected, strict=True), 1):
        if gradient is None and true is not None:
            return f"no gradient for argument {number}: {CUT}"
        if gradient is not None and true is not None and not same(gradient, true):
            return (
                f"the gradient for argument {number}\n"
                f"expected  {shown(true.flatten()[:6])} ...\n"
                f"found     {shown(gradient.flatten()[:6])} ..."
            )
    return None


def _gradients(function: Function, arguments: tuple[object, ...]) -> list[Tensor | None]:
    """The gradient of a weighted sum of the result for each argument; None where there is none."""
    inputs = [
        a.clone().requires_grad_() if isinstance(a, Tensor) and a.is_floating_point() else a
        for a in arguments
    ]
    result = function(*inputs)
    parts = result if isinstance(result, tuple) else (result,)
    total = sum(
        (part * torch.arange(1, part.numel() + 1).view(part.shape).cos()).sum()
        for part in parts
        if isinstance(part, Tensor) and part.is_floating_point()
    )
    if isinstance(total, Tensor) and total.requires_grad:
        torch.autograd.backward(total)
    return [a.grad if isinstance(a, Tensor) else None for a in inputs]
