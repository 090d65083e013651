"""Stores: arrays are read back unchanged, and damaged or hostile folders are refused."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from headway.base.errors import DataError, UsageError
from headway.data.store import DESCRIPTION_FILE, Store, new_store
from tests.fixtures.manifests import flip_one_bit, reseal

IDS = [[5, 65535, 7], [1], [2, 3]]


@pytest.fixture
def folder(tmp_path):
    with new_store(tmp_path / "store", "abc") as store:
        store.append_sequences("ids", IDS[:1], "uint16")
        store.append_sequences("ids", [[1], [2]], "uint16")
        store.append("ids", [3], "uint16")
        store.append_sequences("links", [[], [4, 5], []], "uint32")
        for i in range(3):
            store.append("pixels", np.full((1, 2, 3), i), "uint8")
        store.append("labels", [0, 1, -1], "int32")
        store.metadata["bytes"] = 9
    return tmp_path / "store"


def read(folder, fingerprint="abc"):
    """Return all arrays of the store."""
    store = Store.open(folder, fingerprint, "tokenizer")
    return {
        "ids": store.sequences("ids", "uint16"),
        "links": store.sequences("links", "uint32", may_be_empty=True),
        "pixels": store.array("pixels", "uint8", (2, 3)),
        "labels": store.array("labels", "int32"),
    }


def rows(values, offsets):
    return [part.tolist() for part in np.split(values, offsets[1:-1])]


def test_arrays_and_metadata_are_read_back_unchanged(folder):
    arrays = read(folder)
    assert rows(*arrays["ids"]) == IDS and rows(*arrays["links"]) == [[], [4, 5], []]
    assert arrays["pixels"].tolist() == np.arange(3).repeat(6).reshape(3, 2, 3).tolist()
    assert arrays["labels"].tolist() == [0, 1, -1]
    assert Store.open(folder, "abc", "tokenizer").number("bytes", least=9) == 9
    mapped = (*arrays["ids"], *arrays["links"], arrays["pixels"], arrays["labels"])
    assert all(isinstance(array.base, np.memmap) for array in mapped)


def test_sequences_that_are_all_empty_are_read_back(tmp_path):
    with new_store(tmp_path / "s", "") as store:
        store.append_sequences("links", [[], []], "uint32")
    values, offsets = Store.open(tmp_path / "s", "", "").sequences(
        "links", "uint32", may_be_empty=True
    )
    assert (values.tolist(), offsets.tolist()) == ([], [0, 0, 0])


@pytest.mark.parametrize(
    ("labels", "message"), [([1, 2], "the same number of rows"), (["a"], "invalid literal")]
)
def test_a_failure_while_writing_leaves_no_folder(labels, message, tmp_path):
    with pytest.raises(ValueError, match=message), new_store(tmp_path / "s", "") as store:
        store.append_sequences("ids", [[1]], "uint16")
        store.append("labels", labels, "int32")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_not_overwritten(folder):
    with pytest.raises(UsageError, match="exists already"), new_store(folder, "abc"):
        pass


def test_another_encoder_is_refused_with_both_fingerprints(folder):
    with pytest.raises(DataError, match=r"tokenizer def, .* another tokenizer, abc") as error:
        read(folder, "def")
    assert "training prepares it again" in error.value.hint


def describe(**changes):
    def change(folder):
        path = folder / DESCRIPTION_FILE
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


def describe_array(name, description):
    def change(folder):
        arrays = json.loads((folder / DESCRIPTION_FILE).read_text())["arrays"]
        describe(arrays={**arrays, name: description})(folder)

    return change


def offsets(*numbers):
    return lambda folder: np.array(numbers, "<i8").tofile(folder / "ids.offsets.bin")


FLOATS = {"dtype": "float64", "shape": [6]}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (describe(format=2), "prepared data of format 1"),
        (describe(rows=0), "prepared data of format 1"),
        (describe(rows=True), r"must be .*\[2\].*, but is .*\[4\]"),
        (describe(arrays=[]), "prepared data of format 1"),
        (describe(metadata=None), "prepared data of format 1"),
        (lambda f: (f / DESCRIPTION_FILE).write_text("[]"), "prepared data of format 1"),
        (lambda f: (f / DESCRIPTION_FILE).write_text("{"), "JSON"),
        (describe(rows=10**30), r"ids.offsets must be .*, but is"),
        (describe_array("ids", FLOATS), "ids must be .*uint16.*, but is .*float64"),
        (describe_array("labels", None), "labels must be .*, but is None"),
        (lambda f: (f / "pixels.bin").unlink(), "must have 18 bytes, but is missing"),
        (lambda f: (f / "labels.bin").write_bytes(b"x"), "must have 12 bytes, but has 1"),
        (offsets(0, 3, 4, 7), r"ids must be .*\[7\].*, but is .*\[6\]"),
        (offsets(1, 3, 4, 6), "must start at 0 and increase"),
        (offsets(0, 3, 3, 6), "must start at 0 and increase"),
        (offsets(0, 4, 3, 6), "must start at 0 and increase"),
        (offsets(0, 2**63 - 1, -2, 6), "must start at 0 and increase"),
    ],
)
def test_damaged_stores_are_refused(folder, damage, message):
    damage(folder)
    reseal(folder)
    with pytest.raises(DataError, match=message):
        read(folder)


@pytest.mark.parametrize(
    "name", [DESCRIPTION_FILE, "ids.bin", "ids.offsets.bin", "pixels.bin", "labels.bin"]
)
def test_a_flipped_bit_is_refused_and_the_file_named(folder, name):
    flip_one_bit(folder / name)
    with pytest.raises(DataError, match="differs from the manifest") as error:
        read(folder)
    assert error.value.where == str(folder / name)


def test_numbers_out_of_their_range_are_refused(folder):
    store = Store.open(folder, "abc", "tokenizer")
    assert rows(*store.sequences("ids", "uint16", below=65536)) == IDS
    with pytest.raises(DataError, match="from 0 to 65534, but one is not") as error:
        store.sequences("ids", "uint16", below=65535)
    assert error.value.where == str(folder / "ids.bin")
    with pytest.raises(DataError, match="from 0 to 1, but one is not"):
        store.array("labels", "int32", below=2)
    for name in ("bytes", "tokens"):
        with pytest.raises(DataError, match=f"{name} must be an integer of at least 10"):
            store.number(name, least=10)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_checking_the_range_of_many_numbers_leaves_none_in_memory(tmp_path):
    size = 16_000_000
    with new_store(tmp_path / "store", "f") as store:
        store.append("ids", np.ones(size, "uint16"), "uint16")
    before = mapped_kilobytes()
    values = Store.open(tmp_path / "store", "f", "tokenizer").array("ids", "uint16", below=2)
    assert len(values) == size and mapped_kilobytes() - before < 4_000
    assert values.max() == 1 and mapped_kilobytes() - before > 30_000


def mapped_kilobytes():
    """The pages of files that are in the memory of this process."""
    status = Path("/proc/self/status").read_text()
    return sum(map(int, re.findall(r"Rss(?:File|Shmem):\s+(\d+)", status)))
