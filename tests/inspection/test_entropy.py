import math

import pytest
import torch

from headway.inspection import attention_entropies, relative_entropy
from tests.fixtures.translators import make


def test_the_entropy_of_one_key_is_zero_and_of_equal_weights_one():
    weights = torch.tensor([[[0.25] * 4, [0.0, 1.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]]])
    entropies = relative_entropy(weights, causal=False)[0].tolist()
    assert entropies == pytest.approx([1.0, 0.0, 0.5], abs=1e-6)


def test_the_entropy_of_a_causal_query_is_relative_to_its_allowed_keys():
    weights = torch.tensor([[[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [1 / 3] * 3]])
    entropies = relative_entropy(weights, causal=True)[0].tolist()
    assert math.isnan(entropies[0])
    assert entropies[1:] == pytest.approx([1.0, 1.0])
    assert relative_entropy(weights[:, 2:], causal=True)[0].tolist() == pytest.approx([1.0])


def test_the_entropy_of_a_query_with_a_window_is_relative_to_the_keys_inside_it():
    even = torch.tensor([[[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5]]])
    entropies = relative_entropy(even, causal=True, window=2)[0].tolist()
    assert math.isnan(entropies[0]) and entropies[1:] == pytest.approx([1.0] * 3)
    both_sides = torch.tensor([[[0.5, 0.5, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0], [0, 0, 1.0, 0]]])
    square = torch.cat((both_sides, torch.tensor([[[0, 0, 0.5, 0.5]]])), dim=1)
    entropies = relative_entropy(square, causal=False, window=2)[0].tolist()
    assert entropies == pytest.approx([1.0, 1.0, 0.0, 1.0], abs=1e-6)


def test_the_entropy_of_uniform_attention_within_a_models_window_is_one():
    bundle = make(attention="window", window=2)
    with torch.no_grad():
        for name, parameter in bundle.model.named_parameters():
            if "attention.query" in name:
                parameter.zero_()  # every score is 0
    entropies = attention_entropies(bundle, ["two dogs play", "bread"], ["zwei hunde", "brot"])
    for layer, heads in entropies.items():
        is_one = heads == pytest.approx([1.0] * 3, abs=1e-6)
        assert is_one is not layer.endswith(".cross"), layer


def test_every_layer_and_head_of_a_model_has_its_mean_entropy():
    bundle = make()
    sources, targets = ["two dogs play", "bread"], ["zwei hunde", "brot"]
    entropies = attention_entropies(bundle, sources, targets)
    assert set(entropies) == set(bundle.attention("bread", "brot").maps)
    of_queries = torch.cat(
        [
            relative_entropy(bundle.attention(s, t).maps["decoder.blocks.1.cross"], causal=False)
            for s, t in zip(sources, targets, strict=True)
        ],
        dim=1,
    )
    assert entropies["decoder.blocks.1.cross"] == pytest.approx(of_queries.mean(1).tolist())


def test_weights_that_do_not_sum_to_one_have_no_entropy():
    bundle = make(attention="linear")
    assert attention_entropies(bundle, ["two dogs play"], ["zwei hunde"]) == {}
