"""DoLa: the last layer's prediction minus that of an earlier, less informed layer.

    q_l = softmax(W_out norm(h_l)),   M = argmax over l of JSD(q_L || q_l)
    score(v) = log q_L(v) - log q_M(v)   if q_L(v) >= alpha max q_L,   else log q_L(v) - GAP

What an early layer expects already is frequent everywhere; what only the last layers add is
specific. M is chosen anew for each token: the candidate layer whose distribution differs most from
the last one's. Chuang et al. 2024, "DoLa", sections 2.2 and 2.3, with alpha = 0.1. There the score
of an implausible token is -infinity. With a gap instead, its probability is 0 in float32 as well,
but if rules forbid all plausible tokens, the last layer's distribution of the others decides.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import nn

from headway.base.errors import UsageError
from headway.base.shapes import Float, Int, Tensor
from headway.blocks.decoder import Decoder
from headway.blocks.decoder_only import DecoderOnly
from headway.models import GPT

Half = Literal["low", "high"]
"""The candidate layers: those of the lower half of the stack, or of the upper one."""

PLAUSIBLE = 0.1
"""alpha: tokens below this fraction of the largest probability are implausible."""

GAP = 1000.0
"""By how much the scores of implausible tokens are lowered, in nats. exp(-GAP) is 0 in float32, at
temperatures up to 9, and log q - GAP still has four decimals."""


class LayerContrast(nn.Module):
    """A Stepper with the scores of DoLa in place of the logits of a model."""

    def __init__(self, model: Any, stack: Decoder | DecoderOnly, layers: Sequence[int]) -> None:
        super().__init__()
        self.model, self._stack, self._layers = model, stack, layers
        self.hidden: dict[int, Tensor] = {}  # layer -> h_l of the last step

    @property
    def max_length(self) -> int | None:
        """The maximum number of tokens of the model."""
        length: int | None = self.model.max_length
        return length

    def start(self, *inputs: Any) -> Any:
        """Process the inputs once, as the model does."""
        return self.model.start(*inputs)

    def step(self, tokens: Int[Tensor, "N T"], state: Any) -> tuple[Float[Tensor, "N T V"], Any]:
        """Return the score of each next token after each of T new tokens, and the next state."""
        logits, state = self.model.step(tokens, state)
        read = self.model.logits if isinstance(self.model, GPT) else self.model.output
        early = [read(self._stack.norm(self.hidden[layer])) for layer in self._layers]
        return contrasted(logits, torch.stack(early)), state


def contrasted(
    last: Float[Tensor, "N T V"], early: Float[Tensor, "L N T V"]
) -> Float[Tensor, "N T V"]:
    """Return the scores of DoLa from the logits of the last layer and of the candidate layers."""
    log_q, log_early = last.float().log_softmax(-1), early.float().log_softmax(-1)
    q, q_early = log_q.exp(), log_early.exp()
    log_middle = torch.logaddexp(log_q, log_early) - math.log(2)  # finite where q and q_early are 0
    divergence = (q * (log_q - log_middle) + q_early * (log_early - log_middle)).sum(-1) / 2
    chosen = divergence.argmax(0)  # L N T -> N T
    index = chosen[None, :, :, None].expand(1, *last.shape)
    scores = log_q - log_early.gather(0, index)[0]
    implausible = q < PLAUSIBLE * q.amax(-1, keepdim=True)
    return torch.where(implausible, log_q - GAP, scores)


@contextmanager
def layer_contrast(model: Any, half: Half) -> Iterator[LayerContrast]:
    """Yield a Stepper with the scores of DoLa; it works inside the `with` block.

    half: which layers are candidates. The embedding (layer 0) is one of the lower half, unless it
    shares its matrix with the output: its distribution is then its own token. Raises UsageError for
    a model without a stack of at least two Transformer blocks.
    """
    stack = getattr(model, "decoder", None)
    if not isinstance(stack, Decoder | DecoderOnly) or len(stack.blocks) < 2:
        raise UsageError(
            "contrasting layers needs a Transformer decoder of at least two layers",
            hint="leave out --dola",
        )
    depth = len(stack.blocks)
    everywhere = model.named_parameters(remove_duplicate=False)
    tied = sum(parameter is model.output.weight for _, parameter in everywhere) > 1
    lower = range(1 if tied else 0, max(2, (depth + 1) // 2))
    layers = lower if half == "low" else range(max(1, depth // 2), depth)
    contrast = LayerContrast(model, stack, layers)
    handles = []
    for layer in layers:  # the input of block l + 1 is the output of block l

        def keep(_: nn.Module, inputs: tuple[Any, ...], layer: int = layer) -> None:
            contrast.hidden[layer] = inputs[0]

        around: Any = stack.blocks[layer]
        handles.append(around.around_attention.register_forward_pre_hook(keep))
    try:
        yield contrast
    finally:
        for handle in handles:
            handle.remove()
