"""Gradient x input: the contribution of each input token to a prediction, to first order."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn

from headway.base.shapes import Float, Tensor
from headway.bundle import ForwardPass


def gradient_x_input(
    reading: ForwardPass, score: Callable[[Tensor], Tensor]
) -> dict[str, Float[Tensor, " S"]]:
    """Return x[s] . d score / d x[s] for each token s of each input side: how far the score would
    fall, to first order, if the vector of the token were 0.

    x: the input of the first block, that is token or patch embeddings with positions. score: a
    function from the output of the forward pass to a number, such as the logit of one token. Model
    and reading are not changed. Shrikumar et al. 2016; Denil et al. 2015, section 4.1.
    """
    (attribution,) = gradients_x_input(reading, lambda output: score(output)[None])
    return attribution


def gradients_x_input(
    reading: ForwardPass,
    scores: Callable[[Tensor], Float[Tensor, " P"]],
    done: Callable[[], None] = lambda: None,
) -> list[dict[str, Float[Tensor, " S"]]]:
    """Return `gradient_x_input` for each of several scores, such as the logits of P positions.

    They share one forward pass; each score has a backward pass of its own, after which `done` is
    called. A batch of backward passes would do the same arithmetic and take as long.
    """
    vectors: dict[str, Tensor] = {}

    def begin(side: str) -> Callable[[nn.Module, Any, Tensor], Tensor]:
        def hook(_: nn.Module, inputs: object, output: Tensor) -> Tensor:
            vectors[side] = output.detach().requires_grad_()
            return vectors[side]

        return hook

    attributions = []
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        # recurrent networks of cuDNN have gradients only in training mode
        stack.enter_context(torch.backends.cudnn.flags(enabled=False))
        for side, name in reading.embeddings.items():
            handle = reading.model.get_submodule(name).register_forward_hook(begin(side))
            stack.callback(handle.remove)
        values = scores(reading.run()).unbind()
        for value in values:
            gradients = torch.autograd.grad(
                value,
                list(vectors.values()),
                allow_unused=True,
                retain_graph=value is not values[-1],
            )
            attributions.append(
                {
                    side: torch.zeros(x.shape[1])
                    if gradient is None
                    else (x.detach() * gradient)[0].sum(-1).cpu()
                    for (side, x), gradient in zip(vectors.items(), gradients, strict=True)
                }
            )
            done()
    return attributions
