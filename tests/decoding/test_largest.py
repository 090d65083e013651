"""The largest numbers of a row are found by their blocks."""

import pytest
import torch

from headway.decoding.largest import BLOCK, largest, largest_sums


@pytest.mark.parametrize("columns", [7, 4 * 3 * BLOCK, 13 * BLOCK + 1, 20 * BLOCK - 1])
@pytest.mark.parametrize("shape", [(5,), (2, 3)])
def test_the_largest_are_those_of_topk(columns, shape):
    x = torch.randn(*shape, columns)
    x[..., -3:] += 2  # beyond the last whole block, too
    x[0, ..., : columns // 2] = -torch.inf
    values, positions = largest(x, 3)
    expected = x.topk(3, dim=-1)
    assert torch.equal(values, expected.values) and torch.equal(positions, expected.indices)


def test_all_of_them_may_be_in_one_block():
    x = torch.zeros(2, 16 * BLOCK)
    x[:, 3 * BLOCK : 3 * BLOCK + 4] = torch.tensor([4.0, 1.0, 3.0, 2.0])
    assert (
        largest(x, 4)[1].tolist() == [[3 * BLOCK, 3 * BLOCK + 2, 3 * BLOCK + 3, 3 * BLOCK + 1]] * 2
    )


def test_a_number_that_is_not_finite_stays_among_the_largest():
    x = torch.zeros(1, 16 * BLOCK)
    x[0, 77] = torch.nan
    values, positions = largest(x, 2)
    assert values.isnan()[0, 0] and positions[0, 0] == 77


@pytest.mark.parametrize("columns", [16 * BLOCK, 16 * BLOCK + 5])
def test_only_a_few_blocks_are_searched(columns, monkeypatch):
    seen = []
    topk = torch.Tensor.topk
    monkeypatch.setattr(
        torch.Tensor, "topk", lambda x, *k, **o: seen.append(x.shape[-1]) or topk(x, *k, **o)
    )
    largest(torch.randn(2, columns), 3)
    assert seen == [16, 3 * BLOCK + columns - 16 * BLOCK]


@pytest.mark.parametrize("columns", [3, 4 * BLOCK, 9 * BLOCK + 5])
@pytest.mark.parametrize("width", [1, 3])
def test_the_largest_sums_are_those_of_topk(columns, width):
    x, offsets = torch.randn(5, width, columns), torch.randn(5, width)
    x[..., -2:] += 2  # beyond the last whole block, too
    offsets[0, 0] = -torch.inf
    values, positions = largest_sums(x, offsets, 3)
    expected = (x + offsets[..., None]).flatten(1).topk(3, dim=-1)
    assert torch.equal(values, expected.values)
    if width > 1:  # otherwise all sums of the first search are equal
        assert torch.equal(positions, expected.indices)
