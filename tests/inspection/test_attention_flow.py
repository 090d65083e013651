"""Rollout and value-weighted attention, against what they mean."""

import pytest
import torch
from torch.testing import assert_close

from headway.errors import UsageError
from headway.inspection.attention_flow import rolled, rollout, value_weighted
from headway.inspection.watch import watch
from tests.fixtures.bundles import gpt, translator


def test_a_rollout_is_the_sum_over_all_paths():
    layers = [torch.rand(3, 4, 4).softmax(-1) for _ in range(3)]
    found = rollout(layers)
    means = [layer.mean(0).double() for layer in layers]
    for t in range(4):
        for s in range(4):
            total = 0.0
            for a in range(4):  # t reads a in the last layer, a reads b, b reads s
                for b in range(4):
                    path = 1.0
                    for mean, x, y in ((means[2], t, a), (means[1], a, b), (means[0], b, s)):
                        path *= 0.5 * float(mean[x, y]) + 0.5 * (x == y)
                    total += path
            assert float(found[2][t, s]) == pytest.approx(total)
    for each in found:
        assert_close(each.sum(-1), torch.ones(4))


def test_the_rollout_of_a_model_is_that_of_its_maps_and_stays_causal():
    frame = watch(gpt(), "the fox eats the lemon", written=0)
    plain, rolled_ = (
        next(m for m in frame.maps if m.measure == name) for name in ("attention", "rollout")
    )
    wanted = rollout(plain.weights)
    for found, own in zip(rolled_.weights, wanted, strict=True):
        assert torch.equal(found[0], own) and torch.equal(own, own.tril())


def test_cross_attention_and_weights_that_are_no_shares_are_not_rolled_out():
    frame = watch(translator(), "two dogs", target="zwei")
    with pytest.raises(UsageError, match="no rollout of cross"):
        rolled(next(m for m in frame.maps if m.name == "cross"))
    measures = {m.measure for m in watch(translator(attention="linear"), "two dogs").maps}
    assert measures == {"attention", "value-weighted"}


def test_a_large_weight_on_a_short_value_is_little():
    weights = torch.tensor([[[0.9, 0.1], [-0.5, 0.5]]])
    found = value_weighted(weights, torch.tensor([[0.01, 3.0]]))
    assert_close(found, torch.tensor([[[0.009, 0.3], [0.005, 1.5]]]))
