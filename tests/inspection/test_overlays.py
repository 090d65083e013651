"""Attention drawn over pictures."""

import numpy as np
import pytest
import torch
from PIL import Image

from headway.inspection.overlays import Overlay, held, overlays
from tests.data.pictures import pixels_of


def test_the_fewest_patches_hold_the_share():
    weights = torch.tensor([[0.1, 0.4], [0.2, 0.3]])
    assert held(weights, 0.39).tolist() == [[False, True], [False, False]]
    assert held(weights, 0.6).tolist() == [[False, True], [False, True]]
    assert held(weights, 0.95).all()


def test_bright_patches_stand_where_the_weight_is(tmp_path):
    weights = torch.zeros(3, 4)
    weights[0, 3] = 1.0
    grey = np.full((30, 40, 3), 128, np.uint8)
    overlays(tmp_path / "a.png", grey, [Overlay("one", weights)], title="it", outlined=0.5)
    drawn = np.asarray(Image.open(tmp_path / "a.png").convert("RGB")).astype(int)
    colourful = np.abs(drawn - drawn.mean(-1, keepdims=True)).sum(-1) > 60
    rows, columns = np.nonzero(colourful)
    y, x = drawn.shape[:2]
    assert len(rows) and columns.min() > 0.8 * x and rows.mean() < 0.6 * y
    first = (tmp_path / "a.png").read_bytes()
    overlays(tmp_path / "b.png", grey, [Overlay("one", weights)], title="it", outlined=0.5)
    assert first == (tmp_path / "b.png").read_bytes()


def test_grey_pictures_and_many_heads_are_drawn(tmp_path):
    panels = [Overlay(f"head {i}", torch.rand(2, 5)) for i in range(7)]
    overlays(tmp_path / "a.svg", pixels_of(8, 20, 1), panels)
    assert "head 6" in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize(
    ("panels", "message"),
    [
        ([], "between 1 and"),
        ([Overlay("x", torch.tensor([[-0.1, 1.0]]))], "below 0"),
        ([Overlay("x", torch.tensor([[torch.nan, 1.0]]))], "no numbers"),
    ],
)
def test_what_cannot_be_drawn_is_named(tmp_path, panels, message):
    with pytest.raises(ValueError, match=message):
        overlays(tmp_path / "a.png", pixels_of(4, 4), panels)
    assert not (tmp_path / "a.png").exists()
