"""`headway doctor FOLDER`: what a folder holds, and what of it cannot be used."""

import json

import pytest
import torch
from safetensors.torch import save_file

from headway.interop.explanation import explain
from headway.models import Bert, BertConfig
from tests.fixtures.command_line import headway
from tests.fixtures.damage import written
from tests.fixtures.encoder_tokenizers import write_wordpiece
from tests.fixtures.hf_gpt import Bytes

GEMMA = {
    "model_type": "gemma2",
    "architectures": ["Gemma2ForCausalLM"],
    "vocab_size": 300,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 10,
    "rope_parameters": {"rope_type": "default", "rope_theta": 100.0},
    "twist": 3,
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(GEMMA))
    save_file({"model.norm.weight": torch.ones(24)}, tmp_path / "model.safetensors")
    (tmp_path / "README.md").write_text("---\nlanguage: en\nlicense: apache-2.0 \n---\n# Gem\n")
    return tmp_path


def test_a_folder_is_explained_without_its_weights(folder):
    found = explain(folder)
    assert found.usable and (found.family, found.architecture) == ("gemma2", "Gemma2ForCausalLM")
    d, f, block = 24, 40, 24 * 10 * (2 * 4 + 2 * 2)
    assert found.parameters == 300 * d + 2 * (block + 3 * d * f + 4 * d) + d
    assert found.memory["float32"] == 4 * found.parameters > found.memory["int8"]
    assert {"norm=sandwich", "logit_cap=30.0", "layers=lg"} <= set(found.settings)
    assert found.licence == "apache-2.0" and found.tokenizer is None
    assert any("twist=3 is ignored" in problem for problem in found.problems)
    assert any("there is no tokenizer" in problem for problem in found.problems)


def test_the_tokenizer_and_its_ends_are_named(folder):
    Bytes().save(folder)
    (folder / "tokenizer_config.json").write_text('{"bos_token": "<s>", "eos_token": "</s>"}')
    found = explain(folder)
    assert found.tokenizer == f"{Bytes().size:,} tokens" and found.ends


def test_an_encoder_has_its_tokenizer_and_the_class_of_its_file(tmp_path):
    config = BertConfig(
        **{"model_dim": 12, "num_heads": 2, "ffn_dim": 20, "num_layers": 2, "max_length": 8},
        vocabulary=40,
        masked_lm_head=False,
        next_sentence=False,
    )
    write_wordpiece(tmp_path)
    (tmp_path / "config.json").unlink()
    written(Bert(config), tmp_path, "bert", architectures=["BertForMaskedLM"])
    found = explain(tmp_path)
    assert found.usable and found.architecture == "BertModel"
    assert found.tokenizer is not None and found.tokenizer.endswith(" tokens")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model_type": "qwen3_next"}, "a state instead of attention"),
        ({"head_dim": 7}, "must be even"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
    ],
)
def test_a_folder_that_cannot_be_used_has_the_reason(changes, reason, folder):
    (folder / "config.json").write_text(json.dumps({**GEMMA, **changes}))
    found = explain(folder)
    assert not found.usable and any(reason in problem for problem in found.problems)


def test_the_command_prints_the_explanation(folder, tmp_path):
    shown = headway("doctor", str(folder), cwd=tmp_path).stdout
    assert "gemma2" in shown and "apache-2.0" in shown and "twist=3 is ignored" in shown
    found = json.loads(headway("doctor", str(folder), "--json", cwd=tmp_path).stdout)
    assert found["usable"] is True and found["family"] == "gemma2"
    missing = headway("doctor", str(tmp_path / "none"), cwd=tmp_path).stdout
    assert "usable           no" in missing
