"""Labelled images in .parquet files: those of Hugging Face data sets, and damaged ones."""

import json
import random
import sys

import numpy as np
import pytest

from headway.data.image_sources import check_source, read_images
from headway.errors import DataError, UsageError
from tests.fixtures.images import pixels_of, png

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

NAMES = ["cat", "dog", "owl"]
FILES = [png(pixels_of(3, 4, seed=i)) for i in range(4)]


def write_parquet(
    path, *, images=FILES, labels=(2, 0, 1, 2), names=NAMES, image="image", label="label"
):
    table = pyarrow.table({image: list(images), label: list(labels)})
    if names is not None:
        notes = {"info": {"features": {label: {"names": names, "_type": "ClassLabel"}}}}
        table = table.replace_schema_metadata({"huggingface": json.dumps(notes)})
    parquet.write_table(table, path, row_group_size=3)
    return str(path)


def test_records_with_bytes_and_numbers_with_names_are_read(tmp_path):
    records = [{"bytes": data, "path": None} for data in FILES]
    by_split = read_images([write_parquet(tmp_path / "x.parquet", images=records, image="img")])
    assert [image.label for image in by_split.train] == ["owl", "cat", "dog", "owl"]
    for i, image in enumerate(by_split.train):
        assert np.array_equal(image.pixels(), pixels_of(3, 4, seed=i))
    assert by_split.train[3].where.endswith("x.parquet[3]")


def test_file_names_set_the_split(tmp_path):
    for name in ("train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001"):
        write_parquet(tmp_path / f"{name}.parquet")
    write_parquet(
        tmp_path / "test.parquet", labels=["a", "b", "a", "b"], names=None, label="labels"
    )
    by_split = read_images([str(tmp_path)])
    assert (len(by_split.train), len(by_split.valid), len(by_split.test)) == (8, 4, 4)
    assert {image.label for image in by_split.test} == {"a", "b"}


def test_numbers_without_names_are_called_by_their_number(tmp_path):
    by_split = read_images([write_parquet(tmp_path / "x.parquet", names=None)])
    assert [image.label for image in by_split.train] == ["2", "0", "1", "2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image": "photo"}, "must be named image or img"),
        ({"label": "class"}, "must be named label or labels"),
        ({"labels": (0, 1, 3, 0)}, r"class number 3 has no name: the file names 3"),
        ({"labels": (0, -1, 1, 0)}, "the class number -1 is negative"),
        ({"labels": (0.5, 1.0, 1.0, 1.0)}, "a name or a whole number"),
        ({"labels": (0, None, 1, 2)}, "a name or a whole number"),
        ({"names": ["a", "a", "b"]}, "must be distinct"),
        ({"names": [1, 2, 3]}, "must be a list of texts"),
    ],
)
def test_files_that_are_not_image_data_sets_are_refused_with_their_location(
    options, message, tmp_path
):
    with pytest.raises(DataError, match=message) as error:
        read_images([write_parquet(tmp_path / "x.parquet", **options)])
    assert "x.parquet" in str(error.value)


def test_rows_without_an_image_are_refused_when_they_are_read(tmp_path):
    images = [{"bytes": FILES[0], "path": None}, {"bytes": None, "path": "a.png"}]
    by_split = read_images([write_parquet(tmp_path / "x.parquet", images=images, labels=(0, 1))])
    assert by_split.train[0].pixels().shape == (3, 4, 3)
    with pytest.raises(DataError, match=r"bytes of an image file(.|\n)*x.parquet\[1\]"):
        by_split.train[1].pixels()
    bad = read_images([write_parquet(tmp_path / "y.parquet", images=[b"GIF89a"], labels=(0,))])
    with pytest.raises(DataError, match=r"y.parquet\[0\]"):
        bad.train[0].pixels()


def test_damaged_files_are_refused_with_a_data_error(tmp_path):
    path = tmp_path / "x.parquet"
    write_parquet(path)
    whole = path.read_bytes()
    generator = random.Random(5)
    refused = 0
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(3):
            data[generator.randrange(len(data))] = generator.randrange(256)
        path.write_bytes(data[: generator.choice([len(data), len(data) // 2, 9])])
        try:
            for image in read_images([str(path)]).every:
                image.pixels()
        except DataError as error:
            refused += 1
            assert "x.parquet" in str(error)
    assert refused > 30


def test_without_pyarrow_the_error_names_what_to_install(tmp_path, monkeypatch):
    path = write_parquet(tmp_path / "x.parquet")
    check_source(path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"headway\[parquet\]"):
        read_images([path])
