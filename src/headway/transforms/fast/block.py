"""Fast twin of a decoder-only block: a step of one text on a GPU as five kernels."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import nn

from headway.attention import LayerCache, Step
from headway.base.shapes import Float, Tensor
from headway.blocks import DecoderOnlyBlock, LayerNorm, PreNorm, RMSNorm
from headway.transforms.fast.feedforward import FastFeedForward, FastGatedFeedForward
from headway.transforms.fast.joint import as_one
from headway.transforms.fast.linear import FastLinear
from headway.transforms.fast.multihead import FastMultiHeadAttention
from headway.transforms.fast.quantized import FastBFloat16Linear
from headway.transforms.fast.static_cache import StaticLayer
from headway.transforms.kernels import Activation, activation_name, computes


class FastDecoderOnlyBlock(DecoderOnlyBlock):
    """`DecoderOnlyBlock` whose recorded step of one text is bound by reading its weights.

    It is: norm and q, k, v; attention; output and sum; norm, expansion and activation; contraction
    and sum. Intermediate results stay in float32 within a kernel. Matrices may be stored in
    bfloat16 (`quantize`). Other steps are those of the plain block.
    """

    def step(
        self, x: Float[Tensor, "N T D"], step: Step, cache: LayerCache
    ) -> Float[Tensor, "N T D"]:
        # a layer with angles of its own computes them in the plain way
        is_placed = step.bias is None and step.scheme is self.attention.positions
        if isinstance(cache, StaticLayer) and is_placed and self._has_kernels(x):
            return self._step_of_vector(x, step, cache)
        return super().step(x, step, cache)

    def _has_kernels(self, x: Tensor) -> bool:
        """Whether kernels compute each part of the block for this input."""
        is_vector = x.shape[:2] == (1, 1) and computes(x) and not torch.is_grad_enabled()
        if not is_vector or self.training or torch.is_autocast_enabled(x.device.type):
            return False
        from headway.transforms.kernels.one_vector import LONGEST

        attention, network = self.attention, self.feedforward
        if not isinstance(attention, FastMultiHeadAttention):
            return False
        if not isinstance(network, (FastFeedForward, FastGatedFeedForward)):
            return False
        residuals = self.around_attention, self.around_feedforward
        layers = [layer for layer in self.modules() if isinstance(layer, nn.Linear)]
        return (
            all(isinstance(x, PreNorm) and type(x.norm) in (LayerNorm, RMSNorm) for x in residuals)
            and activation_name(network.activation) is not None
            and all(_matrix(layer) is not None for layer in layers)
            and all(layer.in_features <= LONGEST for layer in layers)
            and all(vector.dtype == x.dtype for vector in self.parameters() if vector.ndim == 1)
        )

    def _step_of_vector(
        self, x: Float[Tensor, "1 1 D"], step: Step, cache: StaticLayer
    ) -> Float[Tensor, "1 1 D"]:
        attention, network = self.attention, self.feedforward
        assert isinstance(attention, FastMultiHeadAttention)
        assert isinstance(network, FastFeedForward | FastGatedFeedForward)
        before, between = self.around_attention, self.around_feedforward
        assert isinstance(before, PreNorm) and isinstance(between, PreNorm)
        projections = _linears(x, (attention.query, attention.key, attention.value), before.norm)
        context = attention.context_of_new(step, cache, *projections)
        x = _linears(context, (attention.output,), residual=x)[0]
        first = network.gate if isinstance(network, FastGatedFeedForward) else network.expand
        hidden = _linears(x, (first,), between.norm, activation_name(network.activation))[0]
        if first is not network.expand:
            hidden = hidden * _linears(x, (network.expand,), between.norm)[0]
        return _linears(hidden, (network.contract,), residual=x)[0]


def _matrix(layer: nn.Module) -> Tensor | None:
    """Return the matrix of the layer if the kernel can multiply with it."""
    if type(layer) is FastLinear:
        return layer.weight
    if type(layer) is not FastBFloat16Linear:
        return None
    stored = layer.stored()["weight_bfloat16"]
    return stored if stored.shape[1] == layer.in_features else None


def _linears(
    x: Float[Tensor, "1 1 I"],
    layers: Sequence[nn.Linear],
    norm: nn.Module | None = None,
    activation: Activation | None = None,
    residual: Float[Tensor, "1 1 O"] | None = None,
) -> tuple[Float[Tensor, "1 1 _"], ...]:
    """Return residual + activation(layer(norm(x))) of each layer, by as few kernels as possible."""
    from headway.transforms.kernels.one_vector import linear_of_vector

    compute = partial(linear_of_vector, x, norm=norm, activation=activation, residual=residual)
    weights = [matrix for layer in layers if (matrix := _matrix(layer)) is not None]
    biases = [layer.bias for layer in layers]
    joined = as_one(weights, biases) if len(layers) > 1 else None
    if joined is None:
        return tuple(map(compute, weights, biases))
    y = compute(*joined)
    return y.split_with_sizes([layer.out_features for layer in layers], dim=-1)
