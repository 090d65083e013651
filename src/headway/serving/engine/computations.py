"""Computations: predictions, embeddings, beam search, everything but sampled text.

Those with the same settings are done together: the free engine takes what waits, up to a budget of
tokens, and no job waits for others to come. Those that decode are then one search, whose steps are
computed together with those of others. Inside a computation, every pass through the model is a
heartbeat, at which an abandoned computation is cancelled.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn

from headway.decoding import Search
from headway.serving.engine.jobs import Cancelled, Failed, Finished, Job

PASSES = ("forward", "encode", "start", "extend", "step")
"""The methods of a model that compute: a computation calls one of them for each batch and step."""


@dataclass(kw_only=True, eq=False)
class Computation(Job):
    """Apply a function to some inputs; `Finished.result` is the list of its results.

    group: computations of equal groups have the same function, and are done in one call. inputs:
    those of this job. compute: a search that returns one result for each of a list of inputs
    (`at_once` for what takes no steps).
    """

    group: Hashable
    inputs: Sequence[object]
    compute: Callable[[list[Any]], Search[Sequence[object]]]


def at_once(
    compute: Callable[..., Sequence[object]],
) -> Callable[..., Search[Sequence[object]]]:
    """Return a function of inputs, and of named options, as a search without a step."""

    def search(inputs: list[object], **options: object) -> Search[Sequence[object]]:
        return compute(inputs, **options)
        yield  # a generator, which yields nothing

    return search


def compute_together(jobs: Sequence[Computation]) -> Search[None]:
    """Do computations of one group, and report their results.

    If they fail together, each is done alone, so that an invalid input fails only its own job.
    """
    try:
        inputs = [item for job in jobs for item in job.inputs]
        results = list((yield from jobs[0].compute(inputs)))
        if len(results) != len(inputs):
            raise AssertionError(f"{len(results)} results for {len(inputs)} inputs")
    except Cancelled:
        return
    except Exception as error:
        if len(jobs) == 1:
            jobs[0].report(Failed(error))
            return
    else:
        start = 0
        for job in jobs:
            job.report(Finished(results[start : start + len(job.inputs)]))
            start += len(job.inputs)
        return
    for job in jobs:
        yield from compute_together([job])


@contextmanager
def watched(model: nn.Module, beat: Callable[[], None]) -> Iterator[None]:
    """Call `beat` before every pass through the model inside the `with` block; it may raise.

    The methods are replaced, also `encode` of the encoders in the model. Hooks would be called as
    often, but a model with hooks replays no CUDA graphs (`replay_steps`).
    """
    parts = [part for part in model.modules() if part is not model and hasattr(part, "encode")]
    passes = [(model, name) for name in PASSES if hasattr(model, name)]
    passes += [(part, "encode") for part in parts]
    replaced = [vars(module).get(name) for module, name in passes]  # those of `replay_steps`
    watching = [
        partial(_pass, beat, module, name, method)
        for (module, name), method in zip(passes, replaced, strict=True)
    ]
    for (module, name), method in zip(passes, watching, strict=True):
        vars(module)[name] = method
    try:
        yield
    finally:
        for (module, name), method, before in zip(passes, watching, replaced, strict=True):
            if vars(module).get(name) is not method:
                continue  # others have replaced it meanwhile
            del vars(module)[name]
            if before is not None:
                vars(module)[name] = before


def _pass(
    beat: Callable[[], None],
    module: nn.Module,
    name: str,
    method: Callable[..., object] | None,
    *inputs: object,
    **named: object,
) -> object:
    """Call a method of a module after a heartbeat. method: None for that of its class."""
    beat()
    if method is None:
        return getattr(type(module), name)(module, *inputs, **named)
    return method(*inputs, **named)
