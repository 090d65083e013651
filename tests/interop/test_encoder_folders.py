"""Invalid encoder folders, and encoders that the format cannot represent, are refused by name."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

import headway
from headway.base.errors import UsageError
from headway.bundle import EncoderBundle
from headway.interop import FAMILIES, read, read_labels, write
from headway.models import Bert, BertClassifier, BertConfig, BertQuestionAnswering, BertTagger
from tests.fixtures.damage import change, refused, written
from tests.fixtures.encoder_tokenizers import write_wordpiece

TINY = BertConfig(model_dim=12, num_heads=2, ffn_dim=20, num_layers=2, max_length=8, vocabulary=11)
ROBERTA = replace(TINY, first_position=2, pooler="none", next_sentence=False)
DISTIL = replace(TINY, token_types=0, pooler="none", next_sentence=False)
ALBERT = replace(TINY, embedding_dim=6, shared_layers=True, activation="gelu-tanh")
CONFIGS = {"bert": TINY, "roberta": ROBERTA, "distilbert": DISTIL, "albert": ALBERT}
BUILDERS = {
    **{name: (name, lambda config: Bert(config)) for name in CONFIGS},
    "classes": ("bert", lambda config: BertClassifier(Bert(config), 3)),
    "roberta's classes": ("roberta", lambda config: BertClassifier(Bert(config), 3)),
    "distilbert's classes": (
        "distilbert",
        lambda config: BertClassifier(Bert(replace(config, pooler="relu")), 3),
    ),
    "tags": ("bert", lambda config: BertTagger(Bert(config), 3)),
    "answers": ("bert", lambda config: BertQuestionAnswering(Bert(config))),
}


@pytest.fixture
def folder(tmp_path):
    """folder("tags", hidden_act="swish") -> a folder of that kind with these changes."""

    def make(kind, **changes):
        family, model = BUILDERS[kind]
        return written(model(CONFIGS[family]), tmp_path, family, **changes)

    return make


@pytest.mark.parametrize("kind", BUILDERS)
def test_every_tensor_that_is_missing_is_named(folder, kind):
    path = folder(kind)
    whole = load_file(path / "model.safetensors")
    for key in whole:
        save_file({k: t for k, t in whole.items() if k != key}, path / "model.safetensors")
        refused(path, f"lacks {key.removeprefix(FAMILIES[BUILDERS[kind][0]].prefix)}")


@pytest.mark.turns(3)
@pytest.mark.parametrize("kind", BUILDERS)
def test_every_tensor_of_a_wrong_shape_is_named_with_both_shapes(folder, kind):
    path = folder(kind)
    whole = load_file(path / "model.safetensors")
    for key, tensor in whole.items():
        wrong = torch.zeros(tensor.shape[0] + 1, *tensor.shape[1:])
        save_file({**whole, key: wrong}, path / "model.safetensors")
        unprefixed = key.removeprefix(FAMILIES[BUILDERS[kind][0]].prefix)
        refused(path, f"{unprefixed} has shape {tuple(wrong.shape)}", str(tuple(tensor.shape)))


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("bert", "bert.encoder.layer.2.output.dense.bias"),
        ("bert", "bert.encoder.layer.0.crossattention.self.query.weight"),
        ("bert", "classifier.weight"),
        ("roberta", "cls.seq_relationship.weight"),
        ("distilbert", "distilbert.pooler.dense.weight"),
        ("albert", "albert.encoder.albert_layer_groups.1.albert_layers.0.ffn.bias"),
        ("classes", "cls.predictions.bias"),
        ("answers", "classifier.weight"),
    ],
)
def test_an_unexpected_tensor_is_refused_by_name(folder, kind, key):
    path = folder(kind)
    change(path, lambda t: t.update({key: torch.ones(3)}))
    refused(path, f"has {key.removeprefix(FAMILIES[BUILDERS[kind][0]].prefix)}")


def test_an_old_and_a_new_name_for_one_tensor_are_refused(folder):
    path = folder("bert")
    change(path, lambda t: t.update({"bert.embeddings.LayerNorm.gamma": torch.ones(12)}))
    refused(path, "embeddings.LayerNorm.weight occurs twice", "its old and its current name")


def test_an_incomplete_head_without_an_architecture_is_refused(folder):
    path = folder("bert", architectures=["BertModel"])
    change(path, lambda t: t.pop("cls.seq_relationship.bias"))
    refused(path, "lacks cls.seq_relationship.bias")


@pytest.mark.parametrize(
    ("kind", "copy", "original"),
    [
        ("bert", "cls.predictions.decoder.weight", "embeddings.word_embeddings.weight"),
        ("bert", "cls.predictions.decoder.bias", "cls.predictions.bias"),
        ("roberta", "lm_head.decoder.bias", "lm_head.bias"),
        ("distilbert", "vocab_projector.weight", "embeddings.word_embeddings.weight"),
        ("albert", "predictions.decoder.bias", "predictions.bias"),
    ],
)
def test_a_tied_tensor_that_differs_from_its_original_is_refused(folder, kind, copy, original):
    path = folder(kind)
    for tensor in (torch.ones(11, 12), torch.ones(11), torch.ones(11).half()):
        change(path, lambda t, tensor=tensor: t.update({copy: tensor}))
        refused(path, f"{copy} differs from {original}")


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("bert", {"hidden_act": "quick_gelu"}),
        ("bert", {"position_embedding_type": "relative_key"}),
        ("bert", {"is_decoder": True}),
        ("bert", {"add_cross_attention": True}),
        ("bert", {"pruned_heads": {"0": [1]}}),
        ("bert", {"tie_word_embeddings": False}),
        ("bert", {"hidden_size": 0}),
        ("bert", {"hidden_size": "12"}),
        ("bert", {"vocab_size": None}),
        ("bert", {"num_hidden_layers": True}),
        ("bert", {"num_hidden_layers": 2**30}),
        ("bert", {"num_attention_heads": 2.0}),
        ("bert", {"layer_norm_eps": "1e-12"}),
        ("bert", {"hidden_dropout_prob": 1.0}),
        ("bert", {"type_vocab_size": -1}),
        ("bert", {"architectures": ["BertForMultipleChoice"]}),
        ("bert", {"architectures": [["BertModel"]]}),
        ("bert", {"architectures": "BertModel"}),
        ("bert", {"architectures": []}),
        ("bert", {"model_type": "canine"}),
        ("roberta", {"hidden_act": "relu"}),
        ("roberta", {"pad_token_id": -1}),
        ("roberta", {"pad_token_id": "1"}),
        ("roberta", {"pad_token_id": 10}),
        ("distilbert", {"activation": "tanh"}),
        ("distilbert", {"n_layers": 2**30}),
        ("albert", {"num_hidden_groups": 2}),
        ("albert", {"inner_group_num": 2}),
        ("albert", {"embedding_size": 12}),
        ("albert", {"num_hidden_layers": 2**30}),
        ("classes", {"problem_type": "multi_label_classification"}),
        ("classes", {"problem_type": "regression"}),
        ("classes", {"classifier_dropout": 2}),
        ("classes", {"id2label": ["a", "b", "c"]}),
        ("classes", {"id2label": {}}),
        ("classes", {"id2label": {"0": "a", "1": "b", "2": "a"}}),
        ("classes", {"id2label": {"0": "a", "1": ["b"], "2": "c"}}),
        ("classes", {"id2label": {"0": "a", "1": "b", "3": "c"}}),
        ("classes", {"id2label": {"0": "a", "1": None}}),
        ("classes", {"id2label": None, "num_labels": 10**9}),
    ],
)
def test_an_invalid_value_of_the_config_is_refused_by_name(folder, kind, changes):
    refused(folder(kind, **changes), list(changes)[-1], "config.json")


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("bert", {"num_attention_heads": 5}, "num_heads=5"),
        ("bert", {"max_position_embeddings": 2}, "max_length=2"),
        ("bert", {"num_hidden_layers": 3}, "lacks encoder.layer.2.attention.self.query.weight"),
        ("bert", {"num_hidden_layers": 1}, "has encoder.layer.1.attention"),
        ("bert", {"hidden_size": 2**30}, "model_dim=1073741824: must be"),
        ("bert", {"hidden_size": 2**16}, "shape"),
        ("bert", {"vocab_size": 12}, "embeddings.word_embeddings.weight has shape (11, 12)"),
        ("bert", {"architectures": ["BertForTokenClassification"]}, "lacks classifier.weight"),
        ("roberta", {"pad_token_id": 7}, "max_length=2"),
        ("albert", {"embedding_size": 7}, "embeddings.word_embeddings.weight has shape (11, 6)"),
        ("classes", {"architectures": ["BertForMaskedLM"]}, "lacks cls.predictions"),
        ("classes", {"id2label": {"0": "a", "1": "b"}}, "classifier.weight has shape (3, 12)"),
        ("tags", {"id2label": {"0": "a"}}, "1 tag"),
    ],
)
def test_a_config_that_does_not_match_the_tensors_is_refused(folder, kind, changes, message):
    refused(folder(kind, **changes), message)


@pytest.mark.parametrize(
    ("config", "family", "message"),
    [
        (replace(TINY, norm="pre"), "bert", "norm=pre"),
        (replace(TINY, positions="rotary"), "bert", "positions=rotary"),
        (replace(TINY, attention="additive"), "bert", "attention=additive"),
        (replace(TINY, pooler="relu"), "bert", "pooler=relu"),
        (replace(TINY, token_types=0), "bert", "token_types=0"),
        (ROBERTA, "bert", "first_position=2"),
        (ALBERT, "bert", "embedding_dim=6"),
        (TINY, "roberta", "first_position=0"),
        (replace(ROBERTA, activation="relu"), "roberta", "activation=relu"),
        (replace(TINY, first_position=2), "roberta", "next_sentence=True"),
        (TINY, "distilbert", "token_types=2"),
        (replace(DISTIL, norm_eps=1e-5), "distilbert", "norm_eps=1e-05"),
        (replace(DISTIL, pooler="tanh"), "distilbert", "pooler=tanh"),
        (replace(ALBERT, shared_layers=False), "albert", "shared_layers=False"),
        (replace(ALBERT, embedding_dim=None), "albert", "embedding_dim=None"),
        (replace(ALBERT, masked_lm_head=False), "albert", "no class with masked_lm_head=False"),
        (TINY, "gpt2", "cannot represent a Bert"),
    ],
)
def test_an_encoder_that_cannot_be_exported_is_refused_with_the_setting(
    tmp_path, config, family, message
):
    with pytest.raises(UsageError, match=message):
        write(Bert(config), tmp_path, family)
    assert not list(tmp_path.iterdir())


def test_a_classifier_with_mean_pooling_cannot_be_exported(tmp_path):
    with pytest.raises(UsageError, match="pooling=mean"):
        write(BertClassifier(Bert(TINY), 3, "mean"), tmp_path)
    with pytest.raises(UsageError, match="distilbert: pooler=tanh"):
        write(BertClassifier(Bert(DISTIL), 3), tmp_path, "distilbert")


@pytest.mark.parametrize("labels", [["a", "b"], ["a", "b", "b"], ["a", "b", "c", "d"]])
def test_a_wrong_number_of_labels_is_refused(tmp_path, labels):
    with pytest.raises(UsageError, match="expected 3 different labels"):
        write(BertTagger(Bert(TINY), 3), tmp_path, labels=labels)
    with pytest.raises(UsageError, match="expected 0 different labels"):
        write(Bert(TINY), tmp_path, labels=labels)
    assert not list(tmp_path.iterdir())


def test_the_padding_id_of_roberta_matches_its_first_position(tmp_path):
    with pytest.raises(UsageError, match="pad_token_id=0, but a roberta"):
        write(Bert(ROBERTA), tmp_path, specials={"pad_token_id": 0})
    write(Bert(ROBERTA), tmp_path, specials={"pad_token_id": 1})
    assert read(tmp_path)[0] == ROBERTA


def test_a_model_without_classes_has_no_labels(folder):
    assert read_labels(folder("bert")) == ()


def test_headway_loads_an_encoder(tmp_path):
    config = replace(TINY, vocabulary=200)
    write_wordpiece(tmp_path)
    (tmp_path / "config.json").unlink()
    write(Bert(config), tmp_path)
    bundle = headway.load(tmp_path)
    assert isinstance(bundle, EncoderBundle) and bundle.config == config
    assert len(bundle.fill(["the [MASK] tree"], top=3)[0][0]) == 3
    bundle.save(tmp_path / "kept")
    reloaded = headway.load(tmp_path / "kept")
    assert torch.equal(reloaded.embed(["a fox"]), bundle.embed(["a fox"]))


def test_headway_loads_heads_with_their_labels_and_unscaled_numbers(tmp_path):
    bert = replace(TINY, vocabulary=200)

    def saved(name, model, labels=()):
        folder = tmp_path / name
        folder.mkdir()
        write_wordpiece(folder)
        (folder / "config.json").unlink()
        write(model, folder, labels=labels)
        return folder

    classes = saved("classes", BertClassifier(Bert(bert), 2), ("no", "yes"))
    assert set(headway.load(classes).classify(["a fox"])[0].probabilities) == {"no", "yes"}
    tags = saved("tags", BertTagger(Bert(bert), 3), ("O", "B-X", "I-X"))
    assert len(headway.load(tags).tag(["a fox"])[0].words) == 2
    answers = saved("answers", BertQuestionAnswering(Bert(bert)))
    (answer,) = headway.load(answers).answer("what", "a fox by the tree")
    assert answer.text in "a fox by the tree"
    model = BertClassifier(Bert(bert), 1).eval()
    number = headway.load(saved("number", model))
    ids, types = number.reader.tokenizer.special_tokens.frame(
        number.reader.tokenizer.encode("a fox"), number.reader.tokenizer.encode("the tree")
    )
    rows = torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool), torch.tensor([types])
    (score,) = number.score([("a fox", "the tree")])
    assert score == pytest.approx(model(*rows).item(), abs=1e-6)
    # neither the folder nor the saved bundle states whether an example has one text or two
    number.save(tmp_path / "ours")
    reloaded = headway.load(tmp_path / "ours")
    assert reloaded.reader.pairs is None and reloaded.reader.numbers == number.reader.numbers
    both = ["a fox", ("a fox", "the tree")]
    assert reloaded.score(both) == pytest.approx([*number.score(["a fox"]), score])
