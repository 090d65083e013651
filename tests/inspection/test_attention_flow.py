"""Rollout and value-weighted attention, compared with their definitions."""

import pytest
import torch
from torch.testing import assert_close

from headway.base.errors import UsageError
from headway.inspection.attention_flow import rolled, rollout, value_weighted
from headway.inspection.watch import watch
from tests.fixtures.bundles import gpt, translator


def test_a_rollout_is_the_sum_over_all_paths():
    layers = [torch.rand(3, 4, 4).softmax(-1) for _ in range(3)]
    rolled_out = rollout(layers)
    means = [layer.mean(0).double() for layer in layers]
    for t in range(4):
        for s in range(4):
            total = 0.0
            for a in range(4):  # t attends to a in the last layer, a to b, b to s
                for b in range(4):
                    path = 1.0
                    for mean, x, y in ((means[2], t, a), (means[1], a, b), (means[0], b, s)):
                        path *= 0.5 * float(mean[x, y]) + 0.5 * (x == y)
                    total += path
            assert float(rolled_out[2][t, s]) == pytest.approx(total)
    for weights in rolled_out:
        assert_close(weights.sum(-1), torch.ones(4))


def test_the_rollout_of_a_model_is_that_of_its_maps_and_is_causal():
    frame = watch(gpt(), "the fox eats the lemon", written=0)
    plain, rolled_ = (
        next(m for m in frame.maps if m.measure == name) for name in ("attention", "rollout")
    )
    expected = rollout(plain.weights)
    for weights, expected_weights in zip(rolled_.weights, expected, strict=True):
        assert torch.equal(weights[0], expected_weights) and torch.equal(
            expected_weights, expected_weights.tril()
        )


def test_cross_attention_and_weights_that_do_not_sum_to_one_have_no_rollout():
    frame = watch(translator(), "two dogs", target="zwei")
    with pytest.raises(UsageError, match="no rollout of cross"):
        rolled(next(m for m in frame.maps if m.name == "cross"))
    measures = {m.measure for m in watch(translator(attention="linear"), "two dogs").maps}
    assert measures == {"attention", "value-weighted"}


def test_a_large_weight_on_a_value_of_small_norm_is_small():
    weights = torch.tensor([[[0.9, 0.1], [-0.5, 0.5]]])
    weighted = value_weighted(weights, torch.tensor([[0.01, 3.0]]))
    assert_close(weighted, torch.tensor([[[0.009, 0.3], [0.005, 1.5]]]))
