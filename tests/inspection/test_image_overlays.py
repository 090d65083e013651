"""Attention drawn over images."""

import numpy as np
import pytest
import torch
from PIL import Image

from headway.inspection.image_attention import Looks
from headway.inspection.image_overlays import held, overlays
from tests.fixtures.images import pixels_of


def test_the_smallest_set_of_patches_with_the_fraction_is_outlined():
    weights = torch.tensor([[0.1, 0.4], [0.2, 0.3]])
    assert held(weights, 0.39).tolist() == [[False, True], [False, False]]
    assert held(weights, 0.6).tolist() == [[False, True], [False, True]]
    assert held(weights, 0.95).all()


def test_patches_with_a_large_weight_are_coloured(tmp_path):
    weights = torch.zeros(3, 4)
    weights[0, 3] = 1.0
    grey = np.full((30, 40, 3), 128, np.uint8)
    looks = Looks(["one"], weights[None], grey, (30, 40))
    overlays(tmp_path / "a.png", looks, title="it", outlined=0.5)
    drawn = np.asarray(Image.open(tmp_path / "a.png").convert("RGB")).astype(int)
    colourful = np.abs(drawn - drawn.mean(-1, keepdims=True)).sum(-1) > 60
    rows, columns = np.nonzero(colourful)
    height, width = drawn.shape[:2]
    assert len(rows) and columns.min() > 0.8 * width and rows.mean() < 0.6 * height
    first = (tmp_path / "a.png").read_bytes()
    overlays(tmp_path / "b.png", looks, title="it", outlined=0.5)
    assert first == (tmp_path / "b.png").read_bytes()


def test_grey_images_and_many_heads_are_drawn(tmp_path):
    maps = torch.full((7, 2, 5), 0.05)
    overlays(tmp_path / "a.svg", Looks([*"abcdefg"], maps, pixels_of(8, 20, 1), (8, 20)))
    assert "g  50%" in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize(
    ("names", "maps", "message"),
    [
        ([], torch.zeros(0, 1, 2), "0 names"),
        (["x"], torch.zeros(2, 1, 2), "1 names for 2 maps"),
        (["x"], torch.tensor([[[-0.1, 1.0]]]), "finite weights of at least 0"),
        (["x"], torch.tensor([[[torch.nan, 1.0]]]), "finite weights of at least 0"),
    ],
)
def test_maps_that_cannot_be_drawn_are_refused(tmp_path, names, maps, message):
    with pytest.raises(ValueError, match=message):
        overlays(tmp_path / "a.png", Looks(names, maps, pixels_of(4, 4), (4, 4)))
    assert not (tmp_path / "a.png").exists()
