"""Prepared images on disk, and as a stream of batches."""

import json
from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from headway.base.errors import DataError
from headway.data.augmentation import AugmentationConfig
from headway.data.formats.images import LabelledImage
from headway.data.image_corpus import (
    ImageCorpus,
    examples_of_corpus,
    examples_of_images,
    mean_and_deviation,
    prepare_images,
)
from headway.data.image_reader import ImageReader
from headway.data.store import DESCRIPTION_FILE
from headway.data.stream import Batches, Shuffled
from headway.tasks.image_classification.data import AugmentedImages
from tests.fixtures.images import pixels_of, png
from tests.fixtures.manifests import reseal

READER = ImageReader(height=4, width=6, mean=(0.0,) * 3, deviation=(1.0,) * 3)
PLAIN = AugmentationConfig(flip=0.0, padding=0)
CHANGED = AugmentationConfig(flip=0.5, padding=1, colour=0.2)


def images(count=10):
    return [
        LabelledImage("cat" if i % 3 else "ant", f"p{i}", partial(pixels_of, 4, 6, 3, i))
        for i in range(count)
    ]


@pytest.fixture
def corpus(tmp_path):
    return prepare_images(images(), ["ant", "cat"], READER, tmp_path / "train")


def test_images_are_stored_unchanged_in_their_order(corpus):
    assert len(corpus) == 10 and corpus.classes == ("ant", "cat") and corpus.sizes == (3, 4, 6)
    assert corpus.labels.tolist() == [0, 1, 1, 0, 1, 1, 0, 1, 1, 0]
    for i in range(10):
        assert np.array_equal(corpus.pixels[i].transpose(1, 2, 0), pixels_of(4, 6, 3, i))
    reopened = ImageCorpus.open(corpus.folder, READER)
    assert np.array_equal(reopened.pixels, corpus.pixels)


def test_files_of_other_sizes_and_channels_are_converted(tmp_path):
    grey_image = [LabelledImage("ant", "a", partial(png, pixels_of(9, 9, 1)))]
    prepared = prepare_images(grey_image, ["ant"], READER, tmp_path / "x")
    assert prepared.pixels.shape == (1, 3, 4, 6)
    assert np.array_equal(prepared.pixels[0, 0], prepared.pixels[0, 2])


def test_a_damaged_image_is_named_and_no_folder_remains(tmp_path):
    bad = [*images(3), LabelledImage("ant", "bad.png", lambda: b"no image")]
    with pytest.raises(DataError) as error:
        prepare_images(bad, ["ant", "cat"], READER, tmp_path / "x")
    assert error.value.where == "bad.png" and not list(tmp_path.iterdir())


@pytest.mark.parametrize("classes", [["ant"], ["ant", "ant"], ["ant", 3], "ant", None])
def test_classes_that_do_not_fit_the_labels_are_refused(classes, corpus):
    path = corpus.folder / DESCRIPTION_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), "metadata": {"classes": classes}}))
    reseal(corpus.folder)
    with pytest.raises(
        DataError, match=r"the numbers must be from 0 to 0|the classes must be different names"
    ):
        ImageCorpus.open(corpus.folder, READER)


@pytest.mark.parametrize("change", [{"width": 4}, {"resampling": "box"}, {"conversion": "pillow"}])
def test_images_of_another_reader_are_refused(change, corpus):
    normalised = replace(READER, mean=(0.5,) * 3, deviation=(0.2,) * 3)
    assert len(ImageCorpus.open(corpus.folder, normalised)) == len(corpus)
    with pytest.raises(DataError, match="another image reader"):
        ImageCorpus.open(corpus.folder, replace(READER, **change))


def test_mean_and_deviation_are_those_of_all_pixels_of_a_channel(corpus):
    mean, deviation = mean_and_deviation(corpus)
    exact = corpus.pixels.astype(np.float64) / 255
    assert mean == pytest.approx(exact.mean((0, 2, 3)))
    assert deviation == pytest.approx(exact.std((0, 2, 3)))


def test_a_channel_with_equal_pixels_is_refused(tmp_path):
    flat = [LabelledImage("a", "x", lambda: np.full((4, 6, 3), 7, np.uint8))]
    with pytest.raises(DataError, match=r"all pixels of a channel .* are equal"):
        mean_and_deviation(prepare_images(flat, ["a"], READER, tmp_path / "x"))


def batches(corpus, config=PLAIN, batch_size=4, seed=3):
    images = AugmentedImages(corpus, READER.normalised, config, seed)
    return Batches(Shuffled(len(corpus), batch_size, seed), images.batch)


def test_an_epoch_has_every_image_once_in_a_new_order(corpus):
    stream = batches(corpus).stream(0, 0)
    epochs = []
    for epoch in range(3):
        epoch_images = []
        for position in range(3):
            *following, batch = next(stream)
            assert following == ([epoch + 1, 0] if position == 2 else [epoch, position + 1])
            epoch_images += batch.indices
            for row, index in enumerate(batch.indices):
                expected = torch.from_numpy(corpus.pixels[index].astype(np.float32)) / 255
                assert_close(batch.images[row], expected)
                assert batch.targets[row] == batch.mixed_targets[row] == corpus.labels[index]
        assert sorted(epoch_images) == list(range(10))
        epochs.append(epoch_images)
    assert epochs[0] != epochs[1] != epochs[2]


@pytest.mark.parametrize("mixup", [0.0, 0.8])
def test_the_augmentation_of_an_image_depends_only_on_seed_epoch_and_index(mixup, corpus):
    config = AugmentationConfig(flip=0.5, padding=1, colour=0.2, mixup=mixup)
    whole = list(islice(batches(corpus, config).stream(0, 0), 6))
    resumed = list(islice(batches(corpus, config).stream(1, 1), 2))
    for (*_, expected), (*_, batch) in zip(whole[4:], resumed, strict=True):
        assert expected.indices == batch.indices and torch.equal(expected.images, batch.images)
        assert torch.equal(expected.mixing_weights, batch.mixing_weights)
    alone, mixed = (batches(corpus, config).make(chosen, 5) for chosen in ([7], [2, 7, 1]))
    assert torch.equal(alone.images[0], mixed.images[1])
    views = [batches(corpus, config).make([7], epoch).images for epoch in range(4)]
    assert any(not torch.equal(views[0], view) for view in views[1:])
    other_seed = [batches(corpus, config, seed=4).make([i], 0).images for i in range(10)]
    assert any(
        not torch.equal(batches(corpus, config).make([i], 0).images, v)
        for i, v in enumerate(other_seed)
    )


def test_mixed_images_are_the_weighted_sum_of_the_two(corpus):
    config = AugmentationConfig(flip=0.0, padding=0, mixup=1.0)
    batch = batches(corpus, config).make(range(10), 0)
    assert bool((batch.mixing_weights >= 0.5).all()) and batch.mixing_weights.std() > 0.05
    pixels = torch.from_numpy(corpus.pixels.astype(np.float32)) / 255
    for i, weight in enumerate(batch.mixing_weights.tolist()):
        rest = (batch.images[i] - weight * pixels[i]) / (1 - weight)
        partners = [j for j in range(10) if (rest - pixels[j]).abs().max() < 1e-3]
        assert len(partners) == 1 and batch.mixed_targets[i] == corpus.labels[partners[0]]


def test_for_evaluation_images_are_the_prepared_ones_or_those_of_their_files(corpus):
    prepared, files = examples_of_corpus(corpus), examples_of_images(images())
    assert len(prepared) == len(files) == len(corpus)
    assert list(prepared.labels) == list(files.labels) == [image.label for image in images()]
    pixels = prepared.batch(range(len(corpus)), READER)
    assert_close(pixels, torch.from_numpy(corpus.pixels.astype(np.float32) / 255))
    assert torch.equal(files.batch([3, 1], READER), pixels[[3, 1]])
    assert files.where(2) == images()[2].where and prepared.where(2).endswith("image 3")
