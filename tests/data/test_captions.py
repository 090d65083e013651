"""Tables of captions with images, and the batches made of them."""

import gzip
import json

import numpy as np
import pytest
import torch

from headway.base.errors import DataError, UsageError
from headway.data.augmentation import AugmentationConfig
from headway.data.image_corpus import prepare_images
from headway.data.image_reader import ImageReader
from headway.data.stream import Batches, Shuffled
from headway.tasks.captioning.caption_files import CaptionColumns, read_captions, split_of
from headway.tasks.captioning.data import CaptionCorpus, CaptionedImages, captions_as_text
from tests.fixtures.images import pixels_of, png
from tests.fixtures.manifests import reseal

SIZED = ImageReader(height=4, width=6, mean=(0.5,) * 3, deviation=(0.2,) * 3)
BOTH = CaptionColumns(text=("en", "de"))


def array(path, count=3):
    np.savez(path, images=np.stack([pixels_of(4, 6, seed=i) for i in range(count)]))
    return path


def table(path, *rows):
    text = "".join("\t".join(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


HEADER = ("split", "en", "de")
ROWS = (("train", "a  cat", "Katze"), ("valid", "", "Hund"), ("train", "a fox", " "))


def test_rows_belong_to_the_images_of_an_array_in_order(tmp_path):
    path = table(tmp_path / "c.tsv.gz", HEADER, *ROWS)
    captioned = read_captions(path, BOTH, array(tmp_path / "a.npz"))
    expected = [{"en": ("a cat",), "de": ("Katze",)}, {"de": ("Hund",)}, {"en": ("a fox",)}]
    assert [example.captions for example in captioned] == expected
    assert [example.split for example in captioned] == ["train", "valid", "train"]
    for i, example in enumerate(captioned):
        assert np.array_equal(example.image.pixels(), pixels_of(4, 6, seed=i))
    assert split_of(captioned, "valid") == captioned[1:2] and split_of(captioned, "test") == []


def test_rows_of_one_image_file_are_captions_of_one_image(tmp_path):
    (tmp_path / "p").mkdir()
    for i in range(2):
        (tmp_path / "p" / f"{i}.png").write_bytes(png(pixels_of(4, 6, seed=i)))
    rows = (("p/1.png", "a cat"), ("p/0.png", "a dog"), ("p/1.png", "an old cat"))
    path = table(tmp_path / "c.tsv", ("image", "caption"), *rows)
    captioned = read_captions(path, CaptionColumns(text=("caption",)))
    expected = [{"caption": ("a cat", "an old cat")}, {"caption": ("a dog",)}]
    assert [example.captions for example in captioned] == expected and {
        example.split for example in captioned
    } == {""}
    assert np.array_equal(captioned[0].image.pixels(), pixels_of(4, 6, seed=1))
    lines = [json.dumps({"file": "p/0.png", "en": ["a dog", "one dog"]})]
    (tmp_path / "c.jsonl").write_text("\n".join(lines))
    (example,) = read_captions(tmp_path / "c.jsonl", CaptionColumns(text=("en",), image="file"))
    assert example.captions == {"en": ("a dog", "one dog")}


@pytest.mark.parametrize(
    ("rows", "columns", "where", "message"),
    [
        (ROWS[:2], BOTH, ":3", "2 rows, but"),
        ((*ROWS, ROWS[0]), BOTH, ":5", "4 rows, but"),
        ((*ROWS[:2], ("train", " ", "")), BOTH, ":4", "no caption in en, de"),
        ((*ROWS[:2], ("later", "x", "y")), BOTH, ":4", "but is later"),
    ],
)
def test_rows_that_do_not_fit_are_named_by_file_and_line(rows, columns, where, message, tmp_path):
    path = table(tmp_path / "c.tsv", HEADER, *rows)
    with pytest.raises(DataError) as error:
        read_captions(path, columns, array(tmp_path / "a.npz"))
    assert error.value.where == f"{path}{where}" and message in error.value.what


def test_missing_and_invalid_images_are_errors_with_file_and_line(tmp_path):
    (tmp_path / "x.txt").write_text("no image")
    (tmp_path / "y.png").write_bytes(png(pixels_of(4, 6)))
    columns = CaptionColumns(text=("en",), split="part")
    for name, message in (
        ("z.png", "no such image file"),
        ("x.txt", ".wav, but this is x.txt"),
        ("", "not an image path"),
    ):
        path = table(tmp_path / "c.tsv", ("image", "en", "part"), (name, "words", "train"))
        with pytest.raises(DataError) as error:
            read_captions(path, columns)
        assert error.value.where == f"{path}:2" and message in error.value.what
    rows = (("y.png", "words", "train"), ("y.png", "more", "valid"))
    path = table(tmp_path / "c.tsv", ("image", "en", "part"), *rows)
    with pytest.raises(DataError, match="split valid here, but in train in an earlier row"):
        read_captions(path, columns)


def test_missing_columns_are_errors_with_their_flag(tmp_path):
    path = table(tmp_path / "c.tsv", HEADER, *ROWS)
    images = array(tmp_path / "a.npz")
    with pytest.raises(UsageError) as error:
        read_captions(path, CaptionColumns(text=("fr",)), images)
    assert "'fr'" in error.value.what and "--data.text" in str(error.value.hint)
    with pytest.raises(UsageError) as error:
        read_captions(path, CaptionColumns(text=("en", "de"), split="part"), images)
    assert "--data.split-column" in str(error.value.hint)
    with pytest.raises(UsageError) as error:
        read_captions(path, BOTH)
    assert "--data.image" in str(error.value.hint)
    captioned = read_captions(path, CaptionColumns(text=("en", "de"), split=None), images)
    assert {example.split for example in captioned} == {""}


@pytest.fixture
def corpus(tmp_path):
    path = table(tmp_path / "c.tsv", HEADER, *ROWS)
    captioned = read_captions(path, BOTH, array(tmp_path / "a.npz"))
    images, texts = [example.image for example in captioned], captions_as_text(captioned)
    folder = tmp_path / "d" / "train"
    prepare_images(images, ("",), SIZED, folder, texts=texts)
    return CaptionCorpus.open(folder, SIZED)


def test_prepared_captions_are_read_back_unchanged(corpus, tmp_path):
    folder = tmp_path / "d" / "train"
    reopened = CaptionCorpus.open(folder, SIZED)
    expected = [{"en": ("a cat",), "de": ("Katze",)}, {"de": ("Hund",)}, {"en": ("a fox",)}]
    assert reopened.captions == expected and len(reopened) == 3
    assert np.array_equal(reopened.images.pixels[2], pixels_of(4, 6, seed=2).transpose(2, 0, 1))
    file = folder / "texts.bin"
    content, second = file.read_bytes(), b'{"de": ["Hund"]}'
    for damaged in (b"[1]", b'{"de": []}', b'{"de": [1]}', b"{"):
        file.write_bytes(content.replace(second, damaged.ljust(len(second))))
        reseal(folder)
        with pytest.raises(DataError, match=r"row 1 must have captions|not valid JSON"):
            CaptionCorpus.open(folder, SIZED)


TOKENIZED = {0: [(1, 5, 6, 2), (3, 8, 2)], 2: [(1, 7, 2)]}


def batches(corpus, augmentation, batch_size=2):
    images = CaptionedImages(corpus.images, TOKENIZED, SIZED.normalised, augmentation, seed=3)
    return Batches(Shuffled(2, batch_size, seed=3), images.batch)


UNCHANGED = AugmentationConfig(flip=0.0, padding=0)


def test_a_batch_has_each_image_once_with_all_its_captions(corpus):
    captioned = batches(corpus, UNCHANGED).make([1, 0], 0)
    assert captioned.of.tolist() == [0, 1, 1] and captioned.indices == (2, 0)
    assert captioned.read.tolist() == [[1, 7, 0], [1, 5, 6], [3, 8, 0]]
    assert captioned.targets.tolist() == [[7, 2, 0], [5, 6, 2], [8, 2, 0]]
    assert captioned.real.tolist() == [[True, True, False], [True] * 3, [True, True, False]]
    pixels = torch.from_numpy(np.array(corpus.images.pixels[[2, 0]]))
    torch.testing.assert_close(captioned.images, SIZED.normalised(pixels))


def test_an_epoch_has_every_captioned_image_once_and_can_start_at_any_batch(corpus):
    stream = batches(corpus, AugmentationConfig(padding=1), batch_size=1)
    steps = stream.stream(0, 0)
    first = [next(steps) for _ in range(6)]
    assert [position for *position, _ in first] == [[0, 1], [1, 0], [1, 1], [2, 0], [2, 1], [3, 0]]
    for start in (0, 2, 4):
        images = {batch.indices for *_, batch in first[start : start + 2]}
        assert images == {(0,), (2,)}
    again = next(stream.stream(1, 1))[2]
    assert again.indices == first[3][2].indices
    assert torch.equal(again.images, first[3][2].images)
    sums = {batch.images.sum().item() for *_, batch in first if batch.indices == (0,)}
    assert len(sums) == 3  # shifted differently in every epoch
