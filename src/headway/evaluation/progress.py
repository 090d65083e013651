"""Progress of evaluations that do more than to read each example once."""

from __future__ import annotations

from collections.abc import Callable


def in_examples(progress: Callable[[int], None], examples: int, work: int) -> Callable[[int], None]:
    """Return a function that receives how much of the work is done, and reports it in examples.

    progress: receives a number of examples, up to all of them. work: the whole work, in the unit of
    the returned function: for two passes over the examples, twice their number.
    """
    return lambda done: progress(done * examples // max(work, 1))
