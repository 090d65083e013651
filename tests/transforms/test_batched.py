"""Batched products by oneDNN: float32's numbers, and the program's own setting afterwards."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import pytest
import torch
from torch.testing import assert_close

from headway.attention import Additive, Mask
from headway.transforms.fast import batched as module
from headway.transforms.fast.batched import WORK, batched_product, onednn_is_faster, prefers_onednn
from headway.transforms.fast.dot import FusedDot
from headway.transforms.fast.linear import available
from headway.transforms.fast.table import fast

MATMUL = torch.backends.mkldnn.matmul
SIZES = [(96, 40, 30, 20), (2, 197, 197, 64), (384, 5, 33, 65), (3, 129, 1, 257)]


@pytest.fixture
def by_onednn(monkeypatch):
    if not available() or not onednn_is_faster():
        pytest.skip("oneDNN has no batched products on this processor that are faster than MKL's")
    monkeypatch.setattr(module, "WORK", 0)


@pytest.fixture
def settings(monkeypatch):
    """The setting at each product."""
    seen = []

    def recorded(original, *args, **kwargs):
        seen.append(MATMUL.fp32_precision)
        return original(*args, **kwargs)

    for name in ("bmm", "baddbmm", "einsum"):
        monkeypatch.setattr(torch, name, partial(recorded, getattr(torch, name)))
    return seen


@pytest.mark.parametrize("transposed", ["neither", "first", "second"])
@pytest.mark.parametrize("size", SIZES)
def test_products_have_the_precision_of_float32(by_onednn, settings, size, transposed):
    count, rows, inner, columns = size
    a, b = torch.randn(count, rows, inner), torch.randn(count, inner, columns)
    if transposed == "first":
        a = a.transpose(1, 2).contiguous().transpose(1, 2)
    if transposed == "second":
        b = b.transpose(1, 2).contiguous().transpose(1, 2)
    expected = (a.double() @ b.double()).float()
    largest = 4e-6 * inner**0.5
    assert_close(batched_product(a, b, by_onednn=True), expected, rtol=0, atol=largest)
    out = torch.full((count + 1, rows, columns), torch.nan)
    batched_product(a, b, 3.0, by_onednn=True, out=out[1:])
    assert_close(out[1:], 3 * expected, rtol=0, atol=3 * largest)
    assert out[0].isnan().all()
    assert settings == ["bf16", "bf16"]
    assert MATMUL.fp32_precision != "bf16"


def test_the_projections_of_additive_scores_are_onednns(by_onednn, settings):
    kernel = fast(Additive(2, 16, 16, 24))
    q, k = torch.randn(3, 2, 7, 16, requires_grad=True), torch.randn(3, 2, 9, 16)
    kernel.scores(q, k).sum().backward()
    assert set(settings) == {"bf16"}
    assert (
        len(settings) == 8
    )  # forward 2, again for the gradient 2, and the gradients of both factors


def test_only_large_products_of_float32_without_autocast_are_onednns(monkeypatch):
    monkeypatch.setattr(module, "onednn_is_faster", lambda: True)
    x = torch.zeros(2)
    assert prefers_onednn(WORK, x, x)
    assert not prefers_onednn(WORK - 1, x, x)
    assert not prefers_onednn(WORK, x, x.double())
    assert not prefers_onednn(WORK, x.bfloat16(), x.bfloat16())
    assert not prefers_onednn(WORK, x.to("meta"), x)
    with torch.autocast("cpu", torch.bfloat16):
        assert not prefers_onednn(WORK, x, x)
    monkeypatch.setattr(module, "onednn_is_faster", lambda: False)
    assert not prefers_onednn(WORK, x, x)


@pytest.mark.parametrize(("queries", "setting"), [(2, "its own"), (150, "bf16")])
def test_products_of_few_rows_are_left_to_torch(by_onednn, settings, queries, setting):
    q, k = torch.randn(4, 3, queries, 16), torch.randn(4, 3, 150, 16)
    with torch.no_grad():
        FusedDot()(q, k, k, Mask(keys=torch.ones(4, 150, dtype=torch.bool)))
    setting = MATMUL.fp32_precision if setting == "its own" else setting
    assert settings == [setting, setting]


@pytest.mark.parametrize(
    ("instructions", "capability"),
    [
        (("amx_bf16", "avx512_bf16"), "AVX512"),  # tiles would multiply in bfloat16
        (None, "AVX512"),  # unknown
        ((), "AVX2"),  # MKL is faster
    ],
)
def test_other_processors_keep_mkl(monkeypatch, instructions, capability):
    monkeypatch.setattr(module, "bfloat16_instructions", lambda: instructions)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert not onednn_is_faster.__wrapped__()


def test_a_product_that_is_rounded_to_bfloat16_is_refused(monkeypatch):
    monkeypatch.setattr(module, "bfloat16_instructions", tuple)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    assert onednn_is_faster.__wrapped__() == available()
    original = module._torchs_product

    def rounded(a, b, scale, out):
        return original(a.bfloat16().float(), b.bfloat16().float(), scale, out)

    monkeypatch.setattr(module, "_torchs_product", rounded)
    assert not onednn_is_faster.__wrapped__()


def test_the_programs_own_setting_holds_after_products_of_several_threads():
    barrier = Barrier(3, timeout=60)

    def multiply(_):
        for _ in range(200):
            with module._permission.given():
                assert MATMUL.fp32_precision == "bf16"
            barrier.wait()

    before = MATMUL.fp32_precision
    try:
        MATMUL.fp32_precision = "ieee"
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(multiply, range(3)))
        assert MATMUL.fp32_precision == "ieee"
        with pytest.raises(KeyError), module._permission.given():
            raise KeyError
        assert MATMUL.fp32_precision == "ieee"
    finally:
        MATMUL.fp32_precision = before
