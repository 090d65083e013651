"""Activation patching: through which layers and positions the difference between two inputs
flows."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from headway.base.errors import UsageError
from headway.base.shapes import Float, Tensor
from headway.blocks.hidden_states import record_hidden_states
from headway.bundle import ForwardPass
from headway.inspection.block_stacks import Stack, stacks_of


@dataclass(frozen=True)
class Patched:
    """Result of `patch_stream`.

    recovered[l, t]: fraction of the metric that is recovered when the vector at position t after
    layer l is taken from the clean run; 0 is the corrupted run, 1 the clean one. layers:
    "embedding", "1", ... clean, corrupted: the metric of the two runs.
    """

    side: str
    tokens: list[str]
    layers: list[str]
    recovered: Float[Tensor, "L T"]
    clean: float
    corrupted: float


@torch.no_grad()
def patch_stream(
    clean: ForwardPass,
    corrupted: ForwardPass,
    metric: Callable[[Tensor], float],
    *,
    part: str | None = None,
) -> Patched:
    """Run the corrupted input once for each layer and position, with one vector of the residual
    stream taken from the clean run.

    recovered = (m(patched) - m(corrupted)) / (m(clean) - m(corrupted)), where m is the metric of
    the output of a forward pass (a logit, or the difference of two). part: "encoder" or "decoder";
    if None, the stack that makes the prediction. Both inputs must have the same number of tokens.
    Meng et al. 2022, section 2; Zhang and Nanda 2024.

    Raises UsageError if the inputs differ in length, give the same metric, or belong to two models.
    """
    if clean.model is not corrupted.model:
        raise UsageError("both inputs must be probed with one and the same model")
    stacks = stacks_of(clean.model)
    part = part or ("decoder" if "decoder" in stacks else "encoder")
    if part not in stacks:
        raise UsageError(
            f"the model has no {part} made of Transformer blocks",
            hint=f"its stacks of blocks are: {', '.join(stacks) or 'none'}",
        )
    side, stack = clean.axes[part][0], stacks[part]
    tokens, corrupted_tokens = list(clean.tokens[side]), list(corrupted.tokens[side])
    with record_hidden_states(stack) as stream:
        clean_metric = metric(clean.run())
    corrupted_metric = metric(corrupted.run())
    if len(tokens) != len(corrupted_tokens):
        raise UsageError(
            f"the clean input has {len(tokens)} tokens and the corrupted one "
            f"{len(corrupted_tokens)}",
            hint="replace words by others with the same number of tokens",
        )
    if clean_metric == corrupted_metric:
        raise UsageError(
            "the metric is the same for both inputs, so that there is nothing to recover; "
            "choose inputs or a metric that differ"
        )
    recovered = torch.zeros(len(stream), len(tokens))
    for layer, vectors in enumerate(stream):
        for position in range(len(tokens)):
            with _patched(stack, layer, position, vectors[:, position]):
                recovered[layer, position] = (metric(corrupted.run()) - corrupted_metric) / (
                    clean_metric - corrupted_metric
                )
    layers = ["embedding", *(str(i + 1) for i in range(len(stream) - 1))]
    return Patched(side, corrupted_tokens, layers, recovered, clean_metric, corrupted_metric)


@contextmanager
def _patched(
    stack: Stack, layer: int, position: int, vector: Float[Tensor, "B D"]
) -> Iterator[None]:
    """Replace the vector at one position after `layer` blocks inside the `with` block."""
    calls = 0

    def replaced(stream: Tensor) -> Tensor:
        changed = stream.clone()
        changed[:, position] = vector
        return changed

    def enter(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return (replaced(inputs[0]), *inputs[1:])

    def leave(_: nn.Module, inputs: tuple[object, ...], output: Tensor) -> Tensor | None:
        nonlocal calls
        calls += 1  # several layers may share one block
        return replaced(output) if calls == layer else None

    handles = [stack.register_forward_pre_hook(enter)] if layer == 0 else []
    handles += [block.register_forward_hook(leave) for block in dict.fromkeys(stack.blocks)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
