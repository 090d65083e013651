"""Compiled products of few vectors: numbers, bits, layouts, and machines without them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import headway
from headway.transforms.fast import loops
from headway.transforms.fast.linear import FastLinear
from headway.transforms.fast.loops import CodedMatrix
from headway.transforms.quantize.layers import rounded_inputs
from headway.transforms.quantize.numbers import GROUPS, Int4, Int8

needs_loops = pytest.mark.skipif(not loops.instructions(), reason="the loops are not compiled")
SHAPES = [(70, 90), (64, 96), (5, 3), (33, 200), (8, 32), (16, 64), (1, 1), (21, 1101)]
ROWS = [1, 2, 3, 4, 5, 7, 19, 300]  # 300: more than are rounded or copied at once


@pytest.fixture(params=loops.available_sets(), ids=loops.SET_NAMES.get)
def instructions(request, monkeypatch):
    monkeypatch.setattr(loops, "instructions", lambda: request.param)
    return request.param


@needs_loops
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_equal_those_of_float64(instructions, shape, dtype):
    outputs, inputs = shape
    weight, bias = torch.randn(outputs, inputs).to(dtype), torch.randn(outputs)
    for rows in ROWS:
        x = torch.randn(rows, inputs)
        for b in (bias, None):
            expected = F.linear(x.double(), weight.double(), None if b is None else b.double())
            actual = loops.product(x, weight, b)
            assert_close(actual.double(), expected, rtol=1e-5, atol=1e-4)


@needs_loops
@pytest.mark.parametrize("numbers", [(Int8, 32), *((Int4, group) for group in GROUPS)])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_of_codes_equal_those_of_the_numbers_they_stand_for(instructions, shape, numbers):
    outputs, inputs = shape
    kind, group = numbers
    stored = kind.encode(torch.randn(outputs, inputs), group)
    matrix, bias = CodedMatrix([stored]), torch.randn(outputs)
    assert torch.equal(matrix.codes(), stored[kind.names[0]])
    weight = kind.decode(stored)[:, :inputs].double()
    for rows in ROWS:
        x = 3 * torch.randn(rows, inputs)
        for b in (bias, None):
            expected = F.linear(rounded_inputs(x).double(), weight, b if b is None else b.double())
            assert_close(matrix(x, b).double(), expected, rtol=1e-5, atol=1e-4)


@needs_loops
def test_the_largest_sums_are_exact(instructions):
    """Pairs of products beyond 16 bits, where instructions for fewer bits would saturate."""
    codes = torch.full((40, 256), 127, dtype=torch.int8)
    codes[1::2, ::2] = -127
    codes[2::4, 1::3] = 5
    stored = {"weight_int8": codes, "weight_scale": torch.ones(40, 8, dtype=torch.bfloat16)}
    x = torch.tensor([[127.0], [-127.0], [1.0]]).repeat(1, 256)
    x[0, 1::2] = -127
    for rows in (x, x[:1], x[1:2], x[2:], x[2:].expand(5, -1), x.repeat(14, 1)):
        assert torch.equal(CodedMatrix([stored])(rows), rows @ codes.float().T)
    of_int4 = Int4.encode(torch.ones(40, 256))
    of_int4["weight_int4"].fill_(255)
    expected = x @ Int4.decode(of_int4).T
    assert_close(CodedMatrix([of_int4])(x), expected, rtol=1e-6, atol=0.05)


@needs_loops
def test_codes_of_several_layers_are_one_matrix(instructions):
    parts = [Int8.encode(torch.randn(rows, 70)) for rows in (5, 33, 8)]
    x = torch.randn(3, 70)
    together = CodedMatrix(parts)(x)
    assert torch.equal(together, torch.cat([CodedMatrix([part])(x) for part in parts], 1))


@needs_loops
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, Int8, Int4])
@pytest.mark.parametrize("inputs", [200, 1100])
def test_a_row_has_the_same_bits_for_any_number_of_rows_and_threads(instructions, kind, inputs):
    weight, bias = torch.randn(150, inputs), torch.randn(150)

    def compute(x):
        if isinstance(kind, torch.dtype):
            return loops.product(x, weight.to(kind), bias)
        return CodedMatrix([kind.encode(weight)])(x, bias)

    x = torch.randn(140, inputs)
    expected = compute(x)
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            for rows in (*range(1, 10), 35, 95, 127, 131):
                assert torch.equal(compute(x[:rows].contiguous()), expected[:rows])
    finally:
        torch.set_num_threads(threads)


@needs_loops
@pytest.mark.parametrize("kind", [Int8, Int4])
def test_a_row_without_negative_numbers_has_the_same_bits_beside_any_other(instructions, kind):
    """Products of a matrix with numbers after relu may be computed in another way."""
    matrix, x = CodedMatrix([kind.encode(torch.randn(70, 90))]), torch.randn(6, 90).relu()
    x[1, ::3] = -0.0
    positive = matrix(x)
    for copies in (1, 5):  # many rows are multiplied in yet another way
        beside = matrix(torch.cat((x, -x)).repeat(copies, 1))
        assert torch.equal(beside, torch.cat((positive, -positive)).repeat(copies, 1))
    for row, alone in zip(positive, x, strict=True):
        assert torch.equal(matrix(alone[None])[0], row)
        assert torch.equal(matrix(-alone[None])[0], -row)


@needs_loops
def test_numbers_that_are_not_finite_stay_so(instructions):
    x = torch.randn(4, 64)
    x[1, 5], x[2, 40], x[3] = torch.nan, torch.inf, 0
    for kind in (Int8, Int4):
        matrix = CodedMatrix([kind.encode(torch.randn(9, 64))])
        for y in (matrix(x), matrix(x.repeat(9, 1))):
            assert bool(y[0].isfinite().all()) and not bool(y[1:3].isfinite().any())
            assert torch.equal(y[3], torch.zeros(9))
    y = loops.product(x, torch.randn(9, 64), None)
    assert bool(y[0].isfinite().all()) and not bool(y[1:3].isfinite().any())


@needs_loops
def test_a_linear_layer_uses_the_loops_for_few_rows_outside_autograd(monkeypatch):
    rows, compute = [], loops.product
    monkeypatch.setattr(loops, "product", lambda x, *rest: rows.append(len(x)) or compute(x, *rest))
    layer, x = FastLinear(128, 256), torch.randn(130, 128)
    expected = F.linear(x, layer.weight, layer.bias)
    assert_close(layer(x[:1]), expected[:1])
    assert not rows  # gradients were wanted
    with torch.no_grad():
        assert_close(layer(x[:2].view(2, 1, 128)), expected[:2].view(2, 1, 256))
        assert_close(layer(x), expected)
        assert_close(layer(x.T.contiguous().T[:1]), expected[:1])  # rows not side by side
    assert rows == [2, 1]
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert layer(x[:1]).dtype == torch.bfloat16
    assert rows == [2, 1]


def test_an_installation_without_a_compiler_computes_by_torch(monkeypatch, tmp_path):
    monkeypatch.setattr(loops, "__file__", str(tmp_path / "loops.py"))
    (tmp_path / "_loops.so").write_bytes(b"of another machine")
    if compiled := next(Path(headway.__file__).parent.glob("transforms/fast/_loops*.so"), None):
        shutil.copy(compiled, tmp_path / "_loops2.so")
        monkeypatch.setattr(loops, "Matrix", loops.ctypes.c_int64)  # of another version of Headway
    try:
        loops.library.cache_clear()
        loops.available_sets.cache_clear()
        assert loops.instructions() == loops.NONE
        assert "not compiled" in loops.description()
        layer, x = FastLinear(200, 300), torch.randn(1, 200)
        with torch.no_grad():
            assert_close(layer(x), F.linear(x, layer.weight, layer.bias))
    finally:
        monkeypatch.undo()
        loops.library.cache_clear()
        loops.available_sets.cache_clear()


@needs_loops
@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param({"ATEN_CPU_CAPABILITY": "default"}, "NONE", marks=pytest.mark.slow),
        ({"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}, "AVX2"),
    ],
)
def test_limits_of_torchs_instructions_hold_for_the_loops(limits, expected):
    code = f"""
        from headway.transforms.fast import loops
        assert loops.instructions() == loops.{expected}, loops.instructions()
    """
    environment = {**os.environ, **limits}
    subprocess.run([sys.executable, "-c", "if 1:" + code], env=environment, check=True)
