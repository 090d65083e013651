"""Hugging Face folders that lack the type of their model, or a tokenizer."""

import json
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

import headway
from headway.base.errors import DataError, UsageError
from headway.cli.main import main
from headway.interop import write
from headway.models import (
    GPT,
    Bert,
    BertClassifier,
    BertConfig,
    BertQuestionAnswering,
    BertTagger,
    Captioner,
    CaptionerConfig,
    GPTConfig,
    ViT,
    ViTConfig,
)
from tests.fixtures.encoder_tokenizers import write_wordpiece
from tests.fixtures.tokenizer_folders import folder_with

BERT = BertConfig(
    model_dim=12, num_heads=2, ffn_dim=20, num_layers=2, max_length=16, vocabulary=200
)
ROBERTA = replace(BERT, first_position=2, pooler="none", next_sentence=False)
VIT = ViTConfig(
    model_dim=12, num_heads=2, ffn_dim=20, num_layers=1, image_size=8, patch_size=4, norm_eps=1e-12
)
MODELS = {
    "bert": lambda: Bert(BERT),
    "roberta": lambda: Bert(ROBERTA),
    "classes": lambda: BertClassifier(Bert(BERT), 3),
    "tags": lambda: BertTagger(Bert(BERT), 3),
    "answers": lambda: BertQuestionAnswering(Bert(BERT)),
}
TEXT_VERBS = {
    "bert": lambda bundle: bundle.embed(["a fox"]),
    "roberta": lambda bundle: bundle.fill(["a [MASK]"]),
    "classes": lambda bundle: bundle.classify(["a fox"]),
    "tags": lambda bundle: bundle.tag(["a fox"]),
    "answers": lambda bundle: bundle.answer("what", "a fox"),
}


def small_gpt(folder):
    """Write a tiny GPT-2 with a tokenizer of 300 tokens."""
    config = GPTConfig(
        **{**GPTConfig.sizes["gpt2-small"], "vocabulary": 300, "max_length": 32},
    )
    config = replace(config, model_dim=12, num_heads=2, num_kv_heads=None, ffn_dim=48, num_layers=1)
    write(GPT(config), folder, "gpt2")
    return folder_with(folder, tokenizer_config={"bos_token": "<s>", "eos_token": "</s>"})


def encoder_folder(kind, folder):
    write_wordpiece(folder)
    (folder / "config.json").unlink()
    write(MODELS[kind]().eval(), folder)
    return folder


def without_type(folder):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    kind = config.pop("model_type")
    path.write_text(json.dumps(config))
    return kind


def without_tokenizer(folder):
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        (folder / name).unlink(missing_ok=True)


def headway_exits(*arguments):
    with pytest.raises(SystemExit) as leaving:
        main([str(word) for word in arguments])
    return leaving.value.code or 0


@pytest.mark.parametrize("kind", MODELS)
def test_an_encoder_without_a_type_loads_as_the_family_that_is_named(kind, tmp_path):
    folder = encoder_folder(kind, tmp_path)
    whole = headway.load(folder)
    family = without_type(folder)
    with pytest.raises(DataError, match="model_type is missing") as refused:
        headway.load(folder)
    assert "--family bert" in refused.value.hint
    named = headway.load(folder, family=family)
    assert type(named) is type(whole)
    parameters = dict(named.model.named_parameters())
    for name, parameter in whole.model.named_parameters():
        assert torch.equal(parameters[name], parameter)
    reader = getattr(named, "reader", named)
    assert reader.tokenizer.fingerprint == getattr(whole, "reader", whole).tokenizer.fingerprint


def test_the_named_family_roberta_sets_its_special_tokens_if_no_file_does(tmp_path):
    folder = encoder_folder("roberta", tmp_path)
    settings = tmp_path / "tokenizer_config.json"
    if settings.exists():
        config = json.loads(settings.read_text())
        config.pop("tokenizer_class", None)
        settings.write_text(json.dumps(config))
    between = headway.load(folder).tokenizer.special_tokens.between
    without_type(folder)
    assert headway.load(folder, family="roberta").tokenizer.special_tokens.between == between


def test_a_vit_and_a_gpt_without_a_type_load_as_the_family_that_is_named(tmp_path):
    (tmp_path / "vit").mkdir()
    write(ViT(VIT), tmp_path / "vit")
    assert without_type(tmp_path / "vit") == "vit"
    assert headway.load(tmp_path / "vit", family="vit").kind == "image encoder"
    (tmp_path / "gpt").mkdir()
    assert without_type(small_gpt(tmp_path / "gpt")) == "gpt2"
    bundle = headway.load(tmp_path / "gpt", family="gpt2")
    assert len(bundle.generate(["a"], max_tokens=3)[0][0].tokens) <= 3


def test_an_unknown_or_different_family_is_refused(tmp_path):
    folder = encoder_folder("bert", tmp_path)
    with pytest.raises(
        UsageError, match="roberta was requested, and this is a model of family bert"
    ):
        headway.load(folder, family="roberta")
    headway.load(folder, family="bert").save(tmp_path / "ours")
    headway.load(tmp_path / "ours", family="bert")
    with pytest.raises(UsageError, match="gpt2 was requested, and this is a model of family bert"):
        headway.load(tmp_path / "ours", family="gpt2")
    without_type(folder)
    with pytest.raises(UsageError, match=r"unknown family bret\. Did you mean bert"):
        headway.load(folder, family="bret")


def test_the_command_line_names_the_family(tmp_path, capsys):
    folder = encoder_folder("bert", tmp_path)
    without_type(folder)
    assert headway_exits("fill", folder, "the [MASK] tree") == DataError.exit_code
    assert "--family bert" in capsys.readouterr().err
    assert headway_exits("fill", folder, "the [MASK] tree", "--family", "bert", "--json") == 0
    assert json.loads(capsys.readouterr().out)
    assert headway_exits("embed", folder, "a fox", "--family", "gpt2") != 0


@pytest.mark.parametrize("kind", MODELS)
def test_an_encoder_without_a_tokenizer_computes_from_ids_and_refuses_texts(kind, tmp_path):
    folder = encoder_folder(kind, tmp_path)
    whole = headway.load(folder)
    without_tokenizer(folder)
    bundle = headway.load(folder)
    ids, keys = torch.tensor([[2, 7, 9, 3]]), torch.ones(1, 4, dtype=torch.bool)
    with torch.no_grad():
        assert_close(bundle.model(ids, keys), whole.model(ids, keys), rtol=0, atol=0)
    with pytest.raises(UsageError, match="no tokenizer, so it cannot process text") as refused:
        TEXT_VERBS[kind](bundle)
    assert refused.value.where == str(folder) and "tokenizer.json" in refused.value.hint
    with pytest.raises(UsageError, match="no tokenizer"):
        bundle.save(tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


def test_a_gpt_without_a_tokenizer_computes_from_ids_and_refuses_texts(tmp_path, capsys):
    small_gpt(tmp_path)
    whole = headway.load(tmp_path)
    without_tokenizer(tmp_path)
    bundle = headway.load(tmp_path)
    ids = torch.tensor([[1, 7, 9]])
    with torch.no_grad():
        assert torch.equal(bundle.model(ids), whole.model(ids))
    for verb in (
        lambda: bundle.generate(["a"]),
        lambda: list(bundle.stream("a")),
        lambda: bundle.attention("a"),
        lambda: bundle.tokenizer.decode([1]),
        lambda: bundle.tokenizer.encode_batch(["a"]),
        lambda: bundle.tokenizer.token_strings([1]),
        lambda: bundle.save(tmp_path / "ours"),
    ):
        with pytest.raises(UsageError, match="no tokenizer, so it cannot"):
            verb()
    assert not (tmp_path / "ours").exists()
    assert headway_exits("generate", tmp_path, "a") == UsageError.exit_code
    shown = capsys.readouterr().err
    assert "this model has no tokenizer" in shown and "add tokenizer.json, or" in shown


def test_ids_beyond_the_vocabulary_are_one_line_on_standard_error(tmp_path, capsys):
    small_gpt(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [50256, 1]}')
    words = ("generate", tmp_path, "a", "--max-tokens", "2", "--seed", "1")
    assert headway_exits(*words) == 0
    warned = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert len(warned) == 1 and "eos_token_id=50256 is ignored" in warned[0]


def test_a_captioner_without_a_tokenizer_computes_from_pixels_and_ids(tmp_path):
    gpt = GPTConfig(
        **{**GPTConfig.sizes["gpt2-small"], "vocabulary": 300, "max_length": 32},
    )
    gpt = replace(gpt, model_dim=12, num_heads=2, num_kv_heads=None, ffn_dim=48, num_layers=1)
    write(Captioner(CaptionerConfig(vit=VIT, gpt=gpt)), tmp_path)
    bundle = headway.load(tmp_path)
    pixels, tokens = torch.randn(1, 3, 8, 8), torch.tensor([[1, 5]])
    with torch.no_grad():
        assert bundle.model(pixels, tokens).shape == (1, 2, 300)
    with pytest.raises(UsageError, match="no tokenizer"):
        bundle.reader.encode(["a fox"])
