"""Initialisation of an encoder from another one, with a larger vocabulary."""

from dataclasses import replace

import pytest
import torch

from headway.models import Bert, BertConfig, start_from

SMALL = BertConfig(
    model_dim=12, num_heads=3, ffn_dim=20, num_layers=2, max_length=9, vocabulary=17, dropout=0.0
)


def test_all_parameters_are_copied_and_new_words_are_means_of_their_tokens():
    torch.manual_seed(0)
    start, model = Bert(SMALL), Bert(replace(SMALL, vocabulary=21))
    torch.nn.init.normal_(start.masked_lm_head.output.bias)
    start_from(model, start, [[3, 5, 5], [7], [16, 0]], 18)
    parameters, old = dict(model.named_parameters()), dict(start.named_parameters())
    for name, value in old.items():
        assert torch.equal(parameters[name][: len(value)], value), name
    table = start.tokens.weight
    assert torch.allclose(model.tokens.weight[18], (table[3] + 2 * table[5]) / 3)
    assert torch.equal(model.tokens.weight[19], table[7])
    bias = start.masked_lm_head.output.bias
    assert torch.allclose(model.masked_lm_head.output.bias[20], (bias[16] + bias[0]) / 2)
    assert model.masked_lm_head.output.weight is model.tokens.weight
    ids = torch.tensor([[1, 4, 16, 2]])
    assert torch.allclose(model.eval()(ids)[..., :17], start.eval()(ids), atol=1e-6)


def test_a_head_that_the_start_lacks_is_initialised_anew():
    torch.manual_seed(0)
    model = Bert(replace(SMALL, next_sentence=False))
    head = model.masked_lm_head.transform.weight.clone()
    start = Bert(replace(SMALL, masked_lm_head=False, next_sentence=False))
    start_from(model, start, [], 17)
    assert torch.equal(model.masked_lm_head.transform.weight, head)
    assert torch.equal(model.tokens.weight, start.tokens.weight)


def test_a_start_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="has no parameter masked_lm_head"):
        start_from(Bert(replace(SMALL, masked_lm_head=False)), Bert(SMALL), [], 17)
    with pytest.raises(ValueError, match=r"has shape .* but that of the model has"):
        start_from(Bert(replace(SMALL, model_dim=24)), Bert(SMALL), [], 17)
