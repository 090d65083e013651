"""Searches that run at the same time on one model may compute their steps together.

A server decodes the inputs of many clients. Each search asks `step_of` for the function that
computes its steps; inside `with sharing(...)`, that is one that waits for the other searches, and
computes the next step of all in one pass over the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from headway.base.shapes import Float, Int, Tensor

Step = Callable[[Int[Tensor, "N T"], Any], tuple[Float[Tensor, "N T V"], Any]]
"""The method `step` of a Stepper."""

_STEP_OF: ContextVar[Callable[[Any], Step] | None] = ContextVar("step_of", default=None)


def step_of(model: Any) -> Step:
    """Return the function that computes the steps of a search with `model`, a Stepper."""
    shared = _STEP_OF.get()
    step: Step = model.step if shared is None else shared(model)
    return step


@contextmanager
def sharing(step_of_model: Callable[[Any], Step]) -> Iterator[None]:
    """Make `step_of` return `step_of_model(model)` inside the `with` block, in this thread."""
    token = _STEP_OF.set(step_of_model)
    try:
        yield
    finally:
        _STEP_OF.reset(token)
