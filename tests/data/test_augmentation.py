"""Image augmentation: random crops, shifts, flips, colour jitter, erasing and mixup."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from headway.data.augmentation import (
    GREY,
    AugmentationConfig,
    augmented,
    colour_jitter,
    mixup_weight,
    random_erase,
    random_resized_crop,
    random_shift,
)

NOTHING = AugmentationConfig(flip=0.0, padding=0)
EVERYTHING = AugmentationConfig(flip=0.5, padding=2, crop=0.5, colour=0.4, erase=0.5)


def generator(seed):
    return np.random.default_rng(seed)


@pytest.fixture
def image():
    return torch.rand(3, 6, 9)


def test_with_all_settings_off_an_image_is_not_changed(image):
    assert torch.equal(augmented(image, NOTHING, generator(0)), image)


@pytest.mark.parametrize("channels", [1, 3])
def test_the_same_seed_gives_the_same_image_and_the_input_is_not_changed(channels):
    image = torch.rand(channels, 6, 9)
    original = image.clone()
    results = [augmented(image, EVERYTHING, generator(seed)) for seed in (1, 1, 2)]
    assert torch.equal(results[0], results[1]) and not torch.equal(results[0], results[2])
    assert torch.equal(image, original)
    for result in results:
        assert result.shape == image.shape and bool((result >= 0).all() and (result <= 1).all())


def test_an_image_is_flipped_horizontally_and_never_vertically(image):
    flip, half = (AugmentationConfig(flip=flip, padding=0) for flip in (1.0, 0.5))
    assert torch.equal(augmented(image, flip, generator(0)), image.flip(2))
    images = [augmented(image, half, generator(seed)) for seed in range(200)]
    assert 70 < sum(torch.equal(one, image.flip(2)) for one in images) < 130


def test_a_shift_moves_by_at_most_the_padding_and_fills_with_black(image):
    augmented = set()
    for seed in range(300):
        moved = random_shift(image, 2, generator(seed))
        for down in range(-2, 3):
            for right in range(-2, 3):
                expected = torch.zeros(3, 10, 13)
                expected[:, 2:8, 2:11] = image
                expected = expected[:, 2 - down : 8 - down, 2 - right : 11 - right]
                if torch.equal(moved, expected):
                    augmented.add((down, right))
    assert len(augmented) == 25  # all offsets, and each image has one of them


def test_a_crop_is_a_part_of_the_image_in_the_requested_size():
    ramp = torch.linspace(0, 1, 24).expand(1, 20, 24)
    for seed in range(50):
        part = random_resized_crop(ramp, (0.2, 0.5), (7, 5), generator(seed))
        assert part.shape == (1, 7, 5)
        rising = part[0, :, 1:] - part[0, :, :-1]
        assert bool((rising > -1e-6).all())  # from left to right as in the image
        width = (part.max() - part.min()).item()
        assert 0.15 < width < 0.85  # a fraction of the area, sides in a ratio of 3 to 4 at most
    thin = torch.rand(3, 40, 2)  # no such crop fits: the whole width
    assert random_resized_crop(thin, (0.9, 1.0), (4, 4), generator(0)).shape == (3, 4, 4)


def test_colours_change_within_their_limits():
    grey = torch.full((3, 2, 2), 0.4)
    for seed in range(50):
        augmented = colour_jitter(grey, 0.25, generator(seed))
        assert augmented[0, 0, 0].item() / 0.4 == pytest.approx(1, abs=0.25 + 1e-5)
        assert_close(
            augmented[0], augmented[2]
        )  # brightness alone: there is neither contrast nor colour
    image = torch.rand(3, 5, 5) / 2 + 0.25
    assert_close(colour_jitter(image, 0.0, generator(0)), image)
    weights = torch.tensor(GREY)
    assert weights.sum().item() == pytest.approx(1)


def test_a_rectangle_is_erased_and_the_rest_is_kept(image):
    augmented = random_erase(torch.full((3, 20, 30), 2.0), generator(3))  # no noise is 2
    changed = (augmented != 2).all(0)
    assert torch.equal(changed, (augmented != 2).any(0))
    rows, columns = changed.any(1).nonzero()[:, 0], changed.any(0).nonzero()[:, 0]
    assert int(changed.sum()) == len(rows) * len(columns)
    assert rows[-1] - rows[0] + 1 == len(rows) and columns[-1] - columns[0] + 1 == len(columns)
    assert 0.01 < changed.float().mean().item() < 0.4
    assert augmented[:, changed].std() > 0.1


def test_of_two_mixed_images_the_first_has_the_greater_weight():
    weights = [mixup_weight(0.4, generator(seed)) for seed in range(2000)]
    assert min(weights) >= 0.5 and max(weights) <= 1
    # E[max(s, 1 - s)] of Beta(1, 1) is 3/4
    assert np.mean([mixup_weight(1.0, generator(s)) for s in range(4000)]) == pytest.approx(
        0.75, abs=0.01
    )
    assert np.mean(weights) > 0.8  # a small alpha mixes little
