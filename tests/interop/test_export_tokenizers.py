"""Headway's tokenizers, exported to Hugging Face and loaded by transformers."""

import json
from dataclasses import replace

import pytest
import transformers

from headway.base.errors import HeadwayError
from headway.bundle import TextBundle
from headway.cli.main import main
from headway.exporting.hugging_face import HUGGING_FACE
from headway.exporting.target import export
from headway.interop import read_llama2c_tokenizer, read_tokenizer, write_text_model
from headway.text import CharacterTokenizer, TextBPE
from tests.fixtures.hf_gpt import PROMPT, STORY, TINY, random_gpt
from tests.fixtures.language_model_tokenizers import ODD, llama_like, small_gpt2

WIDE = replace(TINY, vocabulary=520)


def byte_pair(_):
    return TextBPE.train(STORY, 290)


def characters(_):
    return CharacterTokenizer.train([*STORY, *ODD])


def gpt2(folder):
    small_gpt2(folder)
    return read_tokenizer(folder)


def llama(folder):
    llama_like(folder)
    return read_tokenizer(folder)


@pytest.mark.parametrize("kind", [byte_pair, characters, gpt2, llama])
def test_transformers_encodes_as_the_tokenizer_does(kind, tmp_path):
    tokenizer = kind(tmp_path)
    exported = export(TextBundle(random_gpt(WIDE), tokenizer), tmp_path / "hf", HUGGING_FACE)
    assert exported.texts >= 5 and len(exported.difference) == 2
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert (reader.bos_token_id, reader.eos_token_id) == (tokenizer.bos, tokenizer.eos)
    for text in [*ODD, PROMPT]:
        assert reader(text, add_special_tokens=False).input_ids == tokenizer.encode(text)
        assert (reader(text).input_ids or [tokenizer.bos]) == tokenizer.begin(text)
        assert reader.decode(tokenizer.begin(text), skip_special_tokens=True) == text


@pytest.mark.parametrize("kind", [gpt2, llama])
def test_an_exported_tokenizer_is_loaded_with_the_same_ids(kind, tmp_path):
    tokenizer = kind(tmp_path)
    write_text_model(random_gpt(WIDE), tokenizer, tmp_path / "hf")
    reloaded = read_tokenizer(tmp_path / "hf")
    assert reloaded.fingerprint == tokenizer.fingerprint
    assert [reloaded.begin(text) for text in ODD] == [tokenizer.begin(text) for text in ODD]


def test_exported_characters_are_a_tokenizer_that_headway_loads_too(tmp_path):
    tokenizer = characters(tmp_path)
    write_text_model(random_gpt(WIDE), tokenizer, tmp_path / "hf")
    reloaded = read_tokenizer(tmp_path / "hf")
    for text in [*ODD[1:], PROMPT]:
        assert reloaded.begin(text) == tokenizer.begin(text)
        assert reloaded.decode(tokenizer.encode(text)) == text


def test_llama2cs_tokenizer_can_be_exported(real_data, tmp_path):
    tokenizer = read_llama2c_tokenizer(real_data("weights/stories260K/tok512.bin"))
    write_text_model(random_gpt(WIDE), tokenizer, tmp_path / "hf")
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    for text in [*ODD, PROMPT]:
        assert reader(text).input_ids == tokenizer.begin(text)
        assert reader.decode(tokenizer.begin(text), skip_special_tokens=True) == text


def test_an_exported_file_with_other_ids_is_detected(tmp_path, monkeypatch):
    tokenizer = llama(tmp_path)
    monkeypatch.setattr(tokenizer, "begin", lambda text: [tokenizer.eos, *tokenizer.encode(text)])
    with pytest.raises(HeadwayError, match="the written tokenizer encodes"):
        export(TextBundle(random_gpt(WIDE), tokenizer), tmp_path / "hf", HUGGING_FACE)
    assert not (tmp_path / "hf").exists()


@pytest.mark.parametrize("kind", [byte_pair, characters, llama])
def test_the_command_exports_each_kind(kind, tmp_path, monkeypatch, capsys):
    bundle = TextBundle(random_gpt(WIDE), kind(tmp_path))
    monkeypatch.setattr("headway.cli.export.load", lambda folder, device: bundle)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r").mkdir()
    with pytest.raises(SystemExit) as exit_info:
        main(["export", "r", "--to", "hf", "--json"])
    exported = json.loads(capsys.readouterr().out)
    assert exit_info.value.code == 0 and exported["texts"] >= 5
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "r" / "hf")
    assert reader(PROMPT).input_ids == bundle.tokenizer.begin(PROMPT)
