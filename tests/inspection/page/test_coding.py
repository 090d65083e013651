"""Attention weights as bytes: the largest error, and the properties that are preserved."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from headway.base.errors import DataError
from headway.inspection.page.byte_weights import coding_of, thumbnails, to_codes, to_weights
from tests.fixtures.documents import heads

NORMALISED = {"kind": "sqrt", "scale": 1.0}


def test_the_error_of_a_normalised_weight_is_at_most_four_thousandths():
    values = torch.linspace(0, 1, 100_001).reshape(1, 1, -1)
    decoded = to_weights(to_codes(values, NORMALISED), NORMALISED)
    assert np.abs(decoded - values.numpy()).max() <= 0.004
    assert decoded[0, 0, 0] == 0 and decoded[0, 0, -1] == 1


def test_decoded_rows_sum_to_one_unlike_with_uniform_steps():
    weights = heads(1, 5, 300, 300, seed=2)[0]
    sums = to_weights(to_codes(weights, NORMALISED), NORMALISED).sum(-1)
    assert np.abs(sums - 1).mean() <= 0.003
    assert np.abs(sums - 1).max() <= 0.02
    uniform = np.rint(weights.numpy() * 255) / 255
    assert np.abs(uniform.sum(-1) - 1).mean() > 10 * np.abs(sums - 1).mean()


@pytest.mark.parametrize("levels", [31, 63])
def test_fewer_levels_keep_the_scale(levels):
    weights = heads(1, 2, 9, 7)[0]
    codes = to_codes(weights, NORMALISED, levels)
    assert len(np.unique(codes)) <= levels + 1
    # The codes are roots, r with a = r^2, so half a step counts twice.
    assert np.abs(to_weights(codes, NORMALISED) - weights.numpy()).max() <= 1 / levels + 0.003
    assert to_codes(torch.ones(1, 1, 1), NORMALISED, levels).item() == 255


FLOATS = st.floats(-1000, 1000, width=32, allow_subnormal=False)  # other tests flush them


@given(arrays.arrays(np.float32, (2, 3, 4), elements=FLOATS))
def test_signed_weights_keep_their_sign_and_their_zero(values):
    weights = torch.from_numpy(values)
    coding = coding_of([weights], False, "x")
    decoded = to_weights(to_codes(weights, coding), coding)
    greatest = np.abs(values).max()
    assert np.all(decoded * values >= 0)
    assert np.all(decoded[values == 0] == 0)
    assert np.abs(decoded - values).max() <= 0.008 * greatest + 1e-6


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_weight_that_is_not_finite_is_refused_with_its_layer(bad):
    finite = torch.full((1, 2, 2), 0.5)
    with pytest.raises(DataError, match="layer 2 of 'encoder'"):
        coding_of([finite, finite * bad], True, "encoder")


@pytest.mark.parametrize("bad", [-0.1, 1.1])
def test_a_normalised_weight_below_0_or_above_1_is_refused(bad):
    with pytest.raises(DataError, match="below 0 or above 1"):
        coding_of([torch.full((1, 1, 2), bad)], True, "x")


def test_a_thumbnail_keeps_every_large_weight():
    codes = np.zeros((2, 200, 131), np.uint8)
    codes[1, 150, 99] = 201
    small = thumbnails(codes, signed=False)
    assert small.shape == (2, 64, 64)
    assert np.argwhere(small == 201).tolist() == [[1, 150 * 64 // 200, 99 * 64 // 131]]


def test_a_thumbnail_of_signed_weights_keeps_the_largest_magnitude():
    codes = np.full((1, 128, 1), 128, np.uint8)
    codes[0, :2, 0] = 140, 90
    assert thumbnails(codes, signed=True)[0, 0, 0] == 90
