"""Activation patching: where does what decides between two inputs flow?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from headway.blocks.hidden_states import watch_stream
from headway.bundle import Reading
from headway.errors import UsageError
from headway.inspection.block_stacks import Stack, stacks_of
from headway.shapes import Float, Tensor


@dataclass(frozen=True)
class Patched:
    """recovered[l, t]: share of the metric that comes back when the vector of place t after layer l
    is that of the clean run: 0 as corrupted, 1 as clean. layers: "embedding", "1", ...; clean and
    corrupted: the metric of the two runs."""

    side: str
    tokens: list[str]
    layers: list[str]
    recovered: Float[Tensor, "L T"]
    clean: float
    corrupted: float


@torch.no_grad()
def patch_stream(
    clean: Reading,
    corrupted: Reading,
    metric: Callable[[Tensor], float],
    *,
    part: str | None = None,
) -> Patched:
    """Run the corrupted input once for each layer and place, with one vector of the residual stream
    taken from the clean run.

    recovered = (m(patched) - m(corrupted)) / (m(clean) - m(corrupted)), m the metric of what a
    reading gives (a logit, or the difference of two). part: "encoder" or "decoder"; None: the stack
    whose output is the answer. Both inputs have the same number of tokens. Meng et al. 2022,
    section 2; Zhang and Nanda 2024.

    UsageError for inputs of two lengths, that the metric does not tell apart, or of two models.
    """
    if clean.model is not corrupted.model:
        raise UsageError("both inputs must be read by one model")
    stacks = stacks_of(clean.model)
    part = part or ("decoder" if "decoder" in stacks else "encoder")
    if part not in stacks:
        raise UsageError(
            f"the model has no {part} of blocks", hint=f"it has {', '.join(stacks) or 'none'}"
        )
    side, stack = clean.axes[part][0], stacks[part]
    tokens, others = list(clean.pieces[side]), list(corrupted.pieces[side])
    with watch_stream(stack) as stream:
        wanted = metric(clean.run())
    found = metric(corrupted.run())
    if len(tokens) != len(others):
        raise UsageError(
            f"the clean input has {len(tokens)} tokens and the corrupted one {len(others)}",
            hint="change words for others of as many pieces",
        )
    if wanted == found:
        raise UsageError("the metric is the same for both inputs: there is nothing to recover")
    recovered = torch.zeros(len(stream), len(tokens))
    for layer, vectors in enumerate(stream):
        for place in range(len(tokens)):
            with _patched(stack, layer, place, vectors[:, place]):
                recovered[layer, place] = (metric(corrupted.run()) - found) / (wanted - found)
    layers = ["embedding", *(str(i + 1) for i in range(len(stream) - 1))]
    return Patched(side, others, layers, recovered, wanted, found)


@contextmanager
def _patched(stack: Stack, layer: int, place: int, vector: Float[Tensor, "B D"]) -> Iterator[None]:
    """Inside the `with` block the stream holds `vector` there after `layer` blocks."""
    calls = 0

    def replaced(stream: Tensor) -> Tensor:
        found = stream.clone()
        found[:, place] = vector
        return found

    def enter(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return (replaced(inputs[0]), *inputs[1:])

    def leave(_: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor | None:
        nonlocal calls
        calls += 1  # a block may stand for several layers
        return replaced(output) if calls == layer else None

    handles = [stack.register_forward_pre_hook(enter)] if layer == 0 else []
    handles += [block.register_forward_hook(leave) for block in dict.fromkeys(stack.blocks)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
