"""Adapters of PEFT are merged into their base model, or refused by name."""

import json

import pytest
import torch
from safetensors.torch import save_file

import headway
from headway import interop
from headway.base.errors import DataError, HeadwayWarning
from headway.models import GPTConfig
from tests.fixtures.hf_gpt import Bytes, random_gpt

LAYER = "model.layers.0.self_attn.q_proj"
GPT2_LAYER = "transformer.h.0.attn.c_proj"
SHAPE = {"model_dim": 12, "num_heads": 2, "ffn_dim": 20, "num_layers": 2, "max_length": 48}
LLAMA = {
    "norm": "pre",
    "norm_kind": "rms",
    "activation": "swiglu",
    "positions": "rotary",
    "bias": False,
}
OURS = "decoder.blocks.0.attention"


def base(folder, family="llama"):
    config = GPTConfig(vocabulary=300, **SHAPE, **(LLAMA if family == "llama" else {}))
    interop.write_text_model(random_gpt(config), Bytes(), folder, family)
    return folder


def write_adapter(folder, tensors, **config):
    folder.mkdir(exist_ok=True)
    values = {"peft_type": "LORA", "r": 2, "lora_alpha": 6, "target_modules": ["q_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps({**values, **config}))
    save_file(
        {f"base_model.model.{name}": tensor for name, tensor in tensors.items()},
        folder / "adapter_model.safetensors",
    )
    return folder


def matrices(layer=LAYER, rank=2, width=12):
    generator = torch.Generator().manual_seed(1)
    down = torch.randn(rank, width, generator=generator)
    up = torch.randn(width, rank, generator=generator)
    return {f"{layer}.lora_A.weight": down, f"{layer}.lora_B.weight": up}, up @ down


def weight(folder, name):
    return headway.load(folder, fast=False).model.state_dict()[name]


@pytest.mark.parametrize(
    ("config", "scale"),
    [
        ({}, 3.0),
        ({"use_rslora": True}, 6 / 2**0.5),
        ({"alpha_pattern": {"q_proj": 4}}, 2.0),
        ({"r": 8, "rank_pattern": {"layers.0.self_attn.q_proj": 2}}, 3.0),
    ],
)
def test_an_adapter_beside_its_base_model_is_merged(config, scale, tmp_path):
    folder = base(tmp_path / "model")
    before = weight(folder, f"{OURS}.query.weight")
    tensors, change = matrices()
    write_adapter(folder, tensors, **config)
    merged = weight(folder, f"{OURS}.query.weight")
    torch.testing.assert_close(merged, before + scale * change)


def test_an_adapter_names_the_folder_of_its_base_model(tmp_path):
    folder = base(tmp_path / "model")
    before = weight(folder, f"{OURS}.query.weight")
    tensors, change = matrices()
    write_adapter(tmp_path / "lone", tensors, base_model_name_or_path="../model")
    merged = weight(tmp_path / "lone", f"{OURS}.query.weight")
    torch.testing.assert_close(merged, before + 3 * change)
    (tmp_path / "lone" / "chat_template.jinja").write_text("{{ messages }}")
    with pytest.warns(HeadwayWarning, match=r"chat_template\.jinja is ignored"):
        headway.load(tmp_path / "lone")


@pytest.mark.parametrize("name", ["some/model-of-the-hub", None, ""])
def test_an_adapter_without_its_base_model_says_what_is_missing(name, tmp_path):
    write_adapter(tmp_path / "lone", matrices()[0], base_model_name_or_path=name)
    with pytest.raises(DataError, match="without its base model"):
        headway.load(tmp_path / "lone")


def test_the_transposed_matrices_of_gpt2_change_by_the_transposed_product(tmp_path):
    folder = base(tmp_path / "model", "gpt2")
    before = weight(folder, f"{OURS}.output.weight")
    tensors, change = matrices(GPT2_LAYER)
    write_adapter(folder, tensors, fan_in_fan_out=True, target_modules=["c_proj"])
    torch.testing.assert_close(weight(folder, f"{OURS}.output.weight"), before + 3 * change)


def test_embeddings_and_modules_trained_as_a_whole_are_merged(tmp_path):
    folder = base(tmp_path / "model")
    before = weight(folder, "embedding.tokens.weight")
    down, up = torch.randn(2, 300), torch.randn(12, 2)
    norm = torch.randn(12)
    write_adapter(
        folder,
        {
            "model.embed_tokens.lora_embedding_A": down,
            "model.embed_tokens.lora_embedding_B": up,
            "model.norm.modules_to_save.weight": norm,
        },
        modules_to_save=["norm"],
    )
    torch.testing.assert_close(
        weight(folder, "embedding.tokens.weight"), before + 3 * (up @ down).T
    )
    torch.testing.assert_close(weight(folder, "decoder.norm.gain"), norm)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"peft_type": "IA3"}, "peft_type='IA3'"),
        ({"peft_type": "PREFIX_TUNING"}, "peft_type='PREFIX_TUNING'"),
        ({"use_dora": True}, "use_dora=True.*DoRA"),
        ({"r": 4}, "has rank 2, but r=4"),
        ({"r": 0}, "r=0"),
        ({"rank_pattern": [1]}, "rank_pattern"),
    ],
)
def test_other_adapters_are_refused_by_name(config, message, tmp_path):
    folder = write_adapter(base(tmp_path / "model"), matrices()[0], **config)
    with pytest.raises(DataError, match=message):
        headway.load(folder)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (matrices("model.layers.7.self_attn.q_proj")[0], "which the base model lacks"),
        (matrices(width=14)[0], r"shape \(14, 14\), but the base model has \(12, 12\)"),
        ({f"{LAYER}.lora_A.weight": torch.ones(2, 12)}, "only one of the two matrices"),
        ({"model.norm.weight": torch.ones(3)}, "shape"),
    ],
)
def test_tensors_that_fit_no_layer_are_refused(tensors, message, tmp_path):
    folder = write_adapter(base(tmp_path / "model"), tensors)
    with pytest.raises(DataError, match=message):
        headway.load(folder)


def test_an_adapter_without_safetensors_is_refused(tmp_path):
    folder = write_adapter(base(tmp_path / "model"), matrices()[0])
    (folder / "adapter_model.safetensors").unlink()
    with pytest.raises(DataError, match=r"no adapter_model\.safetensors"):
        headway.load(folder)
