"""`headway export`, right and wrong."""

import json
from dataclasses import replace

import pytest

from headway.bundle import TextBundle
from headway.cli.main import main
from headway.models import GPT, Translator, TranslatorConfig
from headway.tasks import opening
from headway.tasks.translation.bundle import TranslatorBundle
from tests.fixtures.hf_gpt import TINY, Bytes, load_in_transformers, random_gpt


@pytest.fixture
def exported(tmp_path, monkeypatch, capsys):
    """exported(model, *words) -> exit code, what was printed, what was said."""

    def run(model, *words):
        kind = TextBundle if isinstance(model, GPT) else TranslatorBundle
        bundle = object.__new__(kind)  # without its checks: the tokenizer has pieces of its own
        bundle.model, bundle.tokenizer = model, Bytes()
        monkeypatch.setattr(opening, "load", lambda folder: bundle)
        monkeypatch.chdir(tmp_path)
        (tmp_path / "r").mkdir(exist_ok=True)
        with pytest.raises(SystemExit) as left:
            main(["export", "r", *words])
        return left.value.code, *capsys.readouterr()

    return run


def test_it_says_what_was_written_and_how_alike_it_is(exported, tmp_path):
    code, out, said = exported(random_gpt(TINY), "--to", "hf")
    assert code == 0 and out == ""
    assert "GPT2LMHeadModel" in said and "13 texts have the same token ids" in said
    model, reader = load_in_transformers(tmp_path / "r" / "hf")
    assert model.config.eos_token_id == reader.eos_token_id == 1


def test_json_and_a_place_and_a_family_of_ones_own(exported, tmp_path):
    llama = replace(TINY, norm_kind="rms", activation="swiglu", bias=False, positions="rotary")
    words = ("--to", "hf", "--out", "mine", "--family", "llama", "--json")
    code, out, _ = exported(random_gpt(llama), *words)
    found = json.loads(out)
    assert code == 0 and found["architecture"] == "LlamaForCausalLM"
    assert found["folder"] == "mine" and 0 <= found["difference"] <= 1e-4 and found["texts"] == 13
    assert (tmp_path / "mine" / "tokenizer_config.json").is_file()


def test_what_cannot_be_done_is_refused_and_leaves_nothing(exported, tmp_path):
    translator = Translator(TranslatorConfig(model_dim=12, num_heads=2))
    for model, words, reason in [
        (translator, ("--to", "hf"), "is a translator, which cannot be exported"),
        (random_gpt(TINY), ("--to", "hf", "--family", "lama"), "unknown family 'lama'"),
        (
            random_gpt(TINY),
            ("--to", "hf", "--family", "llama"),
            "it can be represented as a GPT2LMHeadModel",
        ),
        (random_gpt(TINY), ("--to", "nowhere"), "nowhere"),
        (random_gpt(TINY), ("--to", "hf", "--out", "r"), "exists already"),
    ]:
        code, out, said = exported(model, *words)
        assert code == 2 and reason in said and out == "", said
    assert list((tmp_path / "r").iterdir()) == []
