"""Every word guessed from all others, against the definition written out."""

import math
from dataclasses import replace

import pytest
import torch

from headway.bundle import EncoderBundle
from headway.errors import UsageError
from headway.evaluation import pseudo_perplexity
from headway.models import Bert, BertConfig
from headway.text import MarkedTokenizer

TEXTS = ["the fox eats a lemon", "an owl", "the crab sings of the lemon and of bread", ""]
SMALL = BertConfig(model_dim=12, num_heads=3, ffn_dim=20, num_layers=2, max_length=16)


@pytest.fixture
def bundle():
    tokenizer = MarkedTokenizer.train(TEXTS, 100)
    torch.manual_seed(0)
    model = Bert(replace(SMALL, vocabulary=tokenizer.size + 3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return EncoderBundle(model, tokenizer)


def by_hand(bundle, text):
    marks = bundle.tokenizer.marks
    ids, total = [marks.start, *bundle.tokenizer.encode(text), marks.end], 0.0
    for place in range(1, len(ids) - 1):
        shown = torch.tensor([[*ids[:place], marks.mask, *ids[place + 1 :]]])
        with torch.inference_mode():
            total -= bundle.model(shown)[0, place].log_softmax(-1)[ids[place]].item()
    return total, len(ids) - 2


def test_each_token_is_hidden_alone(bundle):
    parts = [by_hand(bundle, text) for text in TEXTS]
    found = pseudo_perplexity(bundle, TEXTS)
    nats, tokens = (sum(column) for column in zip(*parts, strict=True))
    assert found.nats == pytest.approx(nats, rel=1e-5) and found.tokens == tokens
    assert found.words == 16 and found.fertility == tokens / 16
    assert found.a_token == pytest.approx(math.exp(nats / tokens), rel=1e-5)
    assert found.a_word == pytest.approx(math.exp(nats / 16), rel=1e-5)


def test_long_texts_are_read_in_parts(bundle):
    words = ("fox owl crab " * 12).split()
    ids = bundle.tokenizer.encode(" ".join(words))
    found = pseudo_perplexity(bundle, [" ".join(words)])
    assert len(ids) > 14 and found.tokens == len(ids)


def test_what_has_no_pseudo_perplexity_is_refused(bundle):
    with pytest.raises(UsageError, match="have no tokens"):
        pseudo_perplexity(bundle, [""])
    bundle.model.masked_words = None
    with pytest.raises(UsageError, match="no head"):
        pseudo_perplexity(bundle, TEXTS)
