"""Tensors are read back bit for bit; invalid headers are refused; pickles are never loaded."""

from __future__ import annotations

import json
import pickle
import random

import pytest
import torch
from safetensors.torch import load_file
from tests.fixtures.cpu_time import within

from headway.base.errors import DataError
from headway.base.tensors import (
    HEADER_LIMIT,
    TENSOR_LIMIT,
    read_tensors,
    stored_tensors,
    write_tensors,
)


def some_tensors():
    return {
        "weight": torch.randn(2, 5, 7),
        "half": torch.randn(3, 4).bfloat16(),
        "count": torch.tensor(2**40),
        "empty": torch.zeros(0, 3),
        "flags": torch.tensor([True, False, True]),
        "bytes": torch.arange(5, dtype=torch.uint8),
        "odd": torch.tensor([float("nan"), float("inf"), -0.0]),
    }


def assert_same_tensors(first, second):
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert tensor.dtype == second[name].dtype
        assert torch.equal(tensor, second[name]) or name == "odd"
        assert tensor.shape == second[name].shape
    assert torch.equal(first["odd"].view(torch.int32), second["odd"].view(torch.int32))


def raw(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(shape, end, begin=0, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def test_tensors_are_read_back_bit_for_bit(tmp_path):
    tensors = some_tensors()
    write_tensors(tmp_path / "a", tensors)
    assert_same_tensors(read_tensors(tmp_path / "a"), tensors)
    assert_same_tensors(load_file(tmp_path / "a"), tensors)  # the library that defines the format


def test_rows_are_read_from_the_files_that_have_them(tmp_path):
    whole = torch.arange(14.0).view(7, 2)
    paths = [tmp_path / name for name in "abc"]
    for path, rows in zip(paths, whole.split([3, 4, 0]), strict=True):
        others = {"of file": torch.tensor(1.5)} if path == paths[0] else {}
        write_tensors(path, {"x": rows, **others})
    with stored_tensors(paths) as tensors:
        x, number = tensors["x"], tensors["of file"]
        assert x.shape == (7, 2) and number.shape == () and number.whole() == 1.5
        assert number.rows(slice(None)) == 1.5
        for rows in (slice(None), slice(0, 2), slice(2, 5), slice(3, 7), slice(6, 9), slice(7, 7)):
            assert torch.equal(x.rows(rows), whole[rows]), rows


def test_files_whose_rows_do_not_fit_together_are_refused(tmp_path):
    for name, width in (("a", 2), ("b", 3)):
        write_tensors(tmp_path / name, {"x": torch.ones(4, width)})
    with (
        pytest.raises(DataError, match="rows of another shape"),
        stored_tensors([tmp_path / "a", tmp_path / "b"]),
    ):
        pass
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[:-1])
    with pytest.raises(DataError), stored_tensors([tmp_path / "a"]):
        pass


def test_metadata_is_in_the_header(tmp_path):
    write_tensors(tmp_path / "a", {"x": torch.ones(2)}, {"format": "pt", "step": "3"})
    assert b'"step":"3"' in (tmp_path / "a").read_bytes()
    assert list(read_tensors(tmp_path / "a")) == ["x"]


def test_views_and_shared_memory_are_each_stored_whole(tmp_path):
    base = torch.arange(30.0).view(5, 6)
    tensors = {"all": base, "tied": base, "rows": base[1:3], "turned": base.T, "step": base[::2]}
    write_tensors(tmp_path / "a", tensors)
    loaded = read_tensors(tmp_path / "a")
    assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())
    assert len({tensor.data_ptr() for tensor in loaded.values()}) == len(tensors)


def test_a_file_may_be_overwritten_while_its_tensors_are_in_use(tmp_path):
    tensors = {"weight": torch.randn(50, 70)}
    expected = tensors["weight"].clone()
    write_tensors(tmp_path / "a", tensors)
    for _ in range(50):
        loaded = read_tensors(tmp_path / "a")
        loaded["weight"] += 1
        expected += 1
        write_tensors(tmp_path / "a", loaded)
        assert torch.equal(loaded["weight"], expected)
    (tmp_path / "a").write_bytes(b"")
    assert torch.equal(loaded["weight"], expected)


@pytest.mark.parametrize("size", [640, 896, 1152, 1408])
def test_a_header_whose_length_looks_like_a_pickle_is_read(tmp_path, size):
    """These lengths are written as 80 02, 80 03 and so on: the first bytes of a pickle."""
    for length in range(size - 120, size):  # the header is padded to a multiple of 8
        write_tensors(tmp_path / "a", {"n": torch.ones(3)}, {"format": "pt", "note": "." * length})
        if int.from_bytes((tmp_path / "a").read_bytes()[:8], "little") == size:
            break
    assert (tmp_path / "a").read_bytes()[:1] == b"\x80"
    assert torch.equal(read_tensors(tmp_path / "a")["n"], torch.ones(3))


class Trap:
    """A pickle of this class creates a file when it is loaded."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.mark.parametrize("protocol", [2, 3, 4, 5, "torch", "torch-old"])
def test_a_pickle_is_refused_without_loading_it(tmp_path, protocol):
    canary, file = tmp_path / "canary", tmp_path / "model.bin"
    if isinstance(protocol, int):
        file.write_bytes(pickle.dumps(Trap(canary), protocol))
    else:
        torch.save(Trap(canary), file, _use_new_zipfile_serialization=protocol == "torch")
    with pytest.raises(DataError, match="pickle"):
        read_tensors(file)
    assert not canary.exists()


INVALID_FILES = {
    "nothing": b"",
    "seven bytes": b"\x02\0\0\0\0\0\0",
    "header longer than the file": raw({})[:-1],
    "header of 2^63 bytes": (2**63).to_bytes(8, "little") + b"{}",
    "header above the limit": (HEADER_LIMIT + 8).to_bytes(8, "little") + b" " * (HEADER_LIMIT + 8),
    "a list": raw([1]),
    "not JSON": raw(b'{"a":'),
    "a name twice": raw(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},' * 2 + b"}"),
    "data cut off": raw({"a": entry([2], 8)}, bytes(7)),
    "data left over": raw({"a": entry([2], 8)}, bytes(9)),
    "shape and size differ": raw({"a": entry([3], 8)}, bytes(8)),
    "overlap": raw({"a": entry([2], 8), "b": entry([2], 12, 4)}, bytes(12)),
    "hole": raw({"a": entry([1], 4), "b": entry([1], 12, 8)}, bytes(12)),
    "negative offset": raw({"a": entry([1], 4, -4)}, bytes(4)),
    "end before begin": raw({"a": entry([1], 0, 4)}, bytes(4)),
    "negative shape": raw({"a": entry([-1], 4)}, bytes(4)),
    "product overflows": raw({"a": entry([2**32, 2**32, 2**32], 4)}, bytes(4)),
    "shape of 2^63": raw({"a": entry([2**63], 4)}, bytes(4)),
    "empty, with a huge side": raw({"a": entry([0, 2**63], 0)}),
    "unknown dtype": raw({"a": entry([1], 4, dtype="F31")}, bytes(4)),
    "dtype unknown to torch": raw({"a": entry([2], 1, dtype="F4")}, bytes(1)),
    "no shape": raw({"a": {"dtype": "F32", "data_offsets": [0, 4]}}, bytes(4)),
    "a number for an entry": raw({"a": 3}),
    "a name of 513 bytes": raw({"é" * 257: entry([1], 4)}, bytes(4)),
    "half a character": raw(
        b'{"\\ud800":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', bytes(4)
    ),
    "nested without end": raw(b'{"a":' * 50_000),
}


@pytest.mark.parametrize("defect", INVALID_FILES)
def test_an_invalid_file_is_refused_by_name(tmp_path, defect):
    (tmp_path / "a").write_bytes(INVALID_FILES[defect])
    with within(2), pytest.raises(DataError) as caught:
        read_tensors(tmp_path / "a")
    assert str(tmp_path / "a") in str(caught.value)


def test_too_many_tensors_are_refused_before_they_are_built(tmp_path, monkeypatch):
    header = {f"t{n}": entry([0], 0) for n in range(TENSOR_LIMIT + 1)}
    (tmp_path / "a").write_bytes(raw(header))

    def build(_):
        raise AssertionError("the tensors were built")

    monkeypatch.setattr("safetensors.torch.load", build)
    with pytest.raises(DataError, match="100,001 tensors"):
        read_tensors(tmp_path / "a")


def test_random_damage_gives_tensors_or_a_data_error(tmp_path):
    write_tensors(tmp_path / "a", {name: t for name, t in some_tensors().items() if name != "odd"})
    whole = (tmp_path / "a").read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    generator = random.Random(3)
    for _ in range(400):
        damaged = bytearray(whole)
        for _ in range(generator.choice([1, 1, 2, 9])):
            damaged[generator.randrange(header)] = generator.randrange(256)
        (tmp_path / "b").write_bytes(damaged[: generator.choice([None, None, header, -1])])
        try:
            read_tensors(tmp_path / "b")
        except DataError as error:
            assert str(tmp_path / "b") in str(error)
