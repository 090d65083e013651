"""Products of integers that torch has for this processor, checked and measured once per process.

    y[r, o] = (sum over i of q[r, i] W8[o, i]) s[o],   q = round(127 x),   x in -1 ... 1

All kernels sum exactly, so they give the same numbers; one that is missing, or whose sums are not
exact, is not used: without VNNI, pairs of products may saturate at 16 bits. VNNI has vectors of 512
bits (AVX-512, which FBGEMM uses, as oneDNN does) or of 256 (AVX-VNNI of processors without AVX-512,
which oneDNN alone uses).
"""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import ClassVar

import torch

from headway.base.shapes import Float, Int, Tensor

MARGIN = 1.25
"""How much faster a later kernel of `KERNELS` must be: measured times vary between processes."""


class Int8Kernel(ABC):
    """The codes and scales of a matrix in the layout of one implementation."""

    name: ClassVar[str]

    @abstractmethod
    def __init__(self, codes: Int[Tensor, "O I"], scale: Float[Tensor, " O"]) -> None: ...

    @abstractmethod
    def codes(self) -> Int[Tensor, "O I"]:
        """Return the codes, which `__init__` was called with."""

    @abstractmethod
    def __call__(self, x: Float[Tensor, "R I"]) -> Float[Tensor, "R O"]:
        """Return the product for numbers between -1 and 1, which are rounded to 1/127."""

    def __deepcopy__(self, memo: dict[int, object]) -> Int8Kernel:
        return self  # it never changes, and torch copies no sparse matrices


class Fbgemm(Int8Kernel):
    """FBGEMM's product, with the rounding of x and the scale in the same pass."""

    name = "fbgemm"

    def __init__(self, codes: Int[Tensor, "O I"], scale: Float[Tensor, " O"]) -> None:
        zeros = torch.zeros(len(scale), dtype=torch.long)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch may drop these; then int_mm serves
            matrix = torch._make_per_channel_quantized_tensor(codes, scale.double(), zeros, 0)
        self._packed: object = torch.ops.quantized.linear_prepack(matrix, None)

    def codes(self) -> Int[Tensor, "O I"]:
        matrix: Tensor = torch.ops.quantized.linear_unpack(self._packed)[0]
        return matrix.int_repr()

    def __call__(self, x: Float[Tensor, "R I"]) -> Float[Tensor, "R O"]:
        return self._product(x, 1 / 127, 128)

    def _product(self, x: Tensor, step: float, zero: int) -> Tensor:
        """Return the product for x rounded to multiples of `step`; `zero` is the code of 0."""
        return torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            x, step, zero, self._packed
        )


class FbgemmInTwoParts(Fbgemm):
    """FBGEMM's product where pairs of products saturate at 16 bits: on processors without AVX-512.

        q = 2 a + b,   a in -64 ... 63,   b in 0, 1,   q W8^T = 2 a W8^T + b W8^T

    FBGEMM adds a + 64 and b + 64 times W8, of which no pair has a sum above 2 * 127 * 127 < 2^15.
    The rows of b are below those of a in one product, which reads W8 once.
    """

    name = "fbgemm in two parts"

    def __init__(self, codes: Int[Tensor, "O I"], scale: Float[Tensor, " O"]) -> None:
        super().__init__(codes, scale / 127)

    def __call__(self, x: Float[Tensor, "R I"]) -> Float[Tensor, "R O"]:
        q = (x * 127).round_()
        a = (q / 2).floor_()
        b = q.sub_(a, alpha=2)
        y = self._product(torch.cat((a, b)), 1.0, 64)
        return torch.add(y[len(x) :], y[: len(x)], alpha=2)


class FbgemmWithExcess(FbgemmInTwoParts):
    """FBGEMM's product of weights of which no two neighbours saturate, and a sparse product.

        W8 = S + E,   q W8^T = q S^T + q E^T

    FBGEMM adds the products of columns 2 j and 2 j + 1 in 16 bits. The codes of x are 1 to 255
    there, so two weights of the same sign may add up to 128 (255 * 128 < 2^15). E is what
    neighbours have above that, taken from the first of them: about one weight of 100. Where it is
    more than one of `DENSEST`, two parts are faster.
    """

    name = "fbgemm with excess"
    DENSEST = 40
    LARGEST = 2**24 // 127
    """Sums of products with codes of x are exact in float32 if those of a row of E are below."""

    def __init__(self, codes: Int[Tensor, "O I"], scale: Float[Tensor, " O"]) -> None:
        sums = codes[:, ::2].short()
        sums[:, : codes.shape[1] // 2] += codes[:, 1::2]  # an odd last column has no neighbour
        excess = sums.sub_(sums.clamp(-128, 128))
        is_sparse = int(excess.count_nonzero()) * self.DENSEST <= codes.numel()
        adds_exactly = int(excess.abs().sum(1).max()) < self.LARGEST
        self._excess = _sparse(excess) if is_sparse and adds_exactly else None
        if self._excess is not None:
            codes = codes.clone()
            codes[:, ::2] -= excess
        super().__init__(codes, scale)
        self._scale = scale / 127

    def codes(self) -> Int[Tensor, "O I"]:
        codes = super().codes()
        if self._excess is not None:
            codes[:, ::2] += self._excess.to_dense().to(torch.int8)
        return codes

    def __call__(self, x: Float[Tensor, "R I"]) -> Float[Tensor, "R O"]:
        if self._excess is None:
            return super().__call__(x)
        q = (x * 127).round_()
        excess: Tensor = self._excess.matmul(q[:, ::2].t()).t()
        # not one operation, which may round once or twice, depending on the number of rows
        return self._product(q, 1.0, 128).add_(excess.mul_(self._scale))


def _sparse(matrix: Int[Tensor, "O J"]) -> Tensor:
    """Return the matrix in float32 as compressed rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch may change how they work
        rows = matrix.float().to_sparse_csr()
        # MKL reads indices of 32 bits; torch would convert others at every product
        indices = rows.crow_indices().int(), rows.col_indices().int()
        return torch.sparse_csr_tensor(*indices, rows.values(), rows.shape)


class IntMM(Int8Kernel):
    """torch's product of two int8 matrices, which needs no layout of its own."""

    name = "int_mm"

    def __init__(self, codes: Int[Tensor, "O I"], scale: Float[Tensor, " O"]) -> None:
        self._codes, self._scale = codes, scale / 127

    def codes(self) -> Int[Tensor, "O I"]:
        return self._codes

    def __call__(self, x: Float[Tensor, "R I"]) -> Float[Tensor, "R O"]:
        rounded = (x * 127).round_().to(torch.int8)
        return torch._int_mm(rounded, self._codes.t()).float().mul_(self._scale)


class OneDNN(Int8Kernel):
    """oneDNN's product; it makes a kernel for each new number of rows, in 0.5 ms.

    For many rows, and on processors with AVX-VNNI and without AVX-512 for all.
    """

    name = "oneDNN"

    def __init__(self, codes: Int[Tensor, "O I"], scale: Float[Tensor, " O"]) -> None:
        self._packed = torch.ops.onednn.qlinear_prepack(codes, None)
        # one factor, as FBGEMM has it, so that both give the same bits
        self._scale = scale.float() * torch.tensor(1 / 127)
        self._zeros = torch.zeros(len(scale), dtype=torch.int32)

    def codes(self) -> Int[Tensor, "O I"]:
        codes: Tensor = self._packed.to_dense().t()
        return codes.contiguous()

    def __call__(self, x: Float[Tensor, "R I"]) -> Float[Tensor, "R O"]:
        return torch.ops.onednn.qlinear_pointwise(
            qx=_rounded(x),
            x_scale=1.0,
            x_zero_point=128,
            qw=self._packed,
            w_scale=self._scale,
            w_zero_point=self._zeros,
            bias=None,
            output_scale=1.0,
            output_zero_point=0,
            output_dtype=torch.float32,
            post_op_name="none",
            post_op_args=[],
            post_op_algorithm="",
        )


def _rounded(x: Float[Tensor, "R I"]) -> Tensor:
    """Return the codes round(127 x) + 128, from 0 to 255.

    As torch's quantised tensor, whose memory is read as that of codes: `int_repr` copies it, which
    takes four times as long as the rounding.
    """
    quantized = torch.quantize_per_tensor(x, 1 / 127, 128, torch.quint8)
    codes = torch.empty(0, dtype=torch.uint8)
    return codes.set_(quantized.untyped_storage(), 0, quantized.shape, quantized.stride())


KERNELS: tuple[type[Int8Kernel], ...] = (Fbgemm, OneDNN, FbgemmWithExcess, IntMM)
MANY_ROWS, MANY_PRODUCTS = 256, 1 << 28
"""Rows, and multiplications, from which oneDNN's product pays for a second copy of the codes."""


@cache
def int8_kernel() -> type[Int8Kernel] | None:
    """Return the fastest exact kernel of this machine; None if there is none."""
    chosen: type[Int8Kernel] | None = None
    for kernel in KERNELS:
        if not is_exact(kernel) or (chosen is not None and issubclass(kernel, chosen)):
            continue  # a subclass does more of the same
        if chosen is None or _time(kernel) * MARGIN < _time(chosen):
            chosen = kernel
    return chosen


@cache
def kernel_of_many_rows() -> type[Int8Kernel] | None:
    """Return the kernel that is faster than `int8_kernel()` for many rows; None if none is."""
    few = int8_kernel()
    if few is None or not is_exact(OneDNN):
        return None
    return OneDNN if _time(OneDNN, (512,)) < _time(few, (512,)) else None


@cache
def is_exact(kernel: type[Int8Kernel]) -> bool:
    """Whether the kernel exists and its sums of the largest products are those of integers."""
    largest = torch.full((64, 256), 127, dtype=torch.int8)
    largest[1::2, ::2] = -127
    largest[2::4, 1::3] = 5
    neighbours = torch.tensor([127, 1, 64, 64, -1, -127, 127, -127], dtype=torch.int8)
    few_exceed = neighbours.repeat(64, 32)
    few_exceed[:, 100:104] = 127
    x = torch.tensor([[1.0], [-1.0], [0.5]]) * torch.linspace(0.9, 1, 256)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch may drop quantised tensors
            return all(_computes(kernel, x, codes) for codes in (largest, few_exceed))
    except (RuntimeError, AttributeError):  # the operator is missing
        return False


def _computes(kernel: type[Int8Kernel], x: Tensor, codes: Tensor) -> bool:
    expected = (x * 127).round().double() @ codes.double().T / 127
    y = kernel(codes, torch.ones(len(codes)))(x)
    return bool(torch.allclose(y.double(), expected, rtol=1e-5, atol=1e-3))


@cache
def _time(kernel: type[Int8Kernel], rows: tuple[int, ...] = (1, 8)) -> float:
    """Return the seconds of products of these rows, of matrices larger than a cache."""
    # in a thread that ends, as one core is measured and other threads keep their number of cores
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_time_on_one_core, kernel, rows).result()


def _time_on_one_core(kernel: type[Int8Kernel], rows: tuple[int, ...]) -> float:
    """With several cores, which may be busy, times vary more than kernels differ."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        random = torch.Generator().manual_seed(0)
        # as those of a model: of a normal distribution whose largest values are about 4 deviations
        codes = torch.randn(2048, 2048, generator=random).mul_(32).clamp_(-127, 127).to(torch.int8)
        scale = torch.ones(2048)
        matrices = [kernel(codes, scale) for _ in range(6 if max(rows) < MANY_ROWS else 1)]
        inputs = [torch.ones(count, 2048) for count in rows]
        seconds = []
        for _ in range(5):
            start = time.perf_counter()
            for matrix in matrices:
                for x in inputs:
                    matrix(x)
            seconds.append(time.perf_counter() - start)
        return min(seconds)
    finally:
        torch.set_num_threads(threads)
