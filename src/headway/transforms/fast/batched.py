"""Products in float32 on a CPU for which torch has one operator, by the faster of its libraries.

Batched products, those of a GRU and `einsum` go to MKL, as those of linear layers do (`linear.py`).
oneDNN takes 0.35 to 0.65 of the time on processors with AVX-512 that are not Intel's, but torch has
no operator for it. torch does send such products to oneDNN where the program permits that they are
computed in bfloat16. Only on processors with matrix tiles (AMX) does oneDNN use the permission;
elsewhere it multiplies in float32. So the permission is given, for the time of a product, on
processors with AVX-512 and without tiles, after one product has shown that its result is float32's.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from threading import Lock
from typing import Any

import torch

from headway.base.devices import bfloat16_instructions
from headway.base.shapes import Float, Tensor
from headway.transforms.fast.linear import available

WORK = 1 << 25
"""Fewer multiplications are not worth the 0.4 ms in which oneDNN makes a kernel for a new shape, as
every batch of sentences has."""


def batched_product(
    a: Float[Tensor, "N T K"],
    b: Float[Tensor, "N K S"],
    scale: float = 1.0,
    *,
    by_onednn: bool,
    out: Float[Tensor, "N T S"] | None = None,
) -> Float[Tensor, "N T S"]:
    """Return scale a b of each pair of matrices, outside autograd; into `out` if it is given."""
    if not by_onednn:
        return _torchs_product(a, b, scale, out)
    with torch_uses_onednn():
        return _torchs_product(a, b, scale, out)


def fast_products(work: int, *operands: Tensor) -> AbstractContextManager[None]:
    """Return the context in which torch multiplies these by the faster library.

    work: number of multiplications. For operators that have no call for each library.
    """
    return torch_uses_onednn() if prefers_onednn(work, *operands) else nullcontext()


def prefers_onednn(work: int, *operands: Tensor) -> bool:
    """Whether such products are faster by oneDNN: in float32 on a CPU, large, without autocast.

    work: number of multiplications of all products of the same shape.
    """
    if work < WORK or torch.is_autocast_enabled("cpu"):
        return False
    return all(x.is_cpu and x.dtype == torch.float32 for x in operands) and onednn_is_faster()


def torch_uses_onednn() -> AbstractContextManager[None]:
    """Let torch's own products of float32 be oneDNN's."""
    return _permission.given()


def _torchs_product(a: Tensor, b: Tensor, scale: float, out: Tensor | None) -> Tensor:
    if scale == 1:
        return torch.bmm(a, b, out=out)
    unused = a.new_empty(())  # multiplied by beta=0
    return torch.baddbmm(unused, a, b, beta=0, alpha=scale, out=out)


@cache
def onednn_is_faster() -> bool:
    """Whether oneDNN can be reached on this processor, is faster than MKL, and exact."""
    matmul: Any = getattr(torch.backends.mkldnn, "matmul", None)
    instructions = bfloat16_instructions()
    has_tiles = instructions is None or "amx_bf16" in instructions
    is_wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    if not (available() and hasattr(matmul, "fp32_precision") and is_wide) or has_tiles:
        return False
    numbers = torch.arange(2 * 128 * 192).double().sin().view(2, 128, 192)
    a, b = numbers, numbers.transpose(1, 2)
    with torch_uses_onednn():
        product = _torchs_product(a.float(), b.float(), 0.5, None)
    # rounded to bfloat16, the factors would change the entries by some 1e-2
    return bool(torch.allclose(product.double(), torch.bmm(a, b) / 2, rtol=0, atol=1e-4))


class _Permission:
    """The permission to compute float32 products in bfloat16, which all threads share.

    It lasts until the last of the threads that need it has its product; then the program's own
    setting holds again.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._threads = 0
        self._before = ""

    @contextmanager
    def given(self) -> Iterator[None]:
        mkldnn: Any = torch.backends.mkldnn
        matmul = mkldnn.matmul
        with self._lock:
            if self._threads == 0:
                self._before = matmul.fp32_precision
                matmul.fp32_precision = "bf16"
            self._threads += 1
        try:
            yield
        finally:
            with self._lock:
                self._threads -= 1
                if self._threads == 0:
                    matmul.fp32_precision = self._before


_permission = _Permission()
