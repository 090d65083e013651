"""An encoder and its tokenizer, exported to Hugging Face and loaded by transformers."""

import json
from dataclasses import replace

import pytest
import torch
import transformers
from torch import nn

import headway
from headway.base.errors import HeadwayError, UsageError
from headway.bundle import EncoderBundle
from headway.cli.main import main
from headway.exporting.hugging_face import HUGGING_FACE
from headway.exporting.target import export
from headway.interop import (
    encoder_tokenizers,
    read,
    read_encoder_tokenizer,
    read_labels,
    write_text_model,
)
from headway.models import Bert, BertClassifier, BertConfig, BertQuestionAnswering, BertTagger
from headway.tasks.classification.model import ClassifierBundle
from headway.tasks.classification.reader import ClassReader, Numbers
from headway.tasks.tagging.model import TaggerBundle, TagReader
from headway.text import EncoderTokenizer
from tests.fixtures.command_line import headway as run_headway
from tests.fixtures.encoder_tokenizers import (
    ODD,
    STORY,
    check_agreement,
    write_byte_level,
    write_sentencepiece,
)
from tests.fixtures.random_weights import with_noise

TINY = BertConfig(
    model_dim=12, num_heads=2, ffn_dim=20, num_layers=2, max_length=48, vocabulary=320
)
ROBERTA = replace(TINY, first_position=2, pooler="none", next_sentence=False, token_types=1)
DISTIL = replace(TINY, token_types=0, pooler="none", next_sentence=False)
ALBERT = replace(TINY, embedding_dim=6, shared_layers=True)


def trained(_=None, lower=True):
    return EncoderTokenizer.train(STORY, 150, lower)


def cased(_):
    return trained(lower=False)


def roberta(folder):
    return read_encoder_tokenizer(write_byte_level(folder))


def albert(folder):
    return read_encoder_tokenizer(write_sentencepiece(folder))


@pytest.mark.parametrize(
    ("config", "kind"),
    [(TINY, trained), (TINY, cased), (DISTIL, cased), (ROBERTA, roberta), (ALBERT, albert)],
)
def test_transformers_loads_it_with_a_tokenizer_of_the_same_ids(config, kind, tmp_path):
    model, tokenizer = with_noise(Bert(config)), kind(tmp_path)
    export(EncoderBundle(model, tokenizer), tmp_path / "hf", HUGGING_FACE)
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    check_agreement(tokenizer, reader)
    assert reader.model_max_length == 48
    reference = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "hf").eval()
    assert reference.config.pad_token_id == tokenizer.special_tokens.pad
    encoding = reader("the old fox", "a tree", return_tensors="pt")
    assert ("token_type_ids" in encoding) == (config.token_types > 1)
    ids, types = (torch.tensor([row]) for row in pair(tokenizer))
    with torch.no_grad():
        ours = model.eval()(ids, None, types)
        torch.testing.assert_close(reference(**encoding).logits, ours, atol=1e-5, rtol=0)


def pair(tokenizer):
    encode = tokenizer.encode
    return tokenizer.special_tokens.frame(encode("the old fox"), encode("a tree"))


@pytest.mark.parametrize("kind", [trained, roberta])
def test_a_mask_token_is_one_in_transformers_too(kind, tmp_path):
    config = TINY if kind is trained else ROBERTA
    bundle = EncoderBundle(with_noise(Bert(config)), kind(tmp_path))
    write_text_model(bundle.model, bundle.tokenizer, tmp_path / "hf")
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    text = f"the old {reader.mask_token} sees a tree"
    assert reader(text).input_ids.count(bundle.tokenizer.special_tokens.mask) == 1
    reference = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "hf").eval()
    encoding = reader(text, return_tensors="pt")
    with torch.no_grad():
        masked = encoding.input_ids[0] == bundle.tokenizer.special_tokens.mask
        logits = reference(**encoding).logits[0, masked][0, : bundle.tokenizer.size]
    best = bundle.fill([text], top=3)[0][0]
    expected = logits.softmax(-1).topk(3).values.tolist()
    assert [prediction.probability for prediction in best] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("kind", [trained, cased, roberta, albert])
def test_an_exported_encoder_is_loaded_unchanged(kind, tmp_path):
    config = ROBERTA if kind is roberta else TINY
    model, tokenizer = with_noise(Bert(config)), kind(tmp_path)
    write_text_model(model, tokenizer, tmp_path / "hf")
    reloaded = headway.load(tmp_path / "hf", fast=False)
    assert (
        isinstance(reloaded, EncoderBundle)
        and reloaded.tokenizer.special_tokens == tokenizer.special_tokens
    )
    assert reloaded.tokenizer.encode_batch(ODD) == tokenizer.encode_batch(ODD)
    assert torch.equal(reloaded.embed(ODD[2:5]), EncoderBundle(model, tokenizer).embed(ODD[2:5]))


def test_heads_of_tasks_are_exported_with_their_labels(tmp_path):
    labels = ["anger", "joy", "fear"]
    models = {
        "BertForSequenceClassification": (BertClassifier(Bert(TINY), 3), labels),
        "BertForTokenClassification": (BertTagger(Bert(TINY), 3), labels),
        "BertForQuestionAnswering": (BertQuestionAnswering(Bert(TINY)), None),
    }
    for name, (model, names) in models.items():
        folder = tmp_path / name
        assert write_text_model(with_noise(model), trained(), folder, labels=names) == name
        assert read_labels(tmp_path / name) == tuple(names or ())
        reference = getattr(transformers, name).from_pretrained(tmp_path / name)
        assert [*reference.config.id2label.values()] == (names or ["LABEL_0", "LABEL_1"])


def test_a_model_in_training_mode_stays_in_it(tmp_path):
    model = with_noise(Bert(replace(TINY, dropout=0.5)))
    bundle = EncoderBundle(model, trained())
    model.train()
    export(bundle, tmp_path / "hf", HUGGING_FACE)
    assert model.training and model.encoder.training


@pytest.mark.parametrize(
    "name", ["embedding.types.weight", "masked_lm_head.output.bias", "next_sentence.weight"]
)
@pytest.mark.parametrize("change", [0.01, float("nan")])
def test_wrongly_written_weights_are_detected_and_removed(name, change, tmp_path, monkeypatch):
    def wrong(path):
        config, tensors = read(path)
        value = tensors[name].clone()
        value.view(-1)[-1] += change
        return config, tensors | {name: value}

    monkeypatch.setattr("headway.interop.read", wrong)
    with pytest.raises(HeadwayError, match="differ by"):
        export(EncoderBundle(with_noise(Bert(TINY)), trained()), tmp_path / "hf", HUGGING_FACE)
    assert list(tmp_path.iterdir()) == []


def test_a_wrongly_written_tokenizer_is_detected_and_removed(tmp_path, monkeypatch):
    tokenizer = trained()
    monkeypatch.setattr(tokenizer, "encode", lambda text: [7] * len(text))
    with pytest.raises(HeadwayError, match="the written tokenizer encodes"):
        export(EncoderBundle(with_noise(Bert(TINY)), tokenizer), tmp_path / "hf", HUGGING_FACE)
    assert list(tmp_path.iterdir()) == []


def test_a_refused_export_leaves_no_file(tmp_path):
    for config, message in [
        (replace(TINY, norm="pre"), "norm=pre"),
        (replace(TINY, vocabulary=90), "tokens, but the model's vocabulary 90"),
        (replace(TINY, first_position=2, pooler="none", next_sentence=False), "pad_token_id=0"),
    ]:
        with pytest.raises(UsageError, match=message):
            write_text_model(with_noise(Bert(config)), trained(), tmp_path / "hf")
    assert list(tmp_path.iterdir()) == []


def test_the_exported_file_sets_the_special_tokens_of_the_model(tmp_path):
    """A tokenizer with two token types is exported with a model of one."""
    tokenizer = albert(tmp_path)
    encoder_tokenizers.write_encoder_tokenizer(tokenizer, tmp_path, 48, 1)
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path)
    encoding = reader("a fox", "the tree", return_token_type_ids=True)
    assert not any(encoding.token_type_ids)
    check_agreement(tokenizer, reader)


def test_the_command_exports_the_labels_of_the_bundle(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r").mkdir()
    tags, tokenizer = ("O", "B-city", "I-city"), trained()
    bundle = TaggerBundle(BertTagger(Bert(TINY), 3), TagReader(tokenizer, tags, 12))
    monkeypatch.setattr("headway.cli.export.load", lambda folder, device: bundle)
    with pytest.raises(SystemExit) as exit_info:
        main(["export", "r", "--to", "hf", "--output", str(tmp_path / "hf")])
    assert exit_info.value.code == 0
    assert read_labels(tmp_path / "hf") == tags


def test_numbers_are_exported_on_their_own_scale(tmp_path):
    tokenizer, numbers = trained(), Numbers(3.25, 0.5, 1.0, 5.0)
    model = BertClassifier(with_noise(Bert(replace(TINY, next_sentence=False))), 1)
    nn.init.normal_(model.head.weight)
    bundle = ClassifierBundle(model, ClassReader(tokenizer, (), 12, numbers, pairs=True))
    bundle.save(tmp_path / "r" / "model")
    run_headway("export", "r", "--to", "hf", cwd=tmp_path)
    texts = [("a fox", "the tree"), ("the tree", "a fox by the tree")]
    expected = bundle.score(texts)
    assert abs(expected[0] - expected[1]) > 1e-3
    assert headway.load(tmp_path / "r" / "hf").score(texts) == pytest.approx(expected, abs=1e-4)
    reference = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "r" / "hf"
    )
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "r" / "hf")
    for text, number in zip(texts, expected, strict=True):
        with torch.inference_mode():
            score = reference(**reader(*text, return_tensors="pt")).logits.item()
        assert score == pytest.approx(number, abs=1e-4)
    assert reference.config.problem_type == "regression"
    # the folder does not state whether it reads pairs: a text with a tab is one
    output = run_headway("classify", "r/hf", cwd=tmp_path, text="a fox\tthe tree\na fox\n").stdout
    assert output.splitlines()[0] == f"{expected[0]:.3f}" and len(output.splitlines()) == 2
    rows = [
        f"{first}\t{second}\t{number}"
        for (first, second), number in zip(texts, expected, strict=True)
    ]
    table = "\n".join(["sentence1\tsentence2\tscore", *rows]) + "\n"
    (tmp_path / "pairs.tsv").write_text(table)
    output = run_headway("eval", "r/hf", "pairs.tsv", "--json", cwd=tmp_path).stdout
    assert json.loads(output)["pairs"] == 2 and json.loads(output)["mse"] < 1e-6
    (tmp_path / "single.tsv").write_text("text\tscore\na fox\t3\nthe tree\t4\n")
    output = run_headway("eval", "r/hf", "single.tsv", "--json", cwd=tmp_path).stdout
    assert json.loads(output)["texts"] == 2
    (tmp_path / "empty.tsv").write_text("")
    assert "error:" in run_headway("eval", "r/hf", "empty.tsv", cwd=tmp_path, check=3).stderr
    assert torch.equal(bundle.model.head.weight, model.head.weight)  # the model is not changed
    assert not bundle.logits(texts).requires_grad  # inference stores nothing for gradients
    assert not bundle.with_label_scale().model.head.weight.is_inference()


def test_the_command_exports_an_encoder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    EncoderBundle(with_noise(Bert(TINY)), trained()).save(tmp_path / "r" / "model")
    for words in (("--json",), ("--output", "mine", "--family", "bert")):
        with pytest.raises(SystemExit) as exit_info:
            main(["export", "r", "--to", "hf", *words])
        assert exit_info.value.code == 0
        out, output = capsys.readouterr()
        if "--json" in words:
            exported = json.loads(out)
            assert (
                exported["architecture"] == "BertForPreTraining"
                and len(exported["difference"]) == 2
            )
    assert "transformers.BertForPreTraining.from_pretrained('mine')" in output
    model, report = transformers.BertForPreTraining.from_pretrained(
        tmp_path / "r" / "hf", output_loading_info=True
    )
    assert not any(report.values()) and model.config.pad_token_id == 0
    assert isinstance(headway.load(tmp_path / "mine"), EncoderBundle)
