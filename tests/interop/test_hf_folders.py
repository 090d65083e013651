"""Invalid model folders, and models that the format cannot represent, are refused by name."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from headway.base.errors import HeadwayWarning, UsageError
from headway.interop import FAMILIES, read, write
from headway.models import GPT, GPTConfig
from tests.fixtures.damage import change, refused, written

TINY = GPTConfig(model_dim=12, num_heads=2, ffn_dim=20, num_layers=2, max_length=8, vocabulary=11)
LLAMA = replace(
    TINY, norm_kind="rms", activation="swiglu", bias=False, positions="rotary", num_kv_heads=1
)
GPT1 = replace(TINY, norm="post", ffn_dim=48)
QWEN = replace(LLAMA, qk_norm=True)
CONFIGS = {"gpt2": TINY, "openai-gpt": GPT1, "llama": LLAMA, "qwen3": QWEN}


@pytest.fixture
def folder(tmp_path):
    """folder("llama", hidden_act="gelu") -> a folder of that family with these changes."""

    def make(family, **changes):
        return written(GPT(CONFIGS[family]), tmp_path, family, **changes)

    return make


@pytest.mark.parametrize("family", CONFIGS)
def test_every_tensor_that_is_missing_is_named(folder, family):
    path = folder(family)
    whole = load_file(path / "model.safetensors")
    for key in whole:
        save_file({k: t for k, t in whole.items() if k != key}, path / "model.safetensors")
        bare = key.removeprefix(FAMILIES[family].prefix)
        refused(path, f"lacks {bare}")


@pytest.mark.parametrize("family", CONFIGS)
def test_every_tensor_of_a_wrong_shape_is_named_with_both_shapes(folder, family):
    path = folder(family)
    whole = load_file(path / "model.safetensors")
    for key, tensor in whole.items():
        wrong = torch.zeros(tensor.shape[0] + 1, *tensor.shape[1:])
        save_file({**whole, key: wrong}, path / "model.safetensors")
        bare = key.removeprefix(FAMILIES[family].prefix)
        refused(path, f"{bare} has shape {tuple(wrong.shape)}", str(tuple(tensor.shape)))


def test_a_weight_stored_untransposed_is_refused(folder):
    path = folder("gpt2")
    key = "transformer.h.1.mlp.c_fc.weight"
    change(path, lambda t: t.update({key: t[key].T.contiguous()}))
    refused(path, "h.1.mlp.c_fc.weight has shape (20, 12), but config.json requires (12, 20)")


@pytest.mark.parametrize(
    ("family", "key"),
    [
        ("gpt2", "score.weight"),
        ("gpt2", "transformer.h.2.ln_1.weight"),
        ("gpt2", "transformer.h.0.crossattention.c_attn.weight"),
        ("llama", "model.layers.0.self_attn.q_proj.bias"),
        ("llama", "model.layers.0.self_attn.q_norm.weight"),
    ],
)
def test_an_unexpected_tensor_is_refused_by_name(folder, family, key):
    path = folder(family)
    change(path, lambda t: t.update({key: torch.ones(3)}))
    refused(path, f"has {key.removeprefix(FAMILIES[family].prefix)}")


def test_quantised_tensors_are_refused(folder):
    path = folder("llama")
    key = "model.layers.0.mlp.up_proj.weight"
    change(path, lambda t: t.update({key: t[key].to(torch.int8)}))
    refused(path, f"{key} has dtype torch.int8")


def test_a_key_with_and_without_its_prefix_is_refused(folder):
    path = folder("gpt2")
    change(path, lambda t: t.update({"wte.weight": torch.ones(11, 12)}))
    refused(path, "wte.weight occurs twice: with and without the prefix 'transformer.'")


def test_a_head_that_differs_from_its_tied_embedding_is_refused(folder):
    path = folder("gpt2")
    change(path, lambda t: t.update({"lm_head.weight": torch.ones(11, 12)}))
    refused(path, "lm_head.weight differs from wte.weight", "tie_word_embeddings")


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("gpt2", {"activation_function": "quick_gelu"}),
        ("gpt2", {"scale_attn_weights": False}),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}),
        ("gpt2", {"add_cross_attention": True}),
        ("gpt2", {"n_embd": 0}),
        ("gpt2", {"n_embd": "12"}),
        ("gpt2", {"n_layer": True}),
        ("gpt2", {"n_head": 2.0}),
        ("gpt2", {"vocab_size": 10**12}),
        ("gpt2", {"layer_norm_epsilon": "1e-5"}),
        ("gpt2", {"layer_norm_epsilon": -1e-5}),
        ("gpt2", {"resid_pdrop": 1.0}),
        ("gpt2", {"tie_word_embeddings": "yes"}),
        ("gpt2", {"architectures": ["GPT2ForSequenceClassification"]}),
        ("gpt2", {"architectures": "GPT2LMHeadModel"}),
        ("gpt2", {"model_type": "mamba"}),
        ("gpt2", {"model_type": ["gpt2"]}),
        ("gpt2", {"model_type": None}),
        ("openai-gpt", {"afn": "gelu_fast"}),
        ("llama", {"hidden_act": "gelu"}),
        ("llama", {"mlp_bias": "yes"}),
        ("llama", {"layer_types": ["sliding_attention"]}),
        ("llama", {"quantization_config": {"bits": 4}}),
        ("llama", {"rope_theta": 0.0}),
        ("llama", {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5}}),
        ("llama", {"rope_scaling": {"type": "linear"}, "rope_parameters": None}),
        ("llama", {"rope_parameters": {"partial_rotary_factor": 0.5}}),
        ("llama", {"rope_parameters": "default"}),
        ("qwen3", {"attention_bias": "yes"}),
        ("qwen3", {"use_sliding_window": 1}),
        ("qwen3", {"layer_types": ["full_attention", "linear_attention"]}),
    ],
)
def test_an_invalid_value_of_the_config_is_refused_by_name(folder, family, changes):
    refused(folder(family, **changes), next(iter(changes)), "config.json")


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        ("gpt2", {"n_head": 5}, "num_heads=5"),
        ("gpt2", {"n_layer": 3}, "lacks h.2.ln_1.weight"),
        ("gpt2", {"n_layer": 2**30}, "num_layers=1073741824: must be"),
        ("gpt2", {"n_layer": 1}, "has h.1.attn.c_attn.bias"),
        ("gpt2", {"n_embd": 2**30}, "model_dim=1073741824: must be"),
        ("gpt2", {"n_embd": 2**16}, "shape"),
        ("gpt2", {"n_inner": 2**16}, "h.0.mlp.c_fc.weight has shape"),
        ("gpt2", {"vocab_size": 12}, "wte.weight has shape (11, 12)"),
        ("llama", {"num_key_value_heads": 2}, "k_proj.weight has shape (6, 12)"),
        ("llama", {"head_dim": 5}, "must be even"),
        ("llama", {"tie_word_embeddings": False}, "lacks lm_head.weight"),
        (
            "llama",
            {"attention_bias": True, "mlp_bias": True},
            "lacks layers.0.self_attn.q_proj.bias",
        ),
    ],
)
def test_a_config_that_does_not_match_the_tensors_is_refused(folder, family, changes, message):
    refused(folder(family, **changes), message)


def test_a_path_that_is_not_a_model_folder_is_refused(tmp_path):
    refused(tmp_path, "config.json")
    (tmp_path / "config.json").write_text("[]")
    refused(tmp_path, "must be a JSON object")
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    refused(tmp_path, "there is no model.safetensors")
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK")
    refused(tmp_path, "pytorch_model.bin is a pickle")


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ({"weight_map": {"wte.weight": "../model.safetensors"}}, "is not in the folder"),
        ({"weight_map": {"wte.weight": "/etc/model.safetensors"}}, "is not in the folder"),
        ({"weight_map": {"wte.weight": 3}}, "weight_map"),
        ({"weight_map": ["a"]}, "weight_map"),
        ([], "weight_map"),
        ({"weight_map": {"wte.weight": "part.safetensors"}}, "cannot be read"),
        ({"weight_map": {"nowhere": "one.safetensors"}}, "the index says"),
    ],
)
def test_an_invalid_index_is_refused(folder, index, message):
    path = folder("gpt2")
    (path / "model.safetensors").rename(path / "one.safetensors")
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    refused(path, message)


@pytest.mark.parametrize(
    ("config", "family", "message"),
    [
        (replace(TINY, norm="post"), "gpt2", "norm=post"),
        (replace(TINY, norm_kind="rms"), "gpt2", "norm_kind=rms"),
        (replace(TINY, positions="alibi"), "gpt2", "positions=alibi"),
        (replace(TINY, bias=False), "gpt2", "bias=False"),
        (replace(TINY, num_kv_heads=1), "gpt2", "num_kv_heads=1"),
        (replace(TINY, head_dim=5), "gpt2", "head_dim=5"),
        (replace(TINY, activation="swiglu"), "gpt2", "activation=swiglu"),
        (replace(TINY, attention="window"), "gpt2", "attention=window"),
        (TINY, "openai-gpt", "norm=pre"),
        (replace(GPT1, ffn_dim=20), "openai-gpt", "ffn_dim=20"),
        (replace(GPT1, activation="gelu"), "openai-gpt", "activation=gelu"),
        (QWEN, "llama", "qk_norm=True"),
        (replace(LLAMA, model_dim=13, head_dim=6), "llama", "model_dim=13"),
        (replace(LLAMA, positions="learned"), "llama", "positions=learned"),
        (LLAMA, "qwen3", "qk_norm=False"),
        (replace(QWEN, bias=True), "qwen3", "bias=True"),
        (TINY, "bert", "cannot represent a GPT"),
        (TINY, "lama", "unknown family 'lama'"),
    ],
)
def test_a_model_that_cannot_be_exported_is_refused_with_the_setting(
    tmp_path, config, family, message
):
    with pytest.raises(UsageError, match=message):
        write(GPT(config), tmp_path, family)
    assert not list(tmp_path.iterdir())


def test_a_model_that_no_family_can_represent_is_refused_with_the_nearest_ones(tmp_path):
    config = replace(TINY, positions="alibi")
    with pytest.raises(UsageError) as caught:
        write(GPT(config), tmp_path)
    able = {name: family for name, family in FAMILIES.items() if GPTConfig in family.kinds()}
    _, *shown, further = caught.value.what.splitlines()
    fewest = sorted(len(family.lacks(config)) for family in able.values())
    names = [line.split(": ")[0] for line in shown]
    assert [len(able[name].lacks(config)) for name in names] == fewest[:3]
    assert further == f"{len(able) - 3} further families differ in as many settings or more"
    with pytest.raises(UsageError, match="it can be represented as a LlamaForCausalLM"):
        write(GPT(LLAMA), tmp_path, "gpt2")


def test_nothing_is_overwritten(folder):
    path = folder("gpt2")
    before = (path / "model.safetensors").read_bytes()
    with pytest.raises(UsageError, match="exists already"):
        write(GPT(TINY), path)
    assert (path / "model.safetensors").read_bytes() == before


def test_files_of_a_tokenizer_in_the_folder_are_kept(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    write(GPT(TINY), tmp_path)
    assert (tmp_path / "tokenizer.json").read_text() == "{}"
    assert read(tmp_path)[0].model_dim == 12


def test_unused_keys_of_the_config_are_ignored_and_unknown_ones_named(folder):
    path = folder("gpt2", task_specific_params={"a": 1}, n_ctx=8, headway={"any": "thing"})
    with pytest.warns(HeadwayWarning, match=r"config\.json: headway=.* is ignored") as caught:
        assert read(path)[0] == TINY
    assert len(caught) == 1
