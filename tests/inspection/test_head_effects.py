"""The predictions without each head, compared with those of all heads."""

from importlib import import_module

import pytest
import torch

from headway.inspection.ablation import without_heads
from headway.inspection.watch import OF_A_PAGE, watch
from tests.fixtures.bundles import gpt, image_encoder, translator
from tests.fixtures.captioners import PIXELS


def test_the_effect_of_a_head_are_the_predictions_of_a_forward_pass_without_it():
    bundle = translator()
    options = {"target": "zwei hunde", "analyses": ("effects",)}
    frame = watch(bundle, "two dogs play", **options)
    reading = bundle.reading("two dogs play", "zwei hunde")
    with torch.no_grad():
        best = reading.run()[0].argmax(-1)
        with without_heads(bundle.model, [("cross", 1, 2)]):
            after = reading.run()[0].softmax(-1)
    effect = frame.effects["cross"][1][2]
    expected = after.gather(1, best[:, None])[:, 0].tolist()
    assert effect.probabilities == pytest.approx(expected, rel=1e-4)
    changed = (after.argmax(-1) != best).nonzero()[:, 0].tolist()
    assert sorted(effect.changed) == changed
    names = bundle.tokenizer.target.token_strings(after.argmax(-1).tolist())
    assert all(effect.changed[at] == names[at] for at in changed)
    counts = {part: [len(layer) for layer in layers] for part, layers in frame.effects.items()}
    assert counts == {"encoder": [3], "decoder": [3, 3], "cross": [3, 3]}
    assert frame.importance == {}


def test_effects_are_left_out_where_they_take_long(monkeypatch):
    assert watch(gpt(), "the fox", analyses=OF_A_PAGE).effects
    monkeypatch.setattr(import_module("headway.inspection.watch"), "CHEAP", 1000)
    assert watch(gpt(), "the fox", analyses=OF_A_PAGE).effects == {}
    assert watch(gpt(), "the fox", analyses=("importance",)).effects  # on request, always


def test_a_model_that_predicts_nothing_has_no_effects():
    assert watch(image_encoder(), PIXELS[0], analyses=OF_A_PAGE).effects == {}
