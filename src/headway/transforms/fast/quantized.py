"""Fast twins of quantised layers: products in small numbers, where this CPU has them.

`release_codes` moves the codes of a model for inference into the layout of the product, so that
they are in memory once, and in small models of many rows twice. Saving, moving to another device
and `weight` read them back from there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from headway.base.shapes import Float, Tensor
from headway.transforms.fast.int4 import PackedInt4, int4_product_exists
from headway.transforms.fast.int8 import (
    MANY_PRODUCTS,
    MANY_ROWS,
    Int8Kernel,
    int8_kernel,
    kernel_of_many_rows,
)
from headway.transforms.fast.linear import product
from headway.transforms.lora import LoRABFloat16Linear, LoRAInt4Linear, LoRAInt8Linear
from headway.transforms.quantize.layers import (
    BFloat16Linear,
    Int4Linear,
    Int8Linear,
    QuantizedLinear,
    row_range,
)
from headway.transforms.tracing import tracing

COPIED_BYTES = 2**27
"""Models with more bytes of int8 codes keep no copy of them for many rows."""


class PackedInt8:
    """The int8 numbers of one layer, or of several with the same inputs, one below another.

    keeps_copy: whether products of many rows may make a copy in the layout that they need.

    x = c + h z, with the centre c and the half-width h of each row, makes the numbers z in -1 ... 1
    that the kernels round:  x W^T = h (z W^T) + c s,  where s[o] is the sum of row o of W. With
    scales of the columns, which several layers must have in common, x is multiplied by them first.
    """

    def __init__(self, stored: Sequence[Mapping[str, Tensor]], keeps_copy: bool) -> None:
        kernel = int8_kernel()
        assert kernel is not None  # `is_available` was checked
        codes = torch.cat([part["weight_int8"] for part in stored])
        scale = torch.cat([part["weight_scale"] for part in stored])
        self._kernel: Int8Kernel = kernel(codes, scale)
        self._of_many: Int8Kernel | None = None
        self._keeps_copy = keeps_copy
        self._scale = scale
        self._sums = codes.sum(1) * scale
        self._columns = stored[0].get("weight_columns")

    def __call__(self, x: Float[Tensor, "R I"]) -> Float[Tensor, "R O"]:
        if self._columns is not None:
            x = x * self._columns
        centre, half = row_range(x)
        kernel = self._kernel_for(x)
        return kernel((x - centre).div_(half)).mul_(half).addcmul_(centre, self._sums)

    def _kernel_for(self, x: Float[Tensor, "R I"]) -> Int8Kernel:
        is_large = len(x) >= MANY_ROWS and x.numel() * len(self._scale) >= MANY_PRODUCTS
        if not (is_large and self._keeps_copy):
            return self._kernel
        if self._of_many is None:
            kernel = kernel_of_many_rows()
            self._of_many = kernel(self.codes(), self._scale) if kernel else self._kernel
        return self._of_many

    def codes(self) -> Tensor:
        return self._kernel.codes()


class FastQuantizedLinear(QuantizedLinear, ABC):
    """A layer whose codes may be in the layout of the product (`packed`) instead of its parameters.

    rows: its output rows of `packed`, which several layers may share.
    """

    code_name: ClassVar[str]
    packed: PackedInt8 | PackedInt4 | None = None
    rows: slice | None = None
    is_released = False

    def forward(self, input: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        if not self.is_usable(input):
            return super().forward(input)
        flat = input.reshape(-1, input.shape[-1])
        if torch.is_grad_enabled() and flat.requires_grad:
            y: Tensor = _Product.apply(flat, self)  # type: ignore[no-untyped-call]
        else:
            y = self.product(flat)
        if self.bias is not None:
            y = y + self.bias if torch.is_grad_enabled() else y.add_(self.bias)
        return y.view(*input.shape[:-1], self.out_features)

    def product(self, x: Float[Tensor, "R I"]) -> Float[Tensor, "R O"]:
        """Return x W^T, outside autograd."""
        if self.packed is None:
            self.packed = self.pack()
        y = self.packed(x)
        return y if self.rows is None else y[:, self.rows]

    def is_usable(self, x: Tensor) -> bool:
        """Whether the product exists for this input: float32 on a CPU, and not while tracing."""
        return (
            x.dtype == torch.float32
            and x.device.type == self.weight_scale.device.type == "cpu"
            and self.is_available()
            and not tracing(x, self.weight_scale)
            and not torch.is_autocast_enabled("cpu")
        )

    @abstractmethod
    def is_available(self) -> bool:
        """Whether this machine has the product."""

    @abstractmethod
    def pack(self) -> PackedInt8 | PackedInt4:
        """Return the stored numbers in the layout of the product."""

    def packed_codes(self) -> Tensor:
        """Return the stored codes, read back from `packed`."""
        assert self.packed is not None
        codes = self.packed.codes()
        return codes if self.rows is None else codes[self.rows].clone()

    def stored(self) -> dict[str, Tensor]:
        stored = super().stored()
        return {**stored, self.code_name: self.packed_codes()} if self.is_released else stored

    def release_codes(self) -> None:
        """Keep the codes in the layout of the product only, unless an embedding reads them too."""
        is_on_cpu = self.weight_scale.device.type == "cpu"
        if self.is_released or self.shared or not (is_on_cpu and self.is_available()):
            return
        if self.packed is None:
            self.packed = self.pack()
        codes = getattr(self, self.code_name)
        codes.data = codes.data.new_empty(0)
        self.is_released = True

    def restore_codes(self) -> None:
        """Keep the codes in the parameter only."""
        if self.is_released:
            getattr(self, self.code_name).data = self.packed_codes()
        self.packed, self.rows, self.is_released = None, None, False

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> FastQuantizedLinear:
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


class FastInt8Linear(FastQuantizedLinear, Int8Linear):
    """`Int8Linear` by the fastest product of integers (`int8.py`)."""

    code_name = "weight_int8"
    keeps_copy = False

    def is_available(self) -> bool:
        return int8_kernel() is not None

    def pack(self) -> PackedInt8:
        return PackedInt8([self.stored()], self.keeps_copy)


class FastInt4Linear(FastQuantizedLinear, Int4Linear):
    """`Int4Linear` by torch's product of bfloat16 inputs and int4 codes (`int4.py`)."""

    code_name = "weight_int4"

    def is_available(self) -> bool:
        return int4_product_exists()

    def pack(self) -> PackedInt4:
        return PackedInt4(self.stored())


class FastBFloat16Linear(BFloat16Linear):
    """`BFloat16Linear` whose product is one of bfloat16 numbers with float32 sums."""

    def forward(self, input: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        if input.dtype != torch.float32:
            return super().forward(input)
        weight = self.stored()["weight_bfloat16"]
        y = F.linear(input.to(torch.bfloat16), weight).float()
        return y if self.bias is None else y + self.bias


class FastLoRAInt8Linear(LoRAInt8Linear, FastInt8Linear):
    """`LoRAInt8Linear`, whose product with W is that of `FastInt8Linear`."""


class FastLoRAInt4Linear(LoRAInt4Linear, FastInt4Linear):
    """`LoRAInt4Linear`, whose product with W is that of `FastInt4Linear`."""


class FastLoRABFloat16Linear(LoRABFloat16Linear, FastBFloat16Linear):
    """`LoRABFloat16Linear`, whose product with W is that of `FastBFloat16Linear`."""


def int8_linears(x: Float[Tensor, "*B I"], layers: Sequence[FastInt8Linear]) -> tuple[Tensor, ...]:
    """Return the outputs of layers without hooks for the same x as one product, outside autograd.

    Their codes are packed together at the first call, if their columns have the same scales.
    """
    first = layers[0]
    if not all(layer.is_usable(x) for layer in layers):
        return tuple(layer(x) for layer in layers)
    if any(layer.packed is not first.packed or layer.rows is None for layer in layers):
        if not _have_equal_columns(layers):
            return tuple(layer(x) for layer in layers)
        packed, start = PackedInt8([layer.stored() for layer in layers], first.keeps_copy), 0
        for layer in layers:
            layer.packed, layer.rows = packed, slice(start, start + layer.out_features)
            start += layer.out_features
    assert first.packed is not None
    joint = first.packed(x.reshape(-1, x.shape[-1])).view(*x.shape[:-1], -1)
    sizes = [layer.out_features for layer in layers]
    biases: list[Tensor] = [layer.bias for layer in layers if layer.bias is not None]
    if len(biases) == len(layers):
        joint.add_(torch.cat(biases))
        return joint.split_with_sizes(sizes, -1)
    outputs = zip(joint.split_with_sizes(sizes, -1), layers, strict=True)
    return tuple(y if layer.bias is None else y + layer.bias for y, layer in outputs)


def _have_equal_columns(layers: Sequence[FastInt8Linear]) -> bool:
    # not by `stored()`, which reads codes back from the layout of the product
    first, *others = (layer._parameters.get("weight_columns") for layer in layers)
    if first is None:
        return all(columns is None for columns in others)
    return all(columns is not None and torch.equal(columns, first) for columns in others)


def release_codes(model: nn.Module) -> None:
    """Keep the codes of a model for inference in the layout of their product only.

    int8 layers of a small model may keep a second copy for many rows. The model computes the same.
    """
    layers = [module for module in model.modules() if isinstance(module, FastQuantizedLinear)]
    is_small = sum(layer.in_features * layer.out_features for layer in layers) <= COPIED_BYTES
    for layer in layers:
        if isinstance(layer, FastInt8Linear):
            layer.keeps_copy = is_small
        layer.release_codes()


class _Product(torch.autograd.Function):
    """x W^T, whose gradient is that of the product without rounding: dx = dy W."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: FastQuantizedLinear) -> Tensor:
        ctx.layer = layer
        return layer.product(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return product(grad, ctx.layer.weight.t()), None
