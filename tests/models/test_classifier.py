"""A classifier on the last token of a language model; its training is in tests/training."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from headway.base.settings import flatten, override, to_dict
from headway.models import (
    GPT,
    GPTConfig,
    TextClassifier,
    TextClassifierConfig,
    parameter_count,
    text_classifier,
)
from headway.tasks.classification.data import collate_labelled

SMALL = GPTConfig(model_dim=24, num_heads=3, ffn_dim=40, num_layers=2, max_length=9, vocabulary=11)
TEXTS = [[4, 5, 6, 7, 2], [7, 2], [3, 9, 9, 2]]


def test_logits_are_a_projection_of_the_last_real_tokens_vector():
    model = TextClassifier(GPT(SMALL), 5).eval()
    batch = collate_labelled(TEXTS, [0, 1, 4], pad=0)
    logits = model(batch.tokens, batch.keys)
    assert logits.shape == (3, 5)
    for row, text in enumerate(TEXTS):
        last = model.gpt.hidden(torch.tensor([text]))[0, -1]
        assert_close(logits[row], model.head.weight @ last, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "changes", [{}, {"norm": "post"}, {"positions": "rotary"}, {"attention": "linear"}]
)
def test_padding_at_the_right_has_no_effect(changes):
    model = TextClassifier(GPT(replace(SMALL, **changes)), 3).eval()
    with torch.no_grad():
        logits = []
        for pad, extra in ((0, 0), (10, 0), (3, 4)):
            batch = collate_labelled([*TEXTS, [1] * (5 + extra)], [0] * 4, pad)
            logits.append(model(batch.tokens, batch.keys)[:3])
        assert torch.equal(logits[0], logits[1])
        assert_close(logits[2], logits[0], rtol=0, atol=1e-6)


def test_the_language_model_is_not_copied_and_only_the_head_is_new():
    gpt = GPT(SMALL)
    before = parameter_count(gpt)
    model = TextClassifier(gpt, 4)
    assert model.gpt is gpt and parameter_count(model) == before + 4 * 24
    assert model.gpt.output.weight is model.gpt.embedding.tokens.weight
    assert model.max_length == 9


def test_a_configuration_builds_the_model_and_is_read_back_from_plain_values():
    config = TextClassifierConfig(gpt=SMALL, num_classes=4, dropout=0.2)
    plain = to_dict(config)
    reloaded = override(TextClassifierConfig(), flatten(plain), "config.json")
    assert reloaded == config and text_classifier(reloaded).config == config
    sized = override(TextClassifierConfig(), TextClassifierConfig.sizes["modern-char"], "here")
    assert sized.gpt == replace(GPTConfig(), **GPTConfig.sizes["modern-char"])


def test_it_is_built_on_the_meta_device_and_initialised_later():
    config, models = TextClassifierConfig(gpt=SMALL, num_classes=3), []
    for device in ("cpu", "meta"):
        with torch.device(device):
            model = text_classifier(config)
        if device == "meta":
            assert all(p.is_meta for p in model.parameters())
            model.to_empty(device="cpu")
            model.tie_weights()
        torch.manual_seed(3)
        model.init_weights()
        models.append(model)
    for a, b in zip(*(m.parameters() for m in models), strict=True):
        assert torch.equal(a, b)
    assert models[0].head.weight.std().item() == pytest.approx(0.02, rel=0.3)


def test_zero_classes_and_texts_without_tokens_are_refused():
    with pytest.raises(ValueError, match="num_classes=0"):
        TextClassifier(GPT(SMALL), 0)
    with pytest.raises(ValueError, match="at least one token"):
        collate_labelled([[1], []], [0, 1], 0)
    with pytest.raises(ValueError, match="a label"):
        collate_labelled([[1], [2]], [0], 0)
