"""Compiled loops for decoding: products of a matrix and few vectors (`loops.c`, `products.h`).

    y[r, o] = sum over i of x[r, i] W[o, i] + b[o]

torch reads the matrix of such a product at half of the memory's bandwidth or less, and has no exact
products of 8-bit numbers for processors without VNNI. The loops are compiled when Headway is
installed, if there is a C compiler; without them everything is computed by torch. They use the
instructions that torch uses: `ATEN_CPU_CAPABILITY=avx2` holds for both.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from ctypes import c_int64, c_void_p
from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F

from headway.base.shapes import Float, Int, Tensor, UInt8
from headway.transforms.quantize.numbers import GROUP, Int4, paired
from headway.transforms.tracing import tracing

NONE, AVX2, AVX_VNNI, AVX512 = range(4)
"""Sets of instructions, as `loops.c` numbers them."""
SET_NAMES = {AVX2: "AVX2", AVX_VNNI: "AVX2 and AVX-VNNI", AVX512: "AVX-512 and VNNI"}

SWITCH = "HEADWAY_LOOPS"
"""Environment variable that switches the loops off if it is "no"."""

FLOAT32, BFLOAT16, INT8, INT4 = range(4)
"""Numbers of a matrix, as `loops.c` numbers them."""


class Matrix(ctypes.Structure):
    """`matrix` of loops.c. Whoever makes one keeps its tensors."""

    _fields_ = (
        *[(name, c_int64) for name in ("numbers", "inputs", "columns", "outputs", "group")],
        *[(name, c_void_p) for name in ("w", "parts", "bias")],
    )

    @classmethod
    def of(cls, weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None) -> Matrix:
        """Return a matrix in float32 or bfloat16."""
        numbers = FLOAT32 if weight.dtype == torch.float32 else BFLOAT16
        outputs, inputs = weight.shape
        return cls(numbers, inputs, inputs, outputs, 1, weight.data_ptr(), None, address(bias))


@cache
def library() -> ctypes.CDLL | None:
    """Return the compiled loops; None if they were not compiled, cannot be loaded here, or are
    switched off by `HEADWAY_LOOPS=no`."""
    if os.environ.get(SWITCH, "").lower() == "no":
        return None
    for path in Path(__file__).parent.glob("_loops*.so"):
        try:
            found = ctypes.CDLL(str(path))
            found.headway_multiply.argtypes = [
                *[c_int64] * 3,
                c_void_p,
                ctypes.POINTER(Matrix),
                c_void_p,
                c_int64,
            ]
            found.headway_attention.argtypes = found.headway_feedforward.argtypes = [c_void_p]
            found.headway_size.restype = c_int64
            if found.headway_size(0) == ctypes.sizeof(Matrix):
                return found
        except (OSError, AttributeError):  # of another processor, or of another version of Headway
            continue
    return None


@cache
def available_sets() -> tuple[int, ...]:
    """Return the sets of instructions of the loops that run on this processor, and that torch may
    use, too; the last one is the fastest."""
    found, capability = library(), torch.backends.cpu.get_cpu_capability()
    allowed = {"AVX2": [AVX2, AVX_VNNI], "AVX512": [AVX2, AVX_VNNI, AVX512]}.get(capability, [])
    if os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper() == "AVX2":
        allowed = allowed[:1]
    return () if found is None else tuple(s for s in allowed if found.headway_runs(s))


def instructions() -> int:
    """Return the set of instructions of the loops on this machine; `NONE` if they cannot run."""
    return available_sets()[-1] if available_sets() else NONE


def description() -> str:
    """Return the instructions of the loops, or why they do not run and what that means."""
    if instructions():
        return SET_NAMES[instructions()]
    found = "not compiled" if library() is None else "not for this processor"
    if os.environ.get(SWITCH):
        found = f"switched off by {SWITCH}"
    return f"{found}: products are torch's, and int8 and int4 no faster than float32"


def suits(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether `product` can compute x W^T + b: without gradients, float32 x and b on the CPU."""
    needs_grad = torch.is_grad_enabled() and any(
        t is not None and t.requires_grad for t in (x, weight, bias)
    )
    return (
        bool(instructions())
        and not needs_grad
        and x.is_cpu
        and x.dtype == torch.float32
        and (bias is None or bias.dtype == torch.float32)
        and weight.is_cpu
        and weight.is_contiguous()
        and not tracing(x, weight)
        and not torch.is_autocast_enabled("cpu")
    )


def product(
    x: Float[Tensor, "R I"], weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None
) -> Float[Tensor, "R O"]:
    """Return x W^T + b, outside autograd, where `instructions()` is not `NONE`.

    x and b in float32, W in float32 or bfloat16, all on the CPU; x and W are contiguous. A row of y
    has the same bits for any number of rows.
    """
    return multiply(x, Matrix.of(weight, bias))


def multiply(x: Float[Tensor, "R I"], matrix: Matrix) -> Float[Tensor, "R O"]:
    """Return x W^T + b; x is contiguous."""
    found, outputs = library(), int(matrix.outputs)
    assert found is not None
    y = x.new_empty(len(x), outputs)
    threads = torch.get_num_threads()
    at = ctypes.byref(matrix)
    rows = len(x)
    if found.headway_multiply(
        instructions(), threads, rows, x.data_ptr(), at, y.data_ptr(), outputs
    ):
        raise MemoryError(f"no memory for the 8-bit codes of {rows} inputs of a layer")
    return y


class CodedMatrix:
    """The int8 or int4 numbers of one layer, or of several with the same inputs one below another,
    in the layout of the compiled product.

    A block has V output rows, as many as a vector has float32 numbers. Of each group of inputs it
    has one line of V x 4 bytes after another: 4 inputs of each row in int8, which VNNI needs
    without a sign, and 8 in int4. Scales follow in the same order: V of each group.
    """

    def __init__(self, stored: Sequence[Mapping[str, Tensor]]) -> None:
        self.is_int4 = "weight_int4" in stored[0]
        self._set = instructions()
        self._width = 16 if self._set == AVX512 else 8
        joined = {name: torch.cat([part[name] for part in stored]) for name in stored[0]}
        scale = joined["weight_scale"]
        self.rows = len(scale)
        if self.is_int4:
            codes = Int4.codes(joined)
            halves = self._blocks(codes, GROUP // 2)  # B G V 2 16
            both = halves[..., 0, :] | halves[..., 1, :] << 4
            both = both.view(*both.shape[:-1], GROUP // 8, 4)
            parts = torch.stack((joined["weight_centre"], scale), -1)
        else:
            codes = joined["weight_int8"]
            both = self._blocks(codes, 4)  # B G V 8 4
            both = both if self._set == AVX2 else both ^ -128  # + 128, as unsigned numbers
            parts = scale[..., None]
        self.columns = codes.shape[1]
        self.group = self.columns // scale.shape[1]
        self._codes = both.transpose(2, 3).contiguous()
        parts = F.pad(parts, (0, 0, 0, 0, 0, -self.rows % self._width))
        of_blocks = parts.view(-1, self._width, *parts.shape[1:])
        self._parts = of_blocks.transpose(1, 2).contiguous()

    def _blocks(self, codes: Tensor, inputs: int) -> Tensor:
        """Return codes by block, group, row, and `inputs` beside each other."""
        padded = F.pad(codes, (0, 0, 0, -self.rows % self._width))
        blocks = padded.view(-1, self._width, padded.shape[1] // GROUP, GROUP // inputs, inputs)
        return blocks.transpose(1, 2)

    def codes(self) -> Int[Tensor, "O I"] | UInt8[Tensor, "O _"]:
        """Return the stored codes, which `__init__` was called with."""
        lines = self._codes.transpose(2, 3)  # B G V lines 4
        if self.is_int4:
            lines = lines.flatten(-2)
            lines = torch.cat((lines & 15, lines >> 4), -1)
        elif self._set != AVX2:
            lines = lines ^ -128
        codes = lines.flatten(3).transpose(1, 2).flatten(2).flatten(0, 1)[: self.rows]
        return paired(codes) if self.is_int4 else codes.contiguous()

    def matrix(self, bias: Float[Tensor, " O"] | None, inputs: int) -> Matrix:
        """Return the matrix of a layer with this number of inputs."""
        numbers = INT4 if self.is_int4 else INT8
        codes, parts = self._codes.data_ptr(), self._parts.data_ptr()
        sizes = inputs, self.columns, self.rows, self.group
        return Matrix(numbers, *sizes, codes, parts, address(bias))

    def __call__(
        self, x: Float[Tensor, "R I"], bias: Float[Tensor, " O"] | None = None
    ) -> Float[Tensor, "R O"]:
        """Return x8 W^T + b, where x8 are the inputs rounded to 8 bits."""
        return multiply(x.contiguous(), self.matrix(bias, x.shape[1]))

    def __deepcopy__(self, memo: dict[int, object]) -> CodedMatrix:
        return self  # it never changes


def address(tensor: Tensor | None) -> int | None:
    """Return where the numbers of a tensor begin."""
    return None if tensor is None else tensor.data_ptr()
