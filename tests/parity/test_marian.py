"""A whole translator compared with transformers' MarianMT, with the same weights."""

from dataclasses import replace

import pytest
import torch
from bench.marian import Specials, to_marian
from torch.testing import assert_close

from headway.decoding import Forbidden, Limits, greedy_search
from headway.errors import UsageError
from headway.models import Translator, TranslatorConfig

B, S, T, V = 3, 7, 5, 19
SPECIALS = Specials(pad=0, bos=1, eos=2)
CONFIG = TranslatorConfig(
    model_dim=24,
    num_heads=3,
    ffn_dim=40,
    encoder_layers=2,
    decoder_layers=3,
    norm="post",
    source_vocabulary=V,
    target_vocabulary=V,
)


@pytest.fixture
def pair():
    model = Translator(CONFIG).eval()
    with torch.no_grad():  # zero biases would hide a forgotten one
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model, to_marian(model, SPECIALS)


@torch.no_grad()
def test_logits_equal_marians(pair):
    model, theirs = pair
    source, read = torch.randint(3, V, (B, S)), torch.randint(3, V, (B, T))
    keys = torch.arange(S) < torch.tensor([[S], [4], [6]])
    expected = theirs(input_ids=source, attention_mask=keys.long(), decoder_input_ids=read).logits
    assert_close(model(source, read, keys), expected, rtol=0, atol=1e-5)


@torch.no_grad()
def test_greedy_outputs_equal_marians_generate(pair):
    model, theirs = pair
    source = torch.randint(3, V, (B, S))
    ours = greedy_search(model, (source, None), Limits(1, 2, [8] * B, [Forbidden([[0], [1]])]))
    generated = theirs.generate(
        input_ids=source,
        attention_mask=torch.ones_like(source),
        num_beams=1,
        do_sample=False,
        max_new_tokens=9,  # Marian forces </s> at the last position
        bad_words_ids=[[0], [1]],
    )
    for hypothesis, row in zip(ours, generated.tolist(), strict=True):
        words = row[1:]
        assert list(hypothesis.tokens) == (words[: words.index(2)] if 2 in words else words)


def test_a_pre_norm_model_is_refused():
    with pytest.raises(UsageError):
        to_marian(Translator(replace(CONFIG, norm="pre")), SPECIALS)
