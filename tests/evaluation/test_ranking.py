"""Correlations and ranks, compared with values by hand and by numpy."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from headway.evaluation import correct_ranks, pearson, ranks, spearman


def test_equal_values_share_the_mean_of_their_ranks():
    values = torch.tensor([30.0, 10.0, 20.0, 20.0, 20.0, 5.0])
    assert ranks(values).tolist() == [6.0, 2.0, 4.0, 4.0, 4.0, 1.0]
    assert ranks(torch.tensor([7.0, 7.0])).tolist() == [1.5, 1.5]


def test_pearson_equals_numpys():
    x, y = torch.randn(2, 57, dtype=torch.float64)
    y = y + x / 2
    assert pearson(x, y) == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-12)
    assert pearson(x, 3 * x + 1) == pytest.approx(1)
    assert pearson(x, -x) == pytest.approx(-1)
    assert pearson((x * 1e-3 + 1e3).float(), y.float()) == pytest.approx(pearson(x, y), abs=0.05)


def test_spearman_depends_on_the_order_only():
    x = torch.tensor([0.1, 0.4, 0.2, 0.9])
    assert spearman(x, x.exp()) == pytest.approx(1)
    assert spearman(x, -x) == pytest.approx(-1)
    # 1 - 6 sum d^2 / (n (n^2 - 1)) with ranks 1 3 2 4 and 2 3 1 4
    assert spearman(x, torch.tensor([5.0, 8.0, 1.0, 9.0])) == pytest.approx(1 - 6 * 2 / 60)
    tied = torch.tensor([1.0, 1.0, 2.0, 3.0])  # ranks 1.5 1.5 3 4
    expected = np.corrcoef([1.5, 1.5, 3, 4], [1, 3, 2, 4])[0, 1]
    assert spearman(tied, x) == pytest.approx(expected)


def test_the_correlation_with_a_constant_is_0():
    x = torch.tensor([1.0, 2.0, 3.0])
    assert pearson(x, torch.ones(3)) == 0.0 == spearman(torch.zeros(3), x)
    with pytest.raises(ValueError, match="at least 2"):
        pearson(x[:1], x[:1])


def test_the_correct_entry_ranks_behind_ties():
    scores = torch.tensor([[0.9, 0.1, 0.2], [0.5, 0.5, 0.1], [0.8, 0.7, 0.1]])
    none = torch.zeros(3, 3, dtype=torch.bool)
    assert correct_ranks(scores, none).tolist() == [1, 2, 3]
    left_out = none.clone()
    left_out[2, 0] = left_out[1, 0] = True
    assert correct_ranks(scores, left_out).tolist() == [1, 1, 2]
    assert_close(correct_ranks(torch.ones(4, 4), torch.zeros(4, 4).bool()), torch.full((4,), 4))
