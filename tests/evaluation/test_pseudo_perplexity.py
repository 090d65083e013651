"""Pseudo-perplexity, compared with its definition."""

import math
from dataclasses import replace

import pytest
import torch

from headway.base.errors import UsageError
from headway.bundle import EncoderBundle
from headway.models import Bert, BertConfig
from headway.tasks.masked_language_modeling.pseudo_perplexity import pseudo_perplexity
from headway.text import EncoderTokenizer

TEXTS = ["the fox eats a lemon", "an owl", "the crab sings of the lemon and of bread", ""]
SMALL = BertConfig(model_dim=12, num_heads=3, ffn_dim=20, num_layers=2, max_length=16)


@pytest.fixture
def bundle():
    tokenizer = EncoderTokenizer.train(TEXTS, 100)
    torch.manual_seed(0)
    model = Bert(replace(SMALL, vocabulary=tokenizer.size + 3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return EncoderBundle(model, tokenizer)


def by_hand(bundle, text):
    special = bundle.tokenizer.special_tokens
    ids, total = [special.start, *bundle.tokenizer.encode(text), special.end], 0.0
    for position in range(1, len(ids) - 1):
        shown = torch.tensor([[*ids[:position], special.mask, *ids[position + 1 :]]])
        with torch.inference_mode():
            total -= bundle.model(shown)[0, position].log_softmax(-1)[ids[position]].item()
    return total, len(ids) - 2


def test_one_token_is_masked_at_a_time(bundle):
    parts = [by_hand(bundle, text) for text in TEXTS]
    perplexity = pseudo_perplexity(bundle, TEXTS)
    nats, tokens = (sum(column) for column in zip(*parts, strict=True))
    assert perplexity.nats == pytest.approx(nats, rel=1e-5) and perplexity.tokens == tokens
    assert perplexity.words == 16 and perplexity.fertility == tokens / 16
    assert perplexity.per_token == pytest.approx(math.exp(nats / tokens), rel=1e-5)
    assert perplexity.per_word == pytest.approx(math.exp(nats / 16), rel=1e-5)


def test_models_without_a_maximum_length_take_texts_of_any_length(bundle):
    torch.manual_seed(0)
    config = replace(SMALL, positions="rotary", max_length=16, vocabulary=bundle.tokenizer.size + 3)
    rotary = EncoderBundle(Bert(config).eval(), bundle.tokenizer)
    assert rotary.model.max_length is None
    texts = ["", *TEXTS, "fox owl crab " * 12]
    nats, tokens = (
        sum(column) for column in zip(*(by_hand(rotary, t) for t in texts), strict=True)
    )
    perplexity = pseudo_perplexity(rotary, texts)
    assert perplexity.nats == pytest.approx(nats, rel=1e-5) and perplexity.tokens == tokens


def test_long_texts_are_encoded_in_parts(bundle):
    words = ("fox owl crab " * 12).split()
    ids = bundle.tokenizer.encode(" ".join(words))
    perplexity = pseudo_perplexity(bundle, [" ".join(words)])
    assert len(ids) > 14 and perplexity.tokens == len(ids)


def test_texts_without_tokens_and_models_without_a_head_are_refused(bundle):
    with pytest.raises(UsageError, match="have no tokens"):
        pseudo_perplexity(bundle, [""])
    bundle.model.masked_lm_head = None
    with pytest.raises(UsageError, match="no head"):
        pseudo_perplexity(bundle, TEXTS)
