"""Fast twins of pre-norm residual connections and stacks: fewer passes over x on a GPU.

Alone, a residual connection is two kernels around its sublayer. In a stack, the sum of one and the
norm of the next are one kernel:

    x = x + change;  change = dropout(sublayer(norm(x)))
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from torch import nn

from headway.attention import Documents, Mask, Step
from headway.base.shapes import Float, Tensor
from headway.blocks import Decoder, DecoderOnly, Encoder, EncoderBlock, LayerNorm, PreNorm, RMSNorm
from headway.blocks.residual import Sublayer
from headway.blocks.state import DecoderState
from headway.transforms.autocast import autocast_dtype
from headway.transforms.fast.block import FastDecoderOnlyBlock
from headway.transforms.fast.cache import FastCache
from headway.transforms.fast.joint import has_hooks
from headway.transforms.fast.sublayers import looped_stack
from headway.transforms.kernels import computes

LARGE = 2**23
"""Numbers of x from which kernels of our own save a GPU more than the CPU takes to launch them."""


def _has_kernel(norm: nn.Module) -> bool:
    return type(norm) in (LayerNorm, RMSNorm) and not has_hooks(norm)


class FastPreNorm(PreNorm):
    """`PreNorm` by two kernels around the sublayer, and one for the gradient, on a GPU.

    Under autocast the sublayer gets norm(x) in autocast's dtype, to which its linear layers would
    convert it.
    """

    def forward(self, x: Float[Tensor, "B T D"], sublayer: Sublayer) -> Float[Tensor, "B T D"]:
        if x.numel() < LARGE or not computes(x) or not _has_kernel(self.norm):
            return super().forward(x, sublayer)
        from headway.transforms.kernels.norms import added, added_and_normed

        dtype = autocast_dtype(x.device.type) or x.dtype
        kept, normed = added_and_normed(x, None, self.norm, dtype)
        return added(kept, self.dropout(sublayer(normed)))


class FastEncoder(Encoder):
    """`Encoder` by one kernel between two sublayers, on a GPU."""

    def forward(self, x: Float[Tensor, "B S D"], mask: Mask) -> Float[Tensor, "B S D"]:
        return _chained(self, x, mask) if _is_chain(self, x) else super().forward(x, mask)


class FastDecoderOnly(DecoderOnly):
    """`DecoderOnly` by one kernel between two sublayers on a GPU, with looped steps on a CPU."""

    cache_type = FastCache

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        documents: Documents | None = None,
        mask: Mask | None = None,
    ) -> Float[Tensor, "B T D"]:
        if not _is_chain(self, x):
            return super().forward(x, documents, mask)
        return _chained(self, x, mask or Mask(causal=True, documents=documents))

    def step(self, x: Float[Tensor, "N T D"], state: DecoderState) -> Float[Tensor, "N T D"]:
        cache = state.cache
        looped = looped_stack(self, cache)
        if looped is None or not looped.suits(x, cache):
            return super().step(x, state)
        x = looped.step(x, self.placed(cache.step(1, x.device), x), cache)
        cache.advance(1)
        return self.norm(x)


class FastDecoder(Decoder):
    """`Decoder` whose decode states have a `FastCache`, and looped steps on a CPU."""

    cache_type = FastCache

    def step(self, x: Float[Tensor, "N T D"], state: DecoderState) -> Float[Tensor, "N T D"]:
        cache, memory = state.cache, state.memory
        looped = looped_stack(self, cache)
        if looped is None or memory is None or not looped.suits(x, cache, memory.layers):
            return super().step(x, state)
        step = self.placed(cache.step(1, x.device), x)
        x = looped.step(x, step, cache, memory.layers, memory.mask)
        cache.advance(1)
        return self.norm(x)


def _is_chain(stack: Any, x: Float[Tensor, "B T D"]) -> bool:
    """Whether kernels compute the residual connections of this stack, and nothing is to be called
    with the inputs or outputs of a block: no hook, and no other `forward` (`compile`)."""
    if x.numel() < LARGE or not computes(x) or not _has_kernel(stack.norm):
        return False
    return all(
        type(block) in (EncoderBlock, FastDecoderOnlyBlock)
        and "forward" not in vars(block)
        and not has_hooks(block)
        and all(
            type(around) is FastPreNorm and not has_hooks(around) and _has_kernel(around.norm)
            for around in (block.around_attention, block.around_feedforward)
        )
        for block in stack.blocks
    )


def _chained(stack: Any, x: Float[Tensor, "B T D"], mask: Mask) -> Float[Tensor, "B T D"]:
    """Return the last norm of x after all residual connections."""
    from headway.transforms.kernels.norms import added_and_normed

    step, dtype, change = stack.whole(x, mask), autocast_dtype(x.device.type) or x.dtype, None
    for residual, sublayer in _sublayers(stack.blocks, step):
        x, normed = added_and_normed(x, change, residual.norm, dtype)
        change = residual.dropout(sublayer(normed))
    return added_and_normed(x, change, stack.norm, x.dtype)[1]


def _sublayers(blocks: Iterable[Any], step: Step) -> Iterator[tuple[FastPreNorm, Sublayer]]:
    """Return each sublayer with its residual connection."""
    for block in blocks:
        yield block.around_attention, partial(_attended, block.attention, step)
        yield block.around_feedforward, block.feedforward


def _attended(attention: Callable[..., Tensor], step: Step, y: Tensor) -> Tensor:
    return attention(y, y, step.mask, step)
