"""Which inputs an answer hangs on: gradient x input."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn

from headway.bundle import Reading
from headway.shapes import Float, Tensor


def gradient_x_input(
    reading: Reading, score: Callable[[Tensor], Tensor]
) -> dict[str, Float[Tensor, " S"]]:
    """Of each side that is read, x[s] . d score / d x[s] for each token s: how far the score would
    fall, to first order, if the token's vector went to 0.

    x is what enters the first block: a word, or a patch, in its place. score: a number from what
    the reading gives, such as one word's logit. Shrikumar et al. 2016; Denil et al. 2015, section
    4.1. Model and reading stay as they are.
    """
    vectors: dict[str, Tensor] = {}

    def begin(side: str) -> Callable[[nn.Module, Any, Tensor], Tensor]:
        def hook(_: nn.Module, inputs: Any, output: Tensor) -> Tensor:
            vectors[side] = output.detach().requires_grad_()
            return vectors[side]

        return hook

    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        # cuDNN's recurrent networks have a gradient only while training
        stack.enter_context(torch.backends.cudnn.flags(enabled=False))
        for side, name in reading.embeddings.items():
            handle = reading.model.get_submodule(name).register_forward_hook(begin(side))
            stack.callback(handle.remove)
        value = score(reading.run())
        found = torch.autograd.grad(value, list(vectors.values()), allow_unused=True)
    return {
        side: torch.zeros(x.shape[1]) if grad is None else (x.detach() * grad)[0].sum(-1).cpu()
        for (side, x), grad in zip(vectors.items(), found, strict=True)
    }
