"""Labelled images in .parquet files: those of Hugging Face data sets, and damaged ones."""

import json
import random
import sys
from decimal import Decimal

import numpy as np
import pytest

from headway.base.errors import DataError, UsageError
from headway.data.formats.images import label_name
from headway.data.image_sources import check_source, read_images
from headway.tasks.image_config import LabelledImageDataConfig
from headway.tasks.image_data import check_images
from tests.fixtures.images import pixels_of, png, write_shades

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
        ({"label": "name", "names": None}, "no column of labels was found; the columns are image,"),
        ({"labels": (0, 1, 3, 0)}, r"class number 3 has no name: the file names 3"),
        ({"labels": (0, -1, 1, 0)}, "the class number -1 is negative"),
        ({"labels": (0.5, 1.0, 1.0, 1.0)}, "this one is 0.5"),
        (
            {"labels": (0, None, 1, 2)},
            r"this one is missing \(null\)(.|\n)*x.parquet\[1\], column .label.",
        ),
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
    images = [{"bytes": FILES[0], "path": None}, {"bytes": None, "path": None}]
    by_split = read_images([write_parquet(tmp_path / "x.parquet", images=images, labels=(0, 1))])
    assert by_split.train[0].pixels().shape == (3, 4, 3)
    with pytest.raises(DataError, match=r"bytes of an image file(.|\n)*x.parquet\[1\]"):
        by_split.train[1].pixels()
    bad = read_images([write_parquet(tmp_path / "y.parquet", images=[b"GIF87a"], labels=(0,))])
    with pytest.raises(DataError, match=r"y.parquet\[0\]"):
        bad.train[0].pixels()


@pytest.mark.parametrize(
    ("labels", "names", "expected"),
    [
        ([True, False, True, False], None, ["true", "false", "true", "false"]),
        ([True, False, True, False], ["no", "yes"], ["yes", "no", "yes", "no"]),
        ([2.0, 0.0, 1.0, 2.0], None, ["2", "0", "1", "2"]),
        ([2.0, 0.0, 1.0, 2.0], NAMES, ["owl", "cat", "dog", "owl"]),
        ([Decimal(2), Decimal(0), Decimal(1), Decimal(2)], NAMES, ["owl", "cat", "dog", "owl"]),
        (["a", "b", "b", "a"], None, ["a", "b", "b", "a"]),
    ],
)
def test_labels_of_all_types_are_classes(labels, names, expected, tmp_path):
    by_split = read_images([write_parquet(tmp_path / "x.parquet", labels=labels, names=names)])
    assert [image.label for image in by_split.train] == expected


@pytest.mark.parametrize(
    ("label", "found"),
    [(None, "missing"), (float("nan"), "nan"), ("", "empty"), ([1, 2], "several labels")],
)
def test_a_row_whose_label_is_no_class_is_named(label, found):
    with pytest.raises(DataError, match=found) as error:
        label_name(label, None, "x.parquet[7]")
    assert error.value.where == "x.parquet[7]"


@pytest.mark.parametrize("image", ["image", "img", "pixel_values", "audio", "any_other"])
@pytest.mark.parametrize("label", ["labels", "cls", "fine_label", "coarse_label", "any"])
def test_columns_are_found_by_usual_names_or_by_what_they_are(image, label, tmp_path):
    path = write_parquet(tmp_path / "x.parquet", image=image, label=label)
    assert [picture.label for picture in read_images([path]).train] == ["owl", "cat", "dog", "owl"]


def test_an_ambiguous_column_is_named_by_a_flag(tmp_path):
    table = pyarrow.table(
        {"img": FILES, "mask": FILES, "fine_label": [0, 1, 2, 3], "coarse_label": [0, 0, 1, 1]}
    )
    path = str(tmp_path / "x.parquet")
    parquet.write_table(table, path)
    with pytest.raises(DataError, match="may be fine_label or coarse_label; the columns are img,"):
        read_images([path])
    data = LabelledImageDataConfig(train=(path,), label="coarse_label")
    images = read_images(data.train, data.columns)
    assert [image.label for image in images.train] == ["0", "0", "1", "1"]
    data = LabelledImageDataConfig(train=(path,), label="coarse", image="mask")
    with pytest.raises(DataError, match="there is no column 'coarse'; the columns are") as error:
        read_images(data.train, data.columns)
    assert error.value.hint == "--data.label NAME"
    with pytest.raises(DataError) as error:
        read_images([path])
    assert error.value.hint == "rename the column to label"  # headway eval has no such flag


def test_a_column_is_refused_if_no_source_has_columns(tmp_path):
    folder = write_shades(tmp_path / "shades", count=1)
    with pytest.raises(UsageError, match=r"data\.label=x names a column of \.parquet files"):
        check_images(LabelledImageDataConfig(train=(str(folder),), label="x"), "vision")
    path = write_parquet(tmp_path / "x.parquet")
    check_images(LabelledImageDataConfig(train=(str(folder), path), label="label"), "vision")


def test_images_are_read_from_paths_relative_to_the_file(tmp_path):
    (tmp_path / "files").mkdir()
    for i, data in enumerate(FILES):
        (tmp_path / "files" / f"{i}.png").write_bytes(data)
    names = [f"files/{i}.png" for i in range(4)]
    for images in (names, [{"bytes": None, "path": name} for name in names]):
        by_split = read_images([write_parquet(tmp_path / "x.parquet", images=images)])
        for i, image in enumerate(by_split.train):
            assert np.array_equal(image.pixels(), pixels_of(3, 4, seed=i))


def test_paths_out_of_the_folder_of_the_file_are_refused(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "secret.png").write_bytes(FILES[0])
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    names = [
        str(tmp_path / "secret.png"),
        "../secret.png",
        "a/../../secret.png",
        "..\\secret.png",
        "C:\\secret.png",
        "link.png",
    ]
    path = write_parquet(folder / "x.parquet", images=names, labels=[0] * len(names), names=None)
    for i, image in enumerate(read_images([path]).train):
        with pytest.raises(DataError, match="leads out of the folder") as error:
            image.pixels()
        assert error.value.where == f"{path}[{i}]"
    names = ["missing.png", "a\0b.png", "x" * 5000, "."]
    path = write_parquet(folder / "y.parquet", images=names, labels=[0] * len(names), names=None)
    for image in read_images([path]).train:
        with pytest.raises(DataError, match="no such image file in the folder"):
            image.pixels()


def test_a_column_of_numbers_is_no_column_of_images(tmp_path):
    path = write_parquet(tmp_path / "x.parquet", images=[[1, 2]] * 4, image="pixel_values")
    with pytest.raises(DataError, match="or its path, but has a list"):
        read_images([path]).train[0].pixels()


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
