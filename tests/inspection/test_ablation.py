"""A head that is switched off adds nothing to the output; the rest of the model is unchanged."""

import math

import pytest
import torch
from torch.testing import assert_close

from headway.attention import attention_layers, record_attention
from headway.base.errors import UsageError
from headway.inspection.ablation import (
    all_heads,
    head_importance,
    heads_of,
    layers_of,
    without_heads,
)
from tests.fixtures.bundles import BUNDLES, encoder, gpt, translator

ALL = pytest.mark.parametrize("name", BUNDLES)


@ALL
def test_switching_a_head_off_equals_zeroing_its_columns_of_the_output_matrix(name):
    make, inputs = BUNDLES[name]
    bundle = make()
    reading = bundle.reading(*inputs)
    layers, counts = layers_of(bundle.model), heads_of(bundle.model)
    shared = len(set(attention_layers(bundle.model).values())) < len(attention_layers(bundle.model))
    with torch.inference_mode():
        unablated = reading.run()
        for part, names in layers.items():
            layer, head = len(names) - 1, counts[part][-1] - 1
            with without_heads(bundle.model, [(part, layer, head)]):
                ablated = reading.run()
            assert not torch.equal(ablated, unablated)
            if shared:  # one matrix of several layers
                continue
            output = bundle.model.get_submodule(names[layer]).output
            width = output.in_features // counts[part][layer]
            weight = output.weight.clone()
            output.weight[:, head * width : (head + 1) * width] = 0
            assert_close(reading.run(), ablated, rtol=1e-4, atol=1e-4)
            output.weight.copy_(weight)
        assert torch.equal(reading.run(), unablated)


def test_heads_of_one_of_several_layers_that_share_a_block_can_be_switched_off():
    bundle = encoder(shared_layers=True, num_layers=3)
    reading = bundle.reading("A fox looks on.")
    with torch.inference_mode(), record_attention(bundle.model) as maps:
        reading.run()
        with without_heads(bundle.model, [("encoder", 1, h) for h in range(3)]):
            reading.run()
    unchanged = [torch.equal(calls[0], calls[1]) for calls in maps.values()]
    assert unchanged == [True, True, False]  # layer 3 is the first to read the output of layer 2


def test_heads_are_off_during_decoding_too_and_a_beam_has_the_log_probability_of_one_pass():
    bundle = translator()
    heads = [("cross", 0, 0), ("decoder", 1, 2), ("encoder", 0, 1)]
    unablated = bundle.search(["the fox eats the lemon"])[0][0]
    with without_heads(bundle.model, heads):
        (best,) = bundle.search(["the fox eats the lemon"])[0]
        reading = bundle.reading("the fox eats the lemon")
        with torch.inference_mode():
            logits = reading.run()[0]
            logits[:, [bundle.tokenizer.target.pad, bundle.tokenizer.target.bos]] = -torch.inf
            log_probs = logits.log_softmax(-1)
    ids = reading.ids["target"]
    total = sum(float(log_probs[t, token]) for t, token in enumerate(ids))
    assert total == pytest.approx(best.log_probability, abs=1e-3)
    assert best.log_probability != unablated.log_probability


def test_importance_is_how_far_the_metric_falls():
    bundle = gpt()
    reading = bundle.reading("the fox eats the lemon")
    ids = torch.tensor(reading.ids["text"])

    @torch.inference_mode()
    def metric():
        return float(
            reading.run()[0, :-1].log_softmax(-1)[torch.arange(len(ids) - 1), ids[1:]].sum()
        )

    importance = head_importance(bundle.model, metric)
    counts = heads_of(bundle.model)
    assert counts == {"decoder": [6, 6, 6]} and len(all_heads(counts)) == 18
    baseline = metric()
    with without_heads(bundle.model, [("decoder", 1, 4)]):
        assert importance["decoder"][1][4] == pytest.approx(baseline - metric())
    partial = head_importance(bundle.model, metric, [("decoder", 2, 0)])
    assert partial["decoder"][2][0] == importance["decoder"][2][0] and math.isnan(
        partial["decoder"][0][0]
    )


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (("cross", 0, 0), "has no attention map 'cross'; its maps are decoder"),
        (("decoder", 3, 0), "no layer 3: its layers are 0 to 2"),
        (("decoder", 0, 6), "has no head 6: its heads are 0 to 5"),
        (("decoder", 0, -1), "has no head -1"),
    ],
)
def test_a_head_that_does_not_exist_is_refused_by_name(head, message):
    with pytest.raises(UsageError, match=message), without_heads(gpt().model, [head]):
        pass
