"""Computations in one go: predictions, embeddings, beam search, everything but sampled text.

Those with the same settings are done together: the free engine takes what waits, up to a budget of
tokens, and no job waits for others to come. Inside a computation, every call of an embedding layer
is a sign of life, and ends it if no client waits for any of its results.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import nn

from headway.serving.engine.jobs import Cancelled, Failed, Finished, Job


@dataclass(kw_only=True, eq=False)
class Computation(Job):
    """Apply a function to some inputs; `Finished.result` is the list of its results.

    group: computations of equal groups have the same function, and are done in one call. inputs:
    those of this job. compute: returns one result for each of a list of inputs. shares: whether it
    decodes step by step, so that its steps can be shared with those of other computations.
    """

    group: Hashable
    inputs: Sequence[Any]
    compute: Callable[[list[Any]], Sequence[Any]]
    shares: bool = False


def compute_together(jobs: Sequence[Computation]) -> None:
    """Do computations of one group, and report their results.

    If they fail together, each is done alone, so that an invalid input fails only its own job.
    """
    try:
        inputs = [item for job in jobs for item in job.inputs]
        results = list(jobs[0].compute(inputs))
        if len(results) != len(inputs):
            raise AssertionError(f"{len(results)} results for {len(inputs)} inputs")
    except Cancelled:
        return
    except Exception as error:
        if len(jobs) == 1:
            jobs[0].report(Failed(error))
            return
        for job in jobs:
            compute_together([job])
        return
    start = 0
    for job in jobs:
        job.report(Finished(results[start : start + len(job.inputs)]))
        start += len(job.inputs)


@contextmanager
def watched(model: nn.Module, at_each_step: Callable[[], None]) -> Iterator[None]:
    """Call `at_each_step` at every step of the model inside the `with` block; it may raise.

    A step of a search embeds the last tokens of its outputs, and an encoder embeds its input.
    """
    layers = [m for m in model.modules() if isinstance(m, nn.Embedding | nn.Conv2d)]
    handles = [layer.register_forward_pre_hook(lambda *_: at_each_step()) for layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
