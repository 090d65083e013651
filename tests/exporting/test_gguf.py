"""GGUF files: llama.cpp gives the same ids and the same probabilities, or there is no file."""

import json
import sys
from dataclasses import replace

import pytest

from headway.attention.rotary_scaling import RotaryScaling
from headway.base.errors import HeadwayError, UsageError
from headway.bundle import TextBundle
from headway.exporting import target
from headway.exporting.llama_cpp import GGUF
from headway.interop import gguf
from headway.text import TextUnigram
from tests.fixtures.command_line import headway as run_headway
from tests.fixtures.gguf_models import FAMILIES, GPT2, LLAMA, TEXT, bpe, characters, model

pytest.importorskip("xllamacpp")
pytest.importorskip("gguf")

ROUNDED = ("gpt2", "gemma2", "gemma3")
"""Families whose activation llama.cpp rounds to float16."""


def export(tokenizer, settings, folder, dtype="float32"):
    return target.export(TextBundle(model(tokenizer, **settings), tokenizer), folder, GGUF, dtype)


@pytest.mark.parametrize(
    ("family", "train"), [("gpt2", bpe), ("llama", characters), ("qwen3", bpe)]
)
def test_llama_cpp_reads_the_same_model(tmp_path, family, train):
    tokenizer = train()
    exported = export(tokenizer, FAMILIES[family], tmp_path / "out")
    (difference,) = exported.difference.values()
    assert exported.architecture == family and exported.rounding == difference
    assert difference < (5e-3 if family in ROUNDED else 2e-5)
    files = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert files == ["MANIFEST.json", "model.gguf"]
    assert exported.texts > 8 and exported.tokens >= 96


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("train", [bpe, characters])
@pytest.mark.parametrize("dtype", gguf.FORMATS)
def test_every_family_in_every_number_format(tmp_path, family, train, dtype):
    tokenizer = train()
    exported = export(tokenizer, FAMILIES[family], tmp_path / "out", dtype)
    assert max(exported.difference.values()) < (5e-3 if family in ROUNDED else 2e-5)
    assert exported.dtype == dtype and exported.rounding < 3  # of log-probabilities, in 4 bits


def test_fewer_bits_take_less_room_and_differ_more(tmp_path):
    tokenizer, found = characters(), []
    for dtype in ("float32", "int8", "int4"):
        exported = export(tokenizer, LLAMA, tmp_path / dtype, dtype)
        found.append((-exported.size, exported.rounding))
    assert found == sorted(found) and found[1][1] > 1e-3


STORED = gguf.FAMILIES["llama"].stored


def as_it_is(name, tensor, config):
    return tensor


def negative(name, tensor, config):
    stored = STORED(name, tensor, config)
    return -stored if name == "model.layers.1.mlp.gate_proj.weight" else stored


def keys_without(name):
    return {key: value for key, value in gguf.FAMILIES["llama"].keys.items() if key != name}


BROKEN = {
    "queries in the order of the other rotation": {"stored": as_it_is},
    "one matrix with the wrong sign": {"stored": negative},
    "no rotary base": {"keys": keys_without("rope_theta")},
    "no number of key and value heads": {"keys": keys_without("num_key_value_heads")},
    "another epsilon of the norms": {
        "keys": keys_without("rms_norm_eps") | {"rope_theta": ["attention.layer_norm_rms_epsilon"]}
    },
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_file_is_never_handed_over(tmp_path, monkeypatch, fault):
    tokenizer = characters()
    changed = replace(gguf.FAMILIES["llama"], **BROKEN[fault])
    healthy = model(tokenizer, **LLAMA)
    monkeypatch.setitem(gguf.FAMILIES, "llama", changed)
    with pytest.raises(HeadwayError):
        target.export(TextBundle(healthy, tokenizer), tmp_path / "out", GGUF)
    assert not list(tmp_path.iterdir())


def test_a_missing_merge_is_found_by_the_ids_of_texts(tmp_path, monkeypatch):
    right = gguf.vocabulary

    def without_a_merge(*arguments):
        found = right(*arguments)
        return found | {"add_token_merges": found["add_token_merges"][1:]}

    monkeypatch.setattr(gguf, "vocabulary", without_a_merge)
    tokenizer = bpe()
    with pytest.raises(HeadwayError, match="encodes"):
        export(tokenizer, LLAMA, tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("tokenizer", "changes", "named"),
    [
        (characters, GPT2 | {"norm": "post"}, "openai-gpt"),
        (characters, LLAMA | {"positions": "alibi"}, "positions"),
        (
            characters,
            LLAMA | {"rotary_scaling": RotaryScaling(kind="llama3", original_length=16)},
            "rotary_scaling",
        ),
        (lambda: TextUnigram.train([TEXT], 320), LLAMA, "Unigram"),
    ],
)
def test_what_llama_cpp_does_not_have_is_refused(tmp_path, tokenizer, changes, named):
    trained = tokenizer()
    with pytest.raises(UsageError, match=named):
        export(trained, changes, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_the_command_reports_both_differences(tmp_path):
    tokenizer = characters()
    TextBundle(model(tokenizer, **LLAMA), tokenizer).save(tmp_path / "model")
    words = ("export", "model", "--to", "gguf", "--dtype", "int8")
    done = run_headway(*words, "--json", cwd=tmp_path)
    answer = json.loads(done.stdout)
    assert answer["folder"] == "model/gguf" and answer["dtype"] == "int8"
    assert max(answer["difference"].values()) < 1e-4 < answer["rounding"]
    assert "in int8 by" in done.stderr and "llama-cli -m model/gguf/model.gguf" in done.stderr
    assert "exists" in run_headway(*words, cwd=tmp_path, check=2).stderr


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(UsageError) as raised:
        export(characters(), LLAMA, tmp_path / "out")
    assert raised.value.hint == "pip install 'headway[gguf]'"


def test_a_full_disk_is_named_and_leaves_no_folder(tmp_path, monkeypatch):
    def cut_off(writer):
        raise OSError("45056 requested and 15504 written")  # as numpy says it

    monkeypatch.setattr("gguf.GGUFWriter.write_tensors_to_file", cut_off)
    with pytest.raises(HeadwayError, match="cannot write: No space left") as raised:
        export(characters(), LLAMA, tmp_path / "out")
    assert "bytes are free" in raised.value.hint and not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_file_in_its_run_is_scored_on_the_held_out_text_of_the_run(tmp_path):
    rows = [f"{number} the fox reads {number * 7} books by the owl.\n" for number in range(400)]
    (tmp_path / "t.txt").write_text("".join(rows))
    sizes = ("--model.model-dim", "32", "--model.num-heads", "2", "--model.num-layers", "1")
    short = ("--model.max-length", "32", "--training.length", "32", "--data.vocabulary", "300")
    run_headway(
        "train", "gpt-tiny", "t.txt", "--steps", "4", "--run", "r", *sizes, *short, cwd=tmp_path
    )
    run_headway("export", "runs/r", "--to", "gguf", cwd=tmp_path)

    def bits(path):
        scores = json.loads(run_headway("eval", path, "--json", cwd=tmp_path).stdout)
        return scores["bits_per_byte"]

    assert abs(bits("runs/r/gguf") - bits("runs/r")) < 0.02  # windows are shorter by one
