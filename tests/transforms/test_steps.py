"""Steps and caches: what the layers of a step share is computed once; both caches do the same."""

from copy import deepcopy

import pytest
import torch
from torch.testing import assert_close

from headway.attention import KeyValueCache, Mask, Rotary
from headway.models import GPT, GPTConfig
from headway.transforms import fast
from headway.transforms.fast.cache import FastCache
from headway.transforms.twins import plain_class

H, K = 6, 4


@pytest.mark.parametrize("kind", [KeyValueCache, FastCache])
def test_caches_of_both_kinds_append_reorder_rewind_and_join(kind):
    tokens = [torch.randn(1, H, 1, K) for _ in range(9)]

    def extend(cache, k, v=None):
        cache.extend([[k, k if v is None else v]] * 2)
        return [store[: len(k)] for store in cache.layers[1].stores]

    cache = kind(2, num_layers=2)
    for n in range(3):
        extend(cache, tokens[n].repeat(2, 1, 1, 1))
    cache.rewind([3, 1])
    step = cache.step(1, torch.device("cpu"))
    assert step.mask.past.tolist() == [3, 1] and step.num_keys == 4
    k, v = extend(cache, torch.cat(tokens[3:5]), torch.cat(tokens[5:7]))
    assert cache.lengths == [4, 2]
    expected = [[0, 1, 2, 3], [0, 4]]
    for row, numbers in enumerate(expected):
        assert torch.equal(k[row, :, : len(numbers)], torch.cat([tokens[n] for n in numbers], 2)[0])
    assert torch.equal(v[1, :, 1], tokens[6][0, :, 0])
    assert torch.equal(cache.last()[0], torch.cat((tokens[3], tokens[4]))[:, :, 0])
    joined = kind(1, num_layers=2)
    joined.join(cache)
    assert joined.lengths == [0, 4, 2]
    joined.reorder([2, 1, 1])
    k, _ = extend(joined, torch.cat(tokens[6:9]))
    assert joined.lengths == [3, 5, 5]
    assert torch.equal(k[0, :, :3], torch.cat([tokens[n] for n in (0, 4, 6)], 2)[0])
    joined.join(kind(1, num_layers=2))
    joined.reorder([3, 1, 2])  # the empty sequence takes the place of the first
    assert joined.lengths == [0, 5, 5]
    kept = torch.cat([tokens[n] for n in (0, 1, 2, 3, 7)], 2)[0]
    k, _ = extend(joined, torch.cat(tokens[6:9]))
    assert torch.equal(k[0, :, :1], tokens[6][0]) and torch.equal(k[1, :, :5], kept)
    joined.reorder([0, 1])
    assert joined.lengths == [1, 6] and torch.equal(joined.layers[1].stores[0][1, :, :5], kept)


@pytest.mark.parametrize("attention", ["scaled-dot", "window"])
def test_the_mask_of_a_decoding_step_is_made_once_for_all_layers(attention, monkeypatch):
    made = []
    plain = Mask.dense
    monkeypatch.setattr(Mask, "dense", lambda mask, *a: (made.append(mask), plain(mask, *a))[1])
    config = {"model_dim": 8, "num_heads": 2, "ffn_dim": 12, "num_layers": 3, "vocabulary": 11}
    model = fast(GPT(GPTConfig(**config, attention=attention, window=3)))
    tokens, keys = torch.randint(11, (2, 8)), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    with torch.inference_mode():
        state = model.start(tokens[:, :5], keys)
        made.clear()
        for step in range(1, 4):
            model.step(tokens[:, 4 + step : 5 + step], state)
            assert len(made) == step


def test_angles_of_rotary_positions_are_computed_once_for_all_layers_of_a_step(monkeypatch):
    config = {"model_dim": 8, "num_heads": 2, "ffn_dim": 12, "num_layers": 3, "vocabulary": 11}
    model = fast(GPT(GPTConfig(**config, positions="rotary")))
    plain = deepcopy(model)
    plain.decoder.apply(lambda module: setattr(module, "__class__", plain_class(module)))
    calls = []
    of_class = Rotary.cos_sin
    monkeypatch.setattr(
        Rotary, "cos_sin", lambda self, *key: calls.append(key[0].tolist()) or of_class(self, *key)
    )
    tokens = torch.randint(11, (2, 5))
    for keys in (None, torch.tensor([[True] * 4, [True] * 2 + [False] * 2])):
        with torch.inference_mode():
            state = model.start(tokens[:, :4], keys)
            calls.clear()
            logits = model.step(tokens[:, 4:], state)[0]
            assert calls == ([[[4]]] if keys is None else [[[4], [2]]])
            expected = plain.step(tokens[:, 4:], plain.start(tokens[:, :4], keys))[0]
        assert_close(logits, expected)
    model(tokens).sum().backward()  # whose gradients need angles of their own
