"""Labelled images from folders, archives and arrays."""

import io
import zipfile

import numpy as np
import pytest

from headway.base.errors import DataError, HeadwayWarning, UsageError
from headway.data.formats.images import image_files
from headway.data.image_sources import check_source, read_images
from tests.fixtures.images import pixels_of, png, write_shades


def zipped(path, names, seed=0):
    with zipfile.ZipFile(path, "w") as archive:
        for i, name in enumerate(names):
            archive.writestr(name, png(pixels_of(3, 4, seed=seed + i)))
    return str(path)


def labels(images):
    return [image.label for image in images]


def test_class_folders_are_read_in_order_and_hidden_files_are_skipped(tmp_path):
    folder = write_shades(tmp_path / "shades", count=2)
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "x.png").write_bytes(b"")
    by_split = read_images([str(folder)])
    assert labels(by_split.train) == ["dark", "dark", "light", "light"] and not by_split.valid
    assert by_split.train[1].where.endswith("dark/1.png")
    assert by_split.train[0].pixels().mean() < 60 < 180 < by_split.train[2].pixels().mean()
    assert by_split.train[0].shape() == (8, 8, 3)


def test_files_of_other_kinds_in_a_folder_are_counted_and_named(tmp_path):
    folder = write_shades(tmp_path / "shades", count=2)
    for name in ("notes.txt", "1.flac", "2.flac"):
        (folder / "dark" / name).write_bytes(b"fLaC")
    with pytest.warns(HeadwayWarning) as record:
        assert len(read_images([str(folder)]).train) == 4
    (warning,) = record
    assert str(warning.message) == (
        f"{folder}: left out 3 files that are no image or WAV sound: 2 .flac, 1 .txt; "
        'convert them: for file in */*.flac; do ffmpeg -i "$file" "${file%.*}".wav; done'
    )


def test_files_of_other_kinds_in_an_archive_are_counted_and_named(tmp_path):
    path = zipped(tmp_path / "a.zip", ["ant/1.png", "bee/1.png", "bee/1.heic", "bee/readme"])
    with pytest.warns(
        HeadwayWarning, match=r"left out 2 files that are .*: 1 \.heic, 1 without suffix"
    ):
        assert len(read_images([path]).train) == 2


def test_a_folder_without_an_image_names_the_files_that_it_has(tmp_path):
    (tmp_path / "sounds" / "bell").mkdir(parents=True)
    for number in range(3):
        (tmp_path / "sounds" / "bell" / f"{number}.mp3").write_bytes(b"ID3")
    with pytest.raises(UsageError, match=r"no file that ends in .*, but 3 \.mp3") as error:
        read_images([str(tmp_path / "sounds")])
    assert "ffmpeg -i" in str(error.value.hint)


def test_a_single_file_is_recognised_by_its_suffix_or_its_first_bytes(tmp_path):
    (tmp_path / "picture").write_bytes(png(pixels_of(3, 4)))
    assert image_files(tmp_path / "picture") == [tmp_path / "picture"]
    (tmp_path / "a b.flac").write_bytes(b"fLaC")
    with pytest.raises(UsageError, match=r"ends in \.flac") as error:
        image_files(tmp_path / "a b.flac")
    assert error.value.hint == "convert it: ffmpeg -i 'a b.flac' 'a b'.wav"


def test_split_folders_contain_the_class_folders(tmp_path):
    for split in ("train", "val", "test"):
        write_shades(tmp_path / "all" / split, count=1 if split != "train" else 3)
    by_split = read_images([str(tmp_path / "all")])
    assert (len(by_split.train), len(by_split.valid), len(by_split.test)) == (6, 2, 2)
    assert len(by_split.every) == 10


def test_a_class_may_be_called_train(tmp_path):
    names = ["train/1.png", "train/2.png", "ship/1.png"]
    by_split = read_images([zipped(tmp_path / "a.zip", names)])
    assert labels(by_split.train) == ["ship", "train", "train"]


def test_archives_are_read_member_by_member_and_below_one_common_folder(tmp_path):
    names = ["set/train/cat/1.png", "set/train/dog/1.png", "set/valid/cat/9.png", "__MACOSX/a.png"]
    by_split = read_images([zipped(tmp_path / "a.zip", names)])
    assert labels(by_split.train) == ["cat", "dog"] and labels(by_split.valid) == ["cat"]
    assert np.array_equal(by_split.train[1].pixels(), pixels_of(3, 4, seed=1))
    assert by_split.valid[0].where == f"{tmp_path}/a.zip:set/valid/cat/9.png"
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


@pytest.mark.parametrize("names", [["1.png"], ["cat/1.png", "2.png"], ["a/b/c/1.png", "d/e/1.png"]])
def test_images_without_a_class_are_refused_by_name(names, tmp_path):
    with pytest.raises(DataError, match="must be in a folder with the name of its class"):
        read_images([zipped(tmp_path / "a.zip", names)])


def test_damaged_archives_and_members_are_refused_by_name(tmp_path):
    (tmp_path / "a.zip").write_bytes(b"PK no archive")
    with pytest.raises(DataError, match="cannot be read as a zip file"):
        read_images([str(tmp_path / "a.zip")])
    name = zipped(tmp_path / "b.zip", ["cat/1.png"])
    data = bytearray((tmp_path / "b.zip").read_bytes())
    data[60] ^= 255  # one of the member's bytes, so that its checksum differs
    (tmp_path / "b.zip").write_bytes(data)
    (image,) = read_images([name]).train
    with pytest.raises(DataError, match="cannot be decompressed") as error:
        image.pixels()
    assert error.value.where.endswith("b.zip:cat/1.png")


def test_a_zip_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("headway.data.formats.images.BYTES_LIMIT", 1000)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cat/1.png", bytes(10**6))
    (image,) = read_images([str(tmp_path / "a.zip")]).train
    with pytest.raises(DataError, match="more than 1,000 bytes"):
        image.pixels()


def arrays(path, **arrays_by_name):
    np.savez(path, **arrays_by_name)
    return str(path)


IMAGES, LABELS = np.arange(4 * 2 * 3, dtype=np.uint8).reshape(4, 2, 3), np.array([1, 0, 1, 1])


def test_arrays_have_images_with_class_numbers_or_names(tmp_path):
    by_split = read_images([arrays(tmp_path / "a.npz", images=IMAGES, labels=LABELS)])
    assert labels(by_split.train) == ["1", "0", "1", "1"]
    assert np.array_equal(by_split.train[2].pixels(), IMAGES[2][..., None])
    assert by_split.train[2].where.endswith("a.npz:images[2]")
    names = np.array(["ant", "bee"])
    by_split = read_images(
        [arrays(tmp_path / "b.npz", images=IMAGES, labels=LABELS, classes=names)]
    )
    assert labels(by_split.train) == ["bee", "ant", "bee", "bee"]
    by_split = read_images([arrays(tmp_path / "c.npz", images=IMAGES, labels=names[LABELS])])
    assert labels(by_split.train) == ["bee", "ant", "bee", "bee"]


def test_labels_of_arrays_may_be_booleans_and_whole_floats(tmp_path):
    for kind, expected in ((bool, ["true", "false"]), (np.float32, ["1", "0"])):
        path = arrays(tmp_path / f"{expected[0]}.npz", images=IMAGES, labels=LABELS.astype(kind))
        assert labels(read_images([path]).train)[:2] == expected


@pytest.mark.parametrize("form", ["{}_images {}_labels", "x_{} y_{}"])
def test_arrays_of_splits_are_recognised_by_their_names(form, tmp_path):
    colour = np.zeros((2, 5, 6, 3), np.uint8)
    arrays_by_name = {}
    for split, count in (("train", 2), ("valid", 1)):
        images, kinds = form.format(split, split).split()
        arrays_by_name |= {images: colour[:count], kinds: np.arange(count)[:, None]}
    by_split = read_images([arrays(tmp_path / "a.npz", **arrays_by_name)])
    assert (labels(by_split.train), labels(by_split.valid)) == (["0", "1"], ["0"])
    assert by_split.train[0].shape() == (5, 6, 3)


class Anything:
    def __reduce__(self):
        return (pytest.fail, ("it was run",))


@pytest.mark.parametrize(
    ("arrays_by_name", "reason"),
    [
        ({"images": IMAGES, "other": LABELS}, "but has images, other"),
        (
            {"images": IMAGES.astype(np.float32), "labels": LABELS},
            "is float32 with shape 4 x 2 x 3 x 1",
        ),
        ({"images": IMAGES, "labels": LABELS[:3]}, "must be 4, one for each image, but is 3"),
        ({"images": IMAGES, "labels": LABELS / 2}, "this one is 0.5"),
        ({"images": IMAGES[:, :0], "labels": LABELS}, "at least one pixel"),
        (
            {"images": IMAGES, "labels": LABELS, "classes": np.array(["a"])},
            "class number 1 has no name: the file names 1",
        ),
        ({"images": IMAGES, "labels": LABELS - 2}, "the class number -1 is negative"),
        ({"images": IMAGES, "labels": -LABELS, "classes": np.array(["a", "b"])}, "-1 is negative"),
        ({"images": IMAGES, "labels": LABELS, "classes": np.array(["a"] * 2)}, "distinct texts"),
        ({"images": IMAGES, "labels": np.array([Anything()] * 4)}, "objects, which can run code"),
    ],
)
def test_arrays_that_are_not_images_are_refused_by_name(arrays_by_name, reason, tmp_path):
    with pytest.raises(DataError, match=reason) as error:
        read_images([arrays(tmp_path / "a.npz", **arrays_by_name)])
    assert "a.npz" in str(error.value.where)


def test_an_array_header_with_an_excessive_size_is_refused_before_memory_is_allocated(tmp_path):
    header = io.BytesIO()
    shape = (10**6, 10**6)
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": shape}
    )
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("images.npy", header.getvalue())
        archive.writestr("labels.npy", header.getvalue())
    with pytest.raises(DataError, match="1,000,000,000,000 bytes, but at most"):
        read_images([str(tmp_path / "a.npz")])


def test_unknown_sources_are_errors_with_the_known_ones(tmp_path):
    with pytest.raises(UsageError, match=r"no such file.*\n.*\n.*digits"):
        check_source(str(tmp_path / "none"))
    (tmp_path / "a.tar").write_bytes(b"")
    with pytest.raises(
        UsageError, match=r"folders, .*\.zip, \.npz or \.parquet, but this name ends in \.tar"
    ):
        check_source(str(tmp_path / "a.tar"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no file that ends in"):
        read_images([str(tmp_path / "empty")])


def test_digits_are_read_if_scikit_learn_is_installed(monkeypatch, real_data):
    pytest.importorskip("sklearn")
    by_split = read_images(["digits"]).train
    assert len(by_split) == 1797 and {image.label for image in by_split} == set("0123456789")
    assert by_split[0].label == "0" and by_split[0].shape() == (8, 8, 1)
    golden = np.load(real_data("vision/digits8x8.npz"))
    pixels = np.stack([image.pixels()[..., 0] for image in by_split])
    assert np.array_equal(np.rint(pixels / 255 * 16).astype(np.uint8), golden["images"])
    assert [int(image.label) for image in by_split] == golden["labels"].tolist()
    monkeypatch.setattr("headway.data.image_sources.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install scikit-learn"):
        read_images(["digits"])


def test_real_image_data_sets_are_read(real_data):
    archive = read_images([str(real_data("vision/cifar10_jpg.valid1k.zip"))])
    assert len(archive.train) == 1000 and len({i.label for i in archive.train}) == 10
    assert archive.train[-1].label == "truck" and archive.train[-1].pixels().shape == (32, 32, 3)
    fashion = read_images([str(real_data("vision/fashion_mnist.train12k_valid2k.npz"))])
    assert (len(fashion.train), len(fashion.valid)) == (12_000, 2_000)
    assert fashion.valid[7].pixels().shape == (28, 28, 1)
