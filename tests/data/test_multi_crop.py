"""Multi-crop: sizes, fractions, and that a view depends only on seed, epoch and index."""

import numpy as np
import pytest
import torch

from headway.data.image_corpus import ImageCorpus, prepare_images
from headway.data.image_reader import ImageReader
from headway.data.image_sources import read_images
from headway.tasks.self_distillation.multi_crop import ViewConfig, Views, blurred
from tests.fixtures.images import write_shades


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> ImageCorpus:
    folder = tmp_path_factory.mktemp("views")
    images = read_images([str(write_shades(folder / "all", count=5))]).train
    reader = ImageReader(height=12, width=8, mean=(0.0,) * 3, deviation=(1.0,) * 3)
    return prepare_images(images, ("dark", "light"), reader, folder / "corpus")


def views(corpus, seed=4, **changes):
    return Views(corpus, lambda x: x / 255, ViewConfig(**changes), (4, 2), seed)


def test_global_crops_come_first_and_local_crops_have_whole_patches(corpus):
    batch = views(corpus, local_crops=3, local_size=0.6).batch([0, 2], 0)
    assert batch.num_global == 2 and batch.indices == (0, 2)
    assert [tuple(v.shape) for v in batch.views] == [(2, 3, 12, 8)] * 2 + [(2, 3, 8, 4)] * 3
    assert all(v.min() >= 0 and v.max() <= 1 for v in batch.views)
    assert not batch.views[0].equal(batch.views[1])


def test_a_view_does_not_depend_on_its_neighbours(corpus):
    view_batches = views(corpus)
    alone, with_others = view_batches.batch([3], 2), view_batches.batch([1, 3, 0], 2)
    for a, b in zip(alone.views, with_others.views, strict=True):
        assert a[0].equal(b[1])
    next_epoch = view_batches.batch([3], 3)
    assert not next_epoch.views[0].equal(alone.views[0])


def test_without_augmentation_a_global_crop_is_the_image(corpus):
    plain = {"flip": 0.0, "jitter": 0.0, "grey": 0.0, "blur": 0.0, "solarize": 0.0}
    grey = views(corpus, **{**plain, "grey": 1.0}).batch([0, 1], 0)
    assert all(v[:, 0].equal(v[:, 1]) and v[:, 1].equal(v[:, 2]) for v in grey.views)
    dark = views(corpus, **{**plain, "solarize": 1.0}).batch([0], 0)
    assert dark.views[1].max() <= 0.5 + 1e-6  # only the second view


def test_blur_keeps_the_mean_of_a_uniform_image_and_spreads_a_point():
    assert torch.allclose(blurred(torch.full((3, 6, 7), 0.4), 1.3), torch.tensor(0.4))
    point = torch.zeros(1, 9, 9)
    point[0, 4, 4] = 1
    blurred_point = blurred(point, 1.0)[0]
    assert blurred_point.sum() == pytest.approx(1, abs=1e-5)
    row = np.exp(-0.5 * np.arange(-3, 4) ** 2)
    row = row / row.sum()
    np.testing.assert_allclose(blurred_point[1:8, 1:8].numpy(), np.outer(row, row), atol=1e-6)
    assert blurred(torch.rand(3, 2, 2), 5.0).shape == (3, 2, 2)


def test_impossible_views_are_refused():
    with pytest.raises(ValueError, match="at least 2 views"):
        ViewConfig(global_crops=1, local_crops=0)
    with pytest.raises(ValueError, match=r"local_min_area=0\.5"):
        ViewConfig(local_min_area=0.5)
