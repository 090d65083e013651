"""A student is initialised with the parameters of its teacher."""

import pytest
import torch
from torch.testing import assert_close

from headway.attention import Mask
from headway.blocks import FeedForward, GatedFeedForward
from headway.blocks.hidden_states import record_blocks, stack_of
from headway.models import (
    GPT,
    Bert,
    BertClassifier,
    BertConfig,
    BertQuestionAnswering,
    BertTagger,
    GPTConfig,
    backbone_of,
    student_config,
    student_of,
    with_backbone,
)

TEACHER = {"model_dim": 12, "num_heads": 3, "ffn_dim": 20, "num_layers": 4, "vocabulary": 40}
TOKENS = torch.randint(40, (2, 5), generator=torch.Generator().manual_seed(1))


def teacher(**changes):
    torch.manual_seed(3)
    return Bert(BertConfig(**TEACHER, max_length=9, dropout=0.0, **changes)).eval()


def test_a_shape_changes_no_other_setting():
    config = student_config(teacher().config, {"num_layers": 2, "model_dim": 6, "num_heads": None})
    assert (config.num_layers, config.model_dim, config.num_heads) == (2, 6, 3)
    assert config.ffn_dim == 10  # the same multiple of the width
    assert config.vocabulary == 40 and config.max_length == 9


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"num_layers": 5}, "at most"),
        ({"model_dim": 7}, "multiple"),
        ({"vocabulary": 7}, "cannot differ from its teacher in vocabulary"),
    ],
)
def test_impossible_shapes_are_refused(shape, message):
    with pytest.raises(ValueError, match=message):
        student_config(teacher().config, shape)


def test_a_student_of_its_teachers_shape_has_the_same_outputs():
    model = teacher()
    student = student_of(model, student_config(model.config, {})).eval()
    assert_close(student.encode(TOKENS), model.encode(TOKENS))
    assert student.tokens.weight is not model.tokens.weight


def test_a_shallower_student_has_its_teachers_lowest_blocks():
    model = teacher()
    student = student_of(model, student_config(model.config, {"num_layers": 2})).eval()
    with record_blocks(stack_of(model)) as expected, record_blocks(stack_of(student)) as states:
        model.encode(TOKENS)
        student.encode(TOKENS)
    assert torch.equal(states.hidden[2], expected.hidden[2])
    assert torch.equal(student.pooler.project.weight, model.pooler.project.weight)


def test_blocks_with_another_number_of_heads_are_not_copied():
    model = teacher()
    student = student_of(model, student_config(model.config, {"num_heads": 6}))
    ours, theirs = (bert.encoder.blocks[0].attention.query.weight for bert in (student, model))
    assert ours.shape == theirs.shape and not torch.equal(ours, theirs)


@pytest.mark.parametrize("tie_output", [True, False])
def test_a_student_of_a_language_model_is_initialised_in_the_same_way(tie_output):
    torch.manual_seed(4)
    shape = {"model_dim": 12, "num_heads": 3, "num_kv_heads": 1, "ffn_dim": 20, "vocabulary": 40}
    model = GPT(GPTConfig(**shape, num_layers=3, max_length=9, tie_output=tie_output)).eval()
    same = student_of(model, student_config(model.config, {})).eval()
    assert_close(same(TOKENS), model(TOKENS))
    lower = student_of(model, student_config(model.config, {"num_layers": 1})).eval()
    assert_close(lower.decoder.blocks[0](*_into(model)), model.decoder.blocks[0](*_into(model)))
    narrow = student_of(model, student_config(model.config, {"model_dim": 6, "num_layers": 1}))
    values = torch.linalg.svdvals(model.embedding.tokens.weight)
    assert_close(narrow.embedding.tokens.weight.norm(), values[:6].norm())
    assert narrow(TOKENS).shape == (2, 5, 40)
    with pytest.raises(ValueError, match="embedding_dim"):
        student_config(model.config, {"embedding_dim": 4})


def _into(model):
    x = model.embedding(TOKENS)
    return x, model.decoder.whole(x, Mask(causal=True))


@pytest.mark.parametrize(
    "model",
    [
        lambda bert: BertClassifier(bert, 3, "mean"),
        lambda bert: BertTagger(bert, 5),
        BertQuestionAnswering,
    ],
)
def test_a_student_has_the_head_of_its_teacher_if_its_shape_fits(model):
    whole = model(teacher()).eval()
    body = backbone_of(whole)
    same = with_backbone(whole, student_of(body, student_config(body.config, {}))).eval()
    keys = torch.ones(2, 5, dtype=torch.bool)
    assert type(same) is type(whole) and same.config == whole.config
    assert_close(same(TOKENS, keys), whole(TOKENS, keys))
    shape = {"model_dim": 6, "num_layers": 1}
    narrow = with_backbone(whole, student_of(body, student_config(body.config, shape)))
    assert narrow.head.weight.shape == (whole.head.weight.shape[0], 6)
    assert narrow.config.bert.num_layers == 1


def test_narrow_embeddings_are_the_best_low_rank_approximation():
    model = teacher()
    student = student_of(model, student_config(model.config, {"embedding_dim": 5})).eval()
    back = student.tokens.weight @ student.widen.weight.T
    words = model.tokens.weight
    values = torch.linalg.svdvals(words)
    assert_close((back - words).norm(), values[5:].norm(), rtol=1e-4, atol=1e-5)
    types = model.embedding.types.weight @ student.widen.weight
    assert_close(student.embedding.types.weight, types)


def test_a_narrower_feed_forward_layer_keeps_the_neurons_with_the_largest_weights():
    model = teacher()
    layers = [m for m in model.modules() if isinstance(m, FeedForward)]
    light = [2, 3, 7, 11, 19]
    with torch.no_grad():
        for layer in layers:
            layer.expand.weight[light] *= 1e-6  # 15 of 20 remain
    student = student_of(model, student_config(model.config, {"ffn_dim": 15})).eval()
    with torch.no_grad():
        for layer in layers:
            layer.contract.weight[:, light] = 0.0
    assert_close(student.encode(TOKENS), model.encode(TOKENS))
    with torch.no_grad():
        layers[0].contract.weight[:, 4] = 0.0  # one of the remaining
    assert (student.encode(TOKENS) - model.encode(TOKENS)).abs().max() > 1e-4


def test_a_narrower_gated_layer_of_a_gpt_keeps_the_neurons_with_the_largest_weights():
    shape = {"model_dim": 12, "num_heads": 3, "ffn_dim": 20, "vocabulary": 40, "num_layers": 1}
    model = GPT(GPTConfig(**shape, activation="swiglu")).eval()
    (layer,) = (m for m in model.modules() if isinstance(m, GatedFeedForward))
    with torch.no_grad():
        layer.gate.weight[[0, 5]] *= 1e-6
    student = student_of(model, student_config(model.config, {"ffn_dim": 18})).eval()
    assert_close(student(TOKENS), model(TOKENS), rtol=1e-4, atol=1e-4)


def test_a_narrower_model_is_initialised_with_the_embeddings_only():
    model = teacher()
    shape = {"num_layers": 1, "model_dim": 6}
    student = student_of(model, student_config(model.config, shape)).eval()
    assert student.encode(TOKENS).shape == (2, 5, 6)
    assert student.tokens.weight.abs().sum() > 0
    fraction = student.tokens.weight.norm() / model.tokens.weight.norm()
    assert 0.5 < fraction < 1  # the six strongest of twelve directions
