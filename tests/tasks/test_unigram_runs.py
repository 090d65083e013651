"""Runs with Unigram tokenizers: trained, resumed, translated with, exported."""

import pytest
import transformers

import headway
from headway.text import TextUnigram, UnigramTokenizer
from tests.fixtures.command_line import TINY, rows, write_corpus
from tests.fixtures.command_line import headway as run_headway

WORDS = ["--source", "en", "--target", "de", "--data.tokenizer", "unigram", *TINY]
SAMPLED = [*WORDS, "--data.unigram-alpha", "0.02", "--steps", "20"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unigram")
    write_corpus(folder / "corpus")
    run_headway("train", "translate", "corpus", *SAMPLED, "--run", "u", cwd=folder)
    return folder


def test_a_translator_is_trained_with_sampled_segmentations(folder):
    bundle = headway.load(folder / "runs/u")
    assert isinstance(bundle.tokenizer.source, UnigramTokenizer)
    translated = run_headway("translate", "runs/u", "the red fox", cwd=folder).stdout.strip()
    assert translated == bundle.translate(["the red fox"])[0]
    run_headway("train", "translate", "corpus", *SAMPLED, "--run", "again", cwd=folder)
    plain = [word for word in SAMPLED if word not in ("--data.unigram-alpha", "0.02")]
    run_headway("train", "translate", "corpus", *plain, "--run", "plain", cwd=folder)
    losses = [_losses(folder / "runs" / name) for name in ("u", "again", "plain")]
    assert losses[0] == losses[1] != losses[2]


def _losses(run):
    return [event["loss"] for event in rows(run / "metrics.jsonl") if "loss" in event]


@pytest.mark.parametrize("kind", ["hf", "ctranslate2"])
def test_its_exported_folder_has_been_compared(folder, kind):
    if kind == "ctranslate2":
        pytest.importorskip("ctranslate2")
    words = ("export", "runs/u", "--to", kind, "--output", kind)
    assert "checked" in run_headway(*words, cwd=folder).stderr
    if kind == "hf":
        theirs = transformers.AutoTokenizer.from_pretrained(folder / "hf")
        ours = headway.load(folder / "runs/u").tokenizer.source
        ids = theirs("the red fox 🦊", add_special_tokens=False)["input_ids"]
        assert ids == ours.encode("the red fox 🦊")


@pytest.mark.parametrize(
    "words, reason",
    [
        (["--data.tokenizer", "unigram", "--data.bpe-dropout", "0.1"], "data.bpe_dropout needs"),
        (["--data.unigram-alpha", "0.1"], "data.unigram_alpha needs"),
        (["--from", "runs/u", "--data.bpe-dropout", "0.1"], "data.bpe_dropout needs"),
        (["--from", "runs/u", "--data.tokenizer", "unigram"], "leave out --data.tokenizer"),
    ],
)
def test_settings_of_another_tokenizer_are_refused_before_anything_is_written(
    folder, words, reason
):
    common = ("train", "translate", "corpus", "--source", "en", "--target", "de", "--steps", "2")
    refused = run_headway(*common, *words, "--run", "none", cwd=folder, check=None)
    assert refused.returncode == 2 and reason in refused.stderr
    assert not (folder / "runs/none").exists()


def test_a_run_with_sampling_is_fine_tuned_with_sampling(folder):
    tuned = ("train", "translate", "corpus", "--source", "en", "--target", "de", "--from", "runs/u")
    more = ("--data.unigram-alpha", "0.2", "--steps", "2", "--threads", "1")
    run_headway(*tuned, *more, "--run", "tuned", cwd=folder)
    first, second = (headway.load(folder / "runs" / name) for name in ("u", "tuned"))
    assert first.tokenizer.fingerprint == second.tokenizer.fingerprint


def test_a_language_model_has_a_unigram_tokenizer(folder):
    text = "the fox eats the lemon and the dog eats the bread. " * 60
    (folder / "text.txt").write_text(text)
    small = ["--model.model-dim", "24", "--model.num-heads", "2", "--model.num-layers", "1"]
    data = ["--data.tokenizer", "unigram", "--data.vocabulary", "290", "--steps", "3"]
    common = ["--model.max-length", "32", "--training.length", "16", "--threads", "1"]
    run_headway("train", "gpt", "text.txt", *small, *data, *common, "--run", "g", cwd=folder)
    bundle = headway.load(folder / "runs/g")
    assert isinstance(bundle.tokenizer, TextUnigram)
    assert bundle.tokenizer.decode(bundle.tokenizer.encode(text)) == text
    exported = run_headway("export", "runs/g", "--to", "hf", "--output", "g", cwd=folder)
    assert "checked" in exported.stderr
    theirs = transformers.AutoTokenizer.from_pretrained(folder / "g")
    ids = theirs("the fox  eats", add_special_tokens=False)["input_ids"]
    assert ids == bundle.tokenizer.encode("the fox  eats")
