"""Image preprocessing: resizing, cropping and normalisation."""

import json

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from headway.base.errors import DataError
from headway.data.image_reader import ImageReader
from tests.fixtures.images import pixels_of

READER = ImageReader(
    height=4, width=6, mean=(0.5, 0.25, 0.1), deviation=(0.5, 0.2, 0.4), shorter=None
)


def test_pixels_are_normalised_by_mean_and_deviation_of_their_channel():
    pixels = pixels_of(4, 6)
    batch = READER.batch([pixels, pixels[::-1].copy()])
    assert batch.shape == (2, 3, 4, 6)
    assert batch[0, 1, 2, 5].item() == pytest.approx((pixels[2, 5, 1] / 255 - 0.25) / 0.2)
    assert_close(batch[1], batch[0].flip(1))


def test_the_centre_is_cropped_after_resizing_by_the_shorter_side():
    reader = ImageReader(height=4, width=4, mean=(0.0,), deviation=(1.0,), shorter=4)
    wide = np.zeros((4, 8, 1), np.uint8)
    wide[:, 2:6] = 200
    assert (reader.sized(wide) == 200).all()
    whole = ImageReader(height=4, width=4, mean=(0.0,), deviation=(1.0,), resampling="nearest")
    assert (whole.sized(wide) == 200).sum() == 8
    with pytest.raises(ValueError, match="shorter=3"):
        ImageReader(height=4, width=2, mean=(0.0,), deviation=(1.0,), shorter=3)


def test_the_whole_image_may_be_squashed_before_the_centre_is_cropped(tmp_path):
    reader = ImageReader(
        height=2, width=4, mean=(0.0,), deviation=(1.0,), squashed=(4, 8), resampling="nearest"
    )
    image = np.zeros((8, 8, 1), np.uint8)
    image[2:6, 2:6] = 200
    assert (reader.sized(image) == 200).all()
    assert reader.of_size(4, 8).squashed == (8, 16)
    reader.save(tmp_path)
    assert ImageReader.load(tmp_path) == reader


def test_a_very_long_and_narrow_image_is_refused_before_it_fills_the_memory():
    reader = ImageReader(height=200, width=200, mean=(0.0,), deviation=(1.0,), shorter=200)
    with pytest.raises(DataError, match="too long and narrow"):
        reader.sized(np.zeros((1, 60_000, 1), np.uint8))


def test_another_size_crops_the_same_fraction():
    reader = ImageReader(height=224, width=224, mean=(0.0,), deviation=(1.0,), shorter=256)
    larger = reader.of_size(112, 112)
    assert (larger.height, larger.width, larger.shorter) == (112, 112, 128)
    assert reader.of_size(224, 224) == reader and READER.of_size(8, 8).shorter is None


def test_a_reader_is_loaded_as_saved_and_fingerprints_differ(tmp_path):
    READER.save(tmp_path)
    assert ImageReader.load(tmp_path) == READER
    assert READER.of_size(4, 8).fingerprint != READER.fingerprint


@pytest.mark.parametrize(
    "change",
    [
        {"format": 1},
        {"height": 0},
        {"height": "4"},
        {"width": 10**9},
        {"mean": [0.5]},
        {"deviation": [0.0, 0.2, 0.4]},
        {"deviation": "abc"},
        {"shorter": 5},
        {"resampling": "magic"},
        {"squashed": [3, 6]},
        {"squashed": [8]},
        {"conversion": "magic"},
        {"more": 1},
    ],
)
def test_an_invalid_file_is_refused_by_name(change, tmp_path):
    READER.save(tmp_path)
    path = tmp_path / "images.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DataError, match=r"images\.json"):
        ImageReader.load(tmp_path)


def test_bytes_and_floats_from_0_to_255_are_normalised_equally():
    pixels = torch.from_numpy(pixels_of(4, 6).transpose(2, 0, 1).copy())
    assert_close(READER.normalised(pixels), READER.normalised(pixels.float()))
