"""The products of integers: exact sums, or not used."""

from copy import deepcopy

import pytest
import torch
from torch.testing import assert_close

from headway.transforms.fast import int8
from headway.transforms.fast.int8 import (
    KERNELS,
    Fbgemm,
    FbgemmInTwoParts,
    FbgemmWithExcess,
    IntMM,
    int8_kernel,
)
from headway.transforms.quantize.numbers import Int8


@pytest.mark.parametrize("kernel", (*KERNELS, FbgemmInTwoParts), ids=lambda kernel: kernel.name)
def test_each_kernel_sums_integers_exactly_and_returns_its_codes(kernel):
    matrix = torch.randn(70, 90) * torch.linspace(0.1, 3, 70)[:, None]
    stored = Int8.encode(matrix)
    if kernel is Fbgemm and not int8.is_exact(Fbgemm):
        stored["weight_int8"] //= 2  # codes of 7 bits do not saturate on any processor
    product = kernel(stored["weight_int8"], stored["weight_scale"])
    assert torch.equal(product.codes(), stored["weight_int8"])
    x = torch.rand(5, 90) * 2 - 1
    expected = (x * 127).round().double() / 127 @ Int8.decode(stored).double().T
    assert_close(product(x).double(), expected, rtol=1e-5, atol=1e-5)


def test_a_kernel_that_is_missing_or_saturates_is_not_used(monkeypatch):
    class Missing(IntMM):
        def __call__(self, x):
            raise RuntimeError

    class Saturating(IntMM):
        def __call__(self, x):
            return super().__call__(x).clamp(-20_000, 20_000)

    cases = [((Missing, IntMM), IntMM), ((Saturating,), None)]
    cases += [((kernel,), kernel) for kernel in (FbgemmInTwoParts, FbgemmWithExcess, IntMM)]
    for tables, chosen in cases:
        with monkeypatch.context() as changes:
            changes.setattr(int8, "KERNELS", tables)
            int8_kernel.cache_clear()
            try:
                assert int8_kernel() is chosen
            finally:
                int8_kernel.cache_clear()


def test_the_parts_of_codes_do_not_saturate_where_the_codes_do():
    """The largest sums of pairs, on any processor; each row has the same bits in any batch."""
    codes = torch.full((64, 256), 127, dtype=torch.int8)
    codes[1::2] = -127
    product = FbgemmInTwoParts(codes, torch.ones(64))
    x = torch.tensor([[1.0], [-1.0], [0.5], [-0.004]]).expand(4, 256)
    expected = (x * 127).round().double() @ codes.double().T / 127
    assert_close(product(x).double(), expected, rtol=1e-6, atol=1e-4)
    for i in range(4):
        assert torch.equal(product(x[i : i + 1])[0], product(x)[i])


@pytest.mark.parametrize("inputs", [96, 97])
def test_what_neighbours_have_above_the_largest_sum_is_added_by_a_sparse_product(inputs):
    """Sums are those of integers, and each row has the same bits in any batch."""
    codes = torch.randint(-64, 65, (50, inputs), dtype=torch.int8)
    codes[::7, 10:12] = 127
    codes[3, 20:24] = torch.tensor([-127, -127, 127, 2])
    product = FbgemmWithExcess(codes, torch.full((50,), 127.0))
    assert product._excess is not None and 0 < len(product._excess.values()) < 12
    assert torch.equal(product.codes(), codes)
    x = torch.rand(19, inputs) * 2 - 1
    x[0] = 1
    expected = (x * 127).round().long() @ codes.long().T
    y = product(x)
    assert torch.equal(y.long(), expected) and torch.equal(y, y.round())
    assert torch.equal(deepcopy(product)(x), y)
    for i in range(len(x)):
        assert torch.equal(product(x[i : i + 1])[0], y[i])


def test_a_matrix_with_much_excess_is_multiplied_in_two_parts():
    codes = torch.full((64, 256), 127, dtype=torch.int8)
    product = FbgemmWithExcess(codes, torch.ones(64))
    assert product._excess is None and torch.equal(product.codes(), codes)
    x = torch.rand(3, 256)
    assert torch.equal(product(x), FbgemmInTwoParts(codes, torch.ones(64))(x))
