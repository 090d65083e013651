"""`headway export` and its errors."""

import json
from dataclasses import replace

import pytest

from headway.bundle import TextBundle
from headway.cli.main import main
from headway.interop import NO_SETTINGS
from tests.fixtures.captioners import bundle_of, exportable
from tests.fixtures.command_line import headway
from tests.fixtures.hf_gpt import TINY, Bytes, load_in_transformers, random_gpt


@pytest.fixture
def exported(tmp_path, monkeypatch, capsys):
    """Export a model; the function returns the exit code, standard output and standard error."""

    def run(model, *words):
        bundle = object.__new__(TextBundle)  # skips the check of the vocabulary size
        bundle.model, bundle.tokenizer, bundle.settings = model, Bytes(), NO_SETTINGS
        monkeypatch.setattr("headway.cli.export.load", lambda folder, device: bundle)
        monkeypatch.chdir(tmp_path)
        (tmp_path / "r").mkdir(exist_ok=True)
        with pytest.raises(SystemExit) as leaving:
            main(["export", "r", *words])
        return leaving.value.code, *capsys.readouterr()

    return run


def test_the_export_reports_its_files_and_the_comparison_of_outputs(exported, tmp_path):
    code, out, stderr = exported(random_gpt(TINY), "--to", "hf")
    assert code == 0 and out == ""
    assert "GPT2LMHeadModel" in stderr and "13 texts have the same token ids" in stderr
    model, reader = load_in_transformers(tmp_path / "r" / "hf")
    assert model.config.eos_token_id == reader.eos_token_id == 1


def test_the_folder_the_family_and_a_report_as_json_can_be_chosen(exported, tmp_path):
    llama = replace(TINY, norm_kind="rms", activation="swiglu", bias=False, positions="rotary")
    words = ("--to", "hf", "--output", "exported", "--family", "llama", "--json")
    code, out, _ = exported(random_gpt(llama), *words)
    report = json.loads(out)
    assert code == 0 and report["architecture"] == "LlamaForCausalLM"
    assert report["folder"] == "exported" and report["texts"] == 13
    assert len(report["difference"]) == 2 and max(report["difference"].values()) <= 1e-4
    assert (tmp_path / "exported" / "tokenizer_config.json").is_file()


def test_an_impossible_export_is_refused_and_writes_nothing(exported, tmp_path):
    for model, words, reason in [
        (random_gpt(TINY), ("--to", "hf", "--family", "lama"), "unknown family 'lama'"),
        (
            random_gpt(TINY),
            ("--to", "hf", "--family", "llama"),
            "it can be represented as a GPT2LMHeadModel",
        ),
        (random_gpt(TINY), ("--to", "nowhere"), "nowhere"),
        (random_gpt(TINY), ("--to", "hf", "--output", "r"), "exists already"),
    ]:
        code, out, stderr = exported(model, *words)
        assert code == 2 and reason in stderr and out == "", stderr
    assert list((tmp_path / "r").iterdir()) == []


def test_an_error_names_another_format_only_if_that_can_represent_the_model(tmp_path):
    exportable().save(tmp_path / "plain")
    refused = headway("export", "plain", "--to", "ctranslate2", cwd=tmp_path, check=2).stderr
    assert "headway export plain --to hf" in refused
    headway("export", "plain", "--to", "hf", cwd=tmp_path)
    bundle_of().save(tmp_path / "registers")
    refused = headway("export", "registers", "--to", "ctranslate2", cwd=tmp_path, check=2).stderr
    assert "--to hf" not in refused and "keep it as a Headway model" in refused
    headway("export", "registers", "--to", "hf", cwd=tmp_path, check=2)
