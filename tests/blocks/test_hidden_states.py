"""Recorded hidden states and scores are those that a stack computes, at every call."""

import pytest
import torch
from torch.testing import assert_close

from headway.attention import record_attention
from headway.blocks.hidden_states import record_blocks, stack_of
from headway.models import GPT, Bert, BertConfig, GPTConfig, Translator, TranslatorConfig

SHAPE = {"model_dim": 12, "num_heads": 3, "ffn_dim": 20, "dropout": 0.0, "vocabulary": 17}
TOKENS = torch.randint(17, (2, 5), generator=torch.Generator().manual_seed(1))
KEYS = torch.tensor([[True] * 5, [True, True, True, False, False]])


def bert(**changes):
    torch.manual_seed(0)
    return Bert(BertConfig(**SHAPE, num_layers=3, max_length=7, **changes)).eval()


@pytest.mark.parametrize("shared", [False, True])
def test_hidden_states_and_scores_of_every_layer_are_recorded(shared):
    model = bert(shared_layers=shared)
    with record_blocks(stack_of(model)) as inside, record_attention(model) as maps:
        out = model.encode(TOKENS, KEYS)
    assert len(inside.hidden) == 4 and len(inside.scores) == 3
    assert torch.equal(inside.hidden[0], model.embedding(TOKENS))
    assert torch.equal(inside.hidden[-1], out)
    recorded = [weights for calls in maps.values() for weights in calls]
    hidden = ~KEYS[:, None, None, :]
    for scores, weights in zip(inside.scores, recorded, strict=True):
        assert_close(scores.masked_fill(hidden, -torch.inf).softmax(-1), weights)
        assert not scores.masked_select(hidden).any()


def test_gradients_flow_through_recorded_states_and_hooks_are_removed():
    model = bert()
    with record_blocks(stack_of(model)) as inside:
        model.encode(TOKENS)
    (inside.scores[1].sum() + inside.hidden[1].sum()).backward()
    assert model.encoder.blocks[1].attention.query.weight.grad.abs().sum() > 0
    model.encode(TOKENS)
    assert len(inside.hidden) == 4 and len(inside.scores) == 3


def test_states_of_language_models_are_recorded_too_and_are_causal():
    torch.manual_seed(0)
    model = GPT(GPTConfig(**SHAPE, num_kv_heads=1, num_layers=2)).eval()
    with record_blocks(stack_of(model)) as inside:
        model(TOKENS)
    assert [scores.shape for scores in inside.scores] == [(2, 3, 5, 5)] * 2
    assert not torch.triu(inside.scores[0], 1).any()
    assert torch.equal(inside.allowed[0], torch.ones(1, 1, 5, 5).tril().bool())


def test_models_without_recordable_states_are_refused_with_the_reason():
    with pytest.raises(ValueError, match="not one"):
        stack_of(torch.nn.Linear(2, 2))
    model = bert(attention="linear")
    with (
        pytest.raises(ValueError, match="no scores before a softmax"),
        record_blocks(stack_of(model)),
    ):
        pass
    assert not model.encoder._forward_pre_hooks
    assert stack_of(Translator(TranslatorConfig(model_dim=8, num_heads=2))) is not None
