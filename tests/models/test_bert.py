"""Shapes, padding and initialisation of encoders; tests/parity compares their outputs."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from headway.base.settings import flatten, override, to_dict
from headway.data.padding import collate_encoder_batch
from headway.models import (
    Bert,
    BertClassifier,
    BertClassifierConfig,
    BertConfig,
    BertQuestionAnswering,
    BertQuestionAnsweringConfig,
    BertTagger,
    BertTaggerConfig,
    bert_classifier,
    bert_question_answering,
    bert_tagger,
    parameter_count,
)
from headway.models.bert_heads import remove_heads

SMALL = BertConfig(
    model_dim=24, num_heads=6, ffn_dim=40, num_layers=3, max_length=16, vocabulary=11
)
KINDS = {
    "bert": {},
    "pre-norm": {"norm": "pre", "activation": "relu"},
    "roberta": {"first_position": 2, "token_types": 1},
    "distilbert": {"token_types": 0},
    "albert": {"shared_layers": True, "embedding_dim": 10},
    "rotary": {"positions": "rotary"},
    "alibi": {"positions": "alibi"},
    "relative": {"positions": "relative"},
    "sinusoidal": {"positions": "sinusoidal"},
    "window": {"attention": "window", "window": 2},
    "linear": {"attention": "linear"},
    "additive": {"attention": "additive"},
}
ROWS = [[2, 5, 6, 7, 3, 8, 9, 3], [2, 7, 3], [2, 9, 9, 4, 3]]
TYPES = [[0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0], [0, 0, 0, 0, 0]]


def with_noise(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


def models():
    """Return one model of each class with the shape of its output per text."""
    return {
        "words": (Bert(SMALL), (8, 11)),
        "classes": (BertClassifier(Bert(SMALL), 5), (5,)),
        "classes of the mean": (BertClassifier(Bert(SMALL), 5, "mean"), (5,)),
        "tags": (BertTagger(Bert(SMALL), 7), (8, 7)),
        "answers": (BertQuestionAnswering(Bert(SMALL)), (8, 2)),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_token_has_a_vector_and_every_text_one(kind):
    model = Bert(replace(SMALL, **KINDS[kind])).eval()
    batch = collate_encoder_batch(ROWS, TYPES, 0)
    hidden = model.encode(batch.tokens, batch.keys, batch.types)
    assert hidden.shape == (3, 8, 24)
    assert model.pool(hidden).shape == (3, 24)
    assert model.words(hidden).shape == (3, 8, 11)
    assert model.words(hidden[batch.keys]).shape == (16, 11)
    assert model.follows(hidden).shape == (3, 2)


@pytest.mark.parametrize("name", models())
def test_heads_on_an_encoder_have_their_output_shapes(name):
    model, shape = models()[name]
    batch = collate_encoder_batch(ROWS, TYPES, 0)
    assert model.eval()(batch.tokens, batch.keys, batch.types).shape == (3, *shape)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_padding_has_no_effect_and_a_batch_equals_its_rows_alone(kind):
    model = with_noise(Bert(replace(SMALL, **KINDS[kind])))
    logits = []
    for pad, extra in ((0, 0), (10, 0), (4, 5)):
        rows, types = [*ROWS, [1] * (8 + extra)], [*TYPES, [0] * (8 + extra)]
        batch = collate_encoder_batch(rows, types, pad)
        logits.append(
            model.encode(batch.tokens, batch.keys, batch.types)[:3, :8][batch.keys[:3, :8]]
        )
    assert_close(logits[1], logits[0], rtol=0, atol=1e-6)
    assert_close(logits[2], logits[0], rtol=0, atol=1e-5)
    alone = [
        model.encode(torch.tensor([row]), None, torch.tensor([types]))[0]
        for row, types in zip(ROWS, TYPES, strict=True)
    ]
    assert_close(torch.cat(alone), logits[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", models())
@torch.no_grad()
def test_the_output_of_a_text_does_not_depend_on_the_batch(name):
    model = with_noise(models()[name][0])
    batch = collate_encoder_batch(ROWS, TYPES, 0)
    batched = model(batch.tokens, batch.keys, batch.types)
    for i, row in enumerate(ROWS):
        single = collate_encoder_batch([row], [TYPES[i]], 0)
        alone = model(single.tokens, single.keys, single.types)[0]
        output = batched[i] if alone.dim() == 1 else batched[i, : len(row)]
        assert_close(alone, output, rtol=0, atol=1e-5)


@torch.no_grad()
def test_every_token_attends_to_every_token():
    model = with_noise(Bert(SMALL))
    tokens = torch.tensor([ROWS[0]])
    before = model.encode(tokens)
    for position in range(8):
        changed = tokens.clone()
        changed[0, position] = 10
        assert bool((model.encode(changed) != before).any(-1).all()), position


@torch.no_grad()
def test_token_types_change_the_output_unless_the_model_has_none():
    tokens, types = torch.tensor([ROWS[0]]), torch.tensor([TYPES[0]])
    for kinds in (0, 1, 2):
        model = with_noise(Bert(replace(SMALL, token_types=kinds)))
        is_equal = torch.equal(model.encode(tokens, None, types), model.encode(tokens))
        assert is_equal == (kinds < 2)


@torch.no_grad()
def test_first_position_is_the_position_of_the_first_token_in_the_table():
    plain, moved = with_noise(Bert(SMALL)), with_noise(Bert(replace(SMALL, first_position=2)))
    rows = {name: p.detach().clone() for name, p in plain.named_parameters()}
    table = "embedding.words.positions.table.vectors"
    rows[table] = torch.cat([torch.randn(2, 24), rows[table]])
    assert moved.get_parameter(table).shape == (18, 24)
    for name, parameter in moved.named_parameters():
        parameter.copy_(rows[name])
    tokens = torch.tensor([[2, *range(11), 5, 6, 7, 3]])
    assert torch.equal(moved.encode(tokens), plain.encode(tokens))
    assert plain.max_length == moved.max_length == 16
    for model in (plain, moved):
        with pytest.raises(ValueError, match="positions are needed"):
            model.encode(torch.zeros(1, 17, dtype=torch.long))


def test_shared_layers_have_one_set_of_parameters():
    shared = replace(SMALL, shared_layers=True)
    counts = {n: parameter_count(Bert(replace(shared, num_layers=n))) for n in (1, 2, 7)}
    assert len(set(counts.values())) == 1
    model = with_noise(Bert(shared))
    assert len(model.encoder.blocks) == 3
    assert len({id(block) for block in model.encoder.blocks}) == 1
    unshared = with_noise(Bert(SMALL))
    with torch.no_grad():
        for name, parameter in unshared.named_parameters():
            shared_name = name.replace("blocks.1.", "blocks.0.").replace("blocks.2.", "blocks.0.")
            parameter.copy_(model.get_parameter(shared_name))
        tokens = torch.tensor(ROWS[:1])
        assert torch.equal(unshared.encode(tokens), model.encode(tokens))


def test_narrow_embeddings_are_projected_to_the_model_width_and_back():
    model = Bert(replace(SMALL, embedding_dim=10))
    assert model.tokens.weight.shape == (11, 10)
    assert model.widen.weight.shape == (24, 10)
    assert model.masked_lm_head is not None
    assert model.masked_lm_head.transform.weight.shape == (10, 24)
    assert model.masked_lm_head.output.weight is model.tokens.weight


@torch.no_grad()
def test_the_pooler_is_its_activation_of_the_first_tokens_vector():
    hidden = torch.randn(2, 5, 24)
    for name, activation in (("tanh", torch.tanh), ("relu", torch.relu)):
        model = with_noise(Bert(replace(SMALL, pooler=name)))
        layer = model.pooler.project
        expected = activation(hidden[:, 0] @ layer.weight.T + layer.bias)
        assert_close(model.pool(hidden), expected, rtol=0, atol=1e-5)
        changed = torch.cat([hidden[:, :1], torch.randn(2, 4, 24)], 1)
        assert torch.equal(model.pool(changed), model.pool(hidden))


def test_a_missing_head_is_named():
    model = Bert(replace(SMALL, masked_lm_head=False, next_sentence=False, pooler="none"))
    hidden = torch.zeros(1, 3, 24)
    for method, message in (
        (model.pool, "pooler"),
        (model.words, "masked language modelling"),
        (model.follows, "next"),
    ):
        with pytest.raises(ValueError, match=message):
            method(hidden)


def test_the_number_of_parameters_is_that_of_the_equations():
    d, f, v, t = 24, 40, 11, 16
    block = 4 * (d * d + d) + 2 * d * f + f + d + 4 * d
    embedding = (v + t + 2) * d + 2 * d
    pooler, words, follows = d * d + d, d * d + d + 2 * d + v, 2 * d + 2
    assert parameter_count(Bert(SMALL)) == embedding + 3 * block + pooler + words + follows


@pytest.mark.parametrize("name", BertConfig.sizes)
def test_every_size_is_built_on_the_meta_device(name):
    config = replace(BertConfig(), **BertConfig.sizes[name])
    with torch.device("meta"):
        model = Bert(config)
    assert all(p.is_meta for p in model.parameters())
    assert not list(model.buffers())


@pytest.mark.parametrize(
    ("build", "config"),
    [
        (Bert, SMALL),
        (Bert, replace(SMALL, shared_layers=True, embedding_dim=10)),
        (bert_classifier, BertClassifierConfig(bert=SMALL, num_classes=4)),
        (bert_tagger, BertTaggerConfig(bert=replace(SMALL, pooler="none", next_sentence=False))),
        (bert_question_answering, BertQuestionAnsweringConfig(bert=SMALL)),
    ],
)
def test_init_weights_initialises_a_model_of_the_meta_device(build, config):
    initialised = []
    for device in ("cpu", "meta"):
        with torch.device(device):
            model = build(config)
        if device == "meta":
            assert all(p.is_meta for p in model.parameters())
            model.to_empty(device="cpu")
            if isinstance(model, Bert):
                model.tie_weights()
        torch.manual_seed(3)
        model.init_weights()
        initialised.append(model)
    for a, b in zip(*(m.parameters() for m in initialised), strict=True):
        assert torch.equal(a, b)


def test_initial_weights_have_the_distribution_of_bert():
    model = Bert(replace(SMALL, model_dim=96, ffn_dim=200, vocabulary=500))
    for layer in (model.encoder.blocks[1].attention.query, model.pooler.project, model.tokens):
        assert layer.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert not model.pooler.project.bias.any()
    assert bool((model.embedding.norm.gain == 1).all())


def test_dropping_the_heads_leaves_the_encoder():
    bert = with_noise(Bert(SMALL))
    before = {name: p.detach().clone() for name, p in bert.named_parameters()}
    pooler = bert.pooler
    same = remove_heads(bert, "tanh")
    assert same is bert and same.pooler is pooler
    assert bert.masked_lm_head is None and bert.next_sentence is None
    assert not bert.config.masked_lm_head and not bert.config.next_sentence
    for name, parameter in bert.named_parameters():
        assert torch.equal(parameter, before[name]), name
    assert before.keys() - dict(bert.named_parameters()).keys() == {
        name for name in before if name.startswith(("masked_lm_head.", "next_sentence."))
    }
    assert remove_heads(bert, "none").pooler is None and bert.config.pooler == "none"


def test_a_missing_pooler_is_initialised_with_small_weights():
    bert = Bert(replace(SMALL, pooler="none", next_sentence=False, model_dim=96)).double()
    model = BertClassifier(bert, 3)
    assert model.bert is bert and bert.config.pooler == "tanh"
    projection = bert.pooler.project
    assert projection.weight.dtype == model.head.weight.dtype == torch.float64
    assert projection.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert not projection.bias.any() and not model.head.bias.any()
    assert BertClassifier(Bert(SMALL), 3, "mean").bert.pooler is None
    assert BertTagger(Bert(SMALL), 3).bert.pooler is None


@pytest.mark.parametrize(
    ("build", "config"),
    [
        (bert_classifier, BertClassifierConfig(bert=SMALL, num_classes=4, dropout=0.2)),
        (bert_tagger, BertTaggerConfig(bert=SMALL, num_tags=5)),
        (bert_question_answering, BertQuestionAnsweringConfig(bert=SMALL)),
    ],
)
def test_a_configuration_builds_the_model_and_is_read_back_from_plain_values(build, config):
    model = build(config)
    reloaded = override(type(config)(), flatten(to_dict(model.config)), "config.json")
    assert reloaded == model.config
    assert parameter_count(build(reloaded)) == parameter_count(model)
    sized = override(type(config)(), type(config).sizes["minilm"], "here")
    assert sized.bert == replace(BertConfig(), **BertConfig.sizes["minilm"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_heads": 5}, "model_dim=24 must be a multiple of num_heads=5"),
        ({"max_length": 2}, "max_length=2"),
        ({"pooler": "none"}, "next_sentence needs a pooler"),
        ({"positions": "sinusoidal", "embedding_dim": 7}, "even width"),
        ({"positions": "rotary", "num_heads": 8}, "must be even"),
    ],
)
def test_invalid_shapes_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **changes)
