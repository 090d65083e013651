"""The products of integers: exact sums, or not used."""

import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from headway.transforms import quantize
from headway.transforms.fast import int8, quantized
from headway.transforms.fast.int8 import (
    KERNELS,
    Fbgemm,
    FbgemmInTwoParts,
    FbgemmWithExcess,
    IntMM,
    OneDNN,
    int8_kernel,
)
from headway.transforms.fast.table import prepare_for_inference
from headway.transforms.quantize.numbers import Int8


@pytest.fixture
def onednn():
    if not (int8.is_exact(Fbgemm) and int8.is_exact(OneDNN)):
        pytest.skip("oneDNN's or FBGEMM's product is missing, or not exact on this processor")


@pytest.mark.parametrize("kernel", (*KERNELS, FbgemmInTwoParts), ids=lambda kernel: kernel.name)
def test_each_kernel_sums_integers_exactly_and_returns_its_codes(kernel):
    matrix = torch.randn(70, 90) * torch.linspace(0.1, 3, 70)[:, None]
    stored = Int8.encode(matrix)
    if not int8.is_exact(kernel):
        stored["weight_int8"] //= 2  # codes of 7 bits do not saturate on any processor
    product = kernel(stored["weight_int8"], stored["weight_scale"])
    assert torch.equal(product.codes(), stored["weight_int8"])
    x = torch.rand(5, 90) * 2 - 1
    expected = (x * 127).round().double() / 127 @ Int8.decode(stored).double().T
    assert_close(product(x).double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 3, 300])
def test_onednns_product_has_the_bits_of_fbgemms_and_returns_its_codes(onednn, rows):
    """So a row's output does not depend on how many rows there are, which chooses between them."""
    stored = Int8.encode(torch.randn(70, 90) * torch.linspace(0.1, 3, 70)[:, None])
    codes, scale = stored["weight_int8"], stored["weight_scale"]
    x = torch.rand(rows, 90) * 2 - 1
    x[0, :3] = torch.tensor([-1, 1, 0.5 / 127])  # ends, and a tie
    product = OneDNN(codes, scale)
    assert torch.equal(product(x), Fbgemm(codes, scale)(x))
    assert torch.equal(product.codes(), codes)


@pytest.mark.parametrize(("copied", "rows"), [(True, 40), (True, 8), (False, 40)])
def test_many_rows_of_a_small_model_use_a_copy_of_the_codes(onednn, monkeypatch, copied, rows):
    monkeypatch.setattr(quantized, "MANY_ROWS", 20)
    monkeypatch.setattr(quantized, "MANY_PRODUCTS", 0)
    monkeypatch.setattr(quantized, "COPIED_BYTES", 1e6 if copied else 1)
    monkeypatch.setattr(quantized, "kernel_of_many_rows", lambda: OneDNN)
    x = torch.randn(rows, 90)
    model = quantize(nn.Sequential(nn.Linear(90, 70)), "int8")
    before = deepcopy(model.state_dict())
    expected = deepcopy(model)(x)
    prepare_for_inference(model)
    with torch.inference_mode():
        y = model(x)
    packed = model[0].packed
    kernels = {True: OneDNN, False: type(None)}
    assert type(packed._of_many) is kernels[copied and rows == 40]
    assert_close(y, expected, rtol=0, atol=1e-5)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_the_kernel_of_many_rows_is_one_that_is_exact_and_faster(monkeypatch):
    monkeypatch.setattr(int8, "int8_kernel", lambda: FbgemmWithExcess)
    monkeypatch.setattr(int8, "is_exact", lambda _: True)
    monkeypatch.setattr(int8, "_time", lambda kernel, _: 1.0 if kernel is OneDNN else 2.0)
    find = int8.kernel_of_many_rows.__wrapped__
    assert find() is OneDNN
    monkeypatch.setattr(int8, "_time", lambda kernel, _: 2.0 if kernel is OneDNN else 1.0)
    assert find() is None
    monkeypatch.setattr(int8, "is_exact", lambda kernel: kernel is not OneDNN)
    assert find() is None
    monkeypatch.setattr(int8, "int8_kernel", lambda: None)
    assert find() is None


def test_a_kernel_that_is_missing_or_saturates_is_not_used(monkeypatch):
    class Exact(IntMM):  # torch's product of integers saturates on some processors
        def __call__(self, x):
            return ((x * 127).round().double() @ self.codes().double().T / 127).float()

    class Missing(Exact):
        def __call__(self, x):
            raise RuntimeError

    class Saturating(Exact):
        def __call__(self, x):
            return super().__call__(x).clamp(-20_000, 20_000)

    cases = [((Missing, Exact), Exact), ((Saturating,), None)]
    cases += [((kernel,), kernel) for kernel in (FbgemmInTwoParts, FbgemmWithExcess)]
    for tables, chosen in cases:
        with monkeypatch.context() as changes:
            changes.setattr(int8, "KERNELS", tables)
            int8_kernel.cache_clear()
            try:
                assert int8_kernel() is chosen
            finally:
                int8_kernel.cache_clear()


def test_the_first_exact_kernel_is_used_unless_a_later_one_is_clearly_faster(monkeypatch):
    def chosen(exact, **seconds):
        monkeypatch.setattr(int8, "is_exact", lambda kernel: kernel in exact)
        monkeypatch.setattr(int8, "_time", lambda kernel: seconds[kernel.__name__])
        return int8_kernel.__wrapped__()

    others = {"FbgemmWithExcess": 1.0, "IntMM": 2.0}
    assert chosen(KERNELS, Fbgemm=1.0, OneDNN=0.9, **others) is Fbgemm
    assert chosen(KERNELS, Fbgemm=1.0, OneDNN=0.7, **others) is OneDNN
    without_avx512 = [OneDNN, FbgemmWithExcess]
    assert chosen(without_avx512, OneDNN=1.0, FbgemmWithExcess=0.9) is OneDNN
    assert chosen(without_avx512, OneDNN=1.0, FbgemmWithExcess=0.5) is FbgemmWithExcess
    assert chosen([]) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("instructions", "kernel"),
    [("AVX2_VNNI", "oneDNN"), ("AVX2", "fbgemm with excess")],
)
def test_a_processor_without_avx512_has_an_exact_kernel(instructions, kernel):
    """The libraries are told to use no other instructions than such a processor has."""
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists() or "avx_vnni" not in cpuinfo.read_text(encoding="utf-8").split():
        pytest.skip("this processor has no AVX-VNNI")
    program = """if True:
        import torch
        from headway.transforms.fast.int8 import int8_kernel
        from tests.transforms.test_int8_kernels import extremes
        codes, x, expected = extremes()
        kernel = int8_kernel()
        y = kernel(codes, torch.ones(len(codes)))(x)
        assert torch.allclose(y.double(), expected, rtol=1e-6, atol=1e-4)
        print(kernel.name)
    """
    limits = {"FBGEMM_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": instructions}
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={**os.environ, **limits},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert found.stdout.strip() == kernel, found.stderr


def extremes():
    """Codes and inputs whose sums of pairs are the largest, and the product."""
    codes = torch.full((64, 256), 127, dtype=torch.int8)
    codes[1::2] = -127
    x = torch.tensor([[1.0], [-1.0], [0.5], [-0.004]]).expand(4, 256)
    return codes, x, (x * 127).round().double() @ codes.double().T / 127


def test_the_parts_of_codes_do_not_saturate_where_the_codes_do():
    """The largest sums of pairs, on any processor; each row has the same bits in any batch."""
    codes, x, expected = extremes()
    product = FbgemmInTwoParts(codes, torch.ones(64))
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
