"""Fast twins of quantised layers: products in small numbers, where the compiled loops run.

`release_codes` moves the codes of a model for inference into the layout of the product, so that
they are in memory once. Saving, moving to another device and `weight` read them back from there.
Where the loops do not run, a layer in int8 or int4 keeps its matrix in float32, too: it is as fast
as one in float32, and only its file is smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from headway.base.devices import multiplies_bfloat16
from headway.base.shapes import Float, Tensor
from headway.transforms.fast import loops
from headway.transforms.fast.linear import LOOPED_ROWS, linear, product
from headway.transforms.fast.loops import CodedMatrix
from headway.transforms.lora import LoRABFloat16Linear, LoRAInt4Linear, LoRAInt8Linear
from headway.transforms.quantize.layers import (
    BFloat16Linear,
    CodedLinear,
    Int4Linear,
    Int8Linear,
    rounded_inputs,
)
from headway.transforms.tracing import tracing


class DecodedMatrix:
    """The float32 matrix of coded layers, one below another, for torch's product."""

    def __init__(self, weight: Float[Tensor, "O I"]) -> None:
        self._weight = weight

    def __call__(
        self, x: Float[Tensor, "R I"], bias: Float[Tensor, " O"] | None = None
    ) -> Float[Tensor, "R O"]:
        """Return x8 W^T + b, where x8 are the inputs rounded to 8 bits."""
        return linear(rounded_inputs(x), self._weight, bias)


def matrix_of(layers: Sequence[FastCodedLinear]) -> CodedMatrix | DecodedMatrix:
    """Return the numbers of the layers for a product, one layer below another."""
    if loops.instructions():
        return CodedMatrix([layer.stored() for layer in layers])
    return DecodedMatrix(torch.cat([layer.weight for layer in layers]))


class FastCodedLinear(CodedLinear):
    """A layer whose codes may be in the layout of the product (`packed`) instead of its parameters.

    rows: its output rows of `packed`, which several layers may share.
    """

    packed: CodedMatrix | DecodedMatrix | None = None
    rows: slice | None = None
    is_released = False

    def forward(self, input: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        if not self.is_usable(input):
            return super().forward(input)
        flat = input.reshape(-1, input.shape[-1])
        if torch.is_grad_enabled() and (flat.requires_grad or self._trains_bias()):
            y: Tensor = _Product.apply(flat, self)  # type: ignore[no-untyped-call]
            y = y if self.bias is None else y + self.bias
        else:
            y = self.product(flat, self.bias)
        return y.view(*input.shape[:-1], self.out_features)

    def _trains_bias(self) -> bool:
        return self.bias is not None and self.bias.requires_grad

    def product(
        self, x: Float[Tensor, "R I"], bias: Float[Tensor, " O"] | None = None
    ) -> Float[Tensor, "R O"]:
        """Return x W^T + b, outside autograd."""
        packed = self.pack()
        if self.rows is None:
            return packed(x, bias)
        y = packed(x)[:, self.rows]
        return y if bias is None else y + bias

    def pack(self) -> CodedMatrix | DecodedMatrix:
        """Return the numbers in the layout of the product, which is made at the first call."""
        if self.packed is None:
            self.packed = matrix_of([self])
        return self.packed

    def is_usable(self, x: Tensor) -> bool:
        """Whether the product is for this input: float32 on a CPU, and not while tracing."""
        return (
            x.dtype == torch.float32
            and x.device.type == self.weight_scale.device.type == "cpu"
            and not tracing(x, self.weight_scale)
            and not torch.is_autocast_enabled("cpu")
        )

    @property
    def code_name(self) -> str:
        return self.numbers.names[0]

    def packed_codes(self) -> Tensor:
        """Return the stored codes, read back from `packed`."""
        assert isinstance(self.packed, CodedMatrix)
        codes = self.packed.codes()
        return codes if self.rows is None else codes[self.rows].clone()

    def stored(self) -> dict[str, Tensor]:
        stored = super().stored()
        return {**stored, self.code_name: self.packed_codes()} if self.is_released else stored

    def release_codes(self) -> None:
        """Keep the codes in the layout of the product only, unless an embedding reads them too."""
        is_on_cpu = self.weight_scale.device.type == "cpu"
        if self.is_released or self.shared or not (is_on_cpu and loops.instructions()):
            return
        self.pack()
        codes = getattr(self, self.code_name)
        codes.data = codes.data.new_empty(0)
        self.is_released = True

    def restore_codes(self) -> None:
        """Keep the codes in the parameter only."""
        if self.is_released:
            getattr(self, self.code_name).data = self.packed_codes()
        self.packed, self.rows, self.is_released = None, None, False

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> FastCodedLinear:
        self.restore_codes()
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    def _save_to_state_dict(
        self, destination: dict[str, Tensor], prefix: str, keep_vars: bool
    ) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.is_released:
            destination[prefix + self.code_name] = self.packed_codes()

    def _load_from_state_dict(self, *args: object, **kwargs: object) -> None:
        self.restore_codes()
        super()._load_from_state_dict(*args, **kwargs)


class FastInt8Linear(FastCodedLinear, Int8Linear):
    """`Int8Linear` by the compiled product of integers."""


class FastInt4Linear(FastCodedLinear, Int4Linear):
    """`Int4Linear` by the compiled product of integers."""


class FastBFloat16Linear(BFloat16Linear):
    """`BFloat16Linear` whose matrix is read in bfloat16: by the compiled loops for few inputs, and
    by torch for many, where the processor multiplies such numbers."""

    def forward(self, input: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        if input.dtype != torch.float32:
            return super().forward(input)
        weight = self.stored()["weight_bfloat16"]
        # in this order: a traced graph holds for every number of rows
        is_looped = loops.suits(input, weight, self.bias)
        if is_looped and input.numel() <= LOOPED_ROWS * input.shape[-1]:
            flat = input.reshape(-1, input.shape[-1])
            y = loops.product(flat.contiguous(), weight, self.bias)
            return y.view(*input.shape[:-1], self.out_features)
        if not multiplies_bfloat16("cpu"):
            return super().forward(input)
        y = F.linear(input.to(torch.bfloat16), weight).float()
        return y if self.bias is None else y + self.bias


class FastLoRAInt8Linear(LoRAInt8Linear, FastInt8Linear):
    """`LoRAInt8Linear`, whose product with W is that of `FastInt8Linear`."""


class FastLoRAInt4Linear(LoRAInt4Linear, FastInt4Linear):
    """`LoRAInt4Linear`, whose product with W is that of `FastInt4Linear`."""


class FastLoRABFloat16Linear(LoRABFloat16Linear, FastBFloat16Linear):
    """`LoRABFloat16Linear`, whose product with W is that of `FastBFloat16Linear`."""


def coded_linears(
    x: Float[Tensor, "*B I"], layers: Sequence[FastCodedLinear]
) -> tuple[Tensor, ...]:
    """Return the outputs of layers without hooks for the same x as one product, outside autograd.

    Their codes are packed together at the first call.
    """
    if not all(layer.is_usable(x) for layer in layers):
        return tuple(layer(x) for layer in layers)
    joint = joined_codes(layers)(x.reshape(-1, x.shape[-1]), joint_bias(layers))
    outputs = [layer.out_features for layer in layers]
    return joint.view(*x.shape[:-1], -1).split_with_sizes(outputs, -1)


def joint_bias(layers: Sequence[nn.Linear]) -> Tensor | None:
    """Return the biases of the layers as one, with zeros for a layer without; None without any."""
    if all(layer.bias is None for layer in layers):
        return None
    if len(layers) == 1:
        return layers[0].bias
    biases = ((layer.bias, layer.out_features) for layer in layers)
    return torch.cat([torch.zeros(size) if b is None else b.detach() for b, size in biases])


def joined_codes(layers: Sequence[FastCodedLinear]) -> CodedMatrix | DecodedMatrix:
    """Return the codes of layers with the same inputs as one matrix, which they share now."""
    if len(layers) == 1 and layers[0].rows is None:
        return layers[0].pack()
    packed = layers[0].packed
    if packed is None or any(layer.packed is not packed or layer.rows is None for layer in layers):
        packed, start = matrix_of(layers), 0
        for layer in layers:
            layer.packed, layer.rows = packed, slice(start, start + layer.out_features)
            start += layer.out_features
    return packed


def release_codes(model: nn.Module) -> None:
    """Keep the codes of a model for inference in the layout of their product only.

    The model computes the same.
    """
    for module in model.modules():
        if isinstance(module, FastCodedLinear):
            module.release_codes()


class _Product(torch.autograd.Function):
    """x W^T, whose gradient is that of the product without rounding: dx = dy W."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: FastCodedLinear) -> Tensor:
        ctx.layer = layer
        return layer.product(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return product(grad, ctx.layer.weight.t()), None
