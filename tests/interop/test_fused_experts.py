"""The experts of gpt-oss: one tensor for all of a layer, in floating point or in MXFP4."""

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.testing import assert_close
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from headway.base.errors import DataError
from headway.interop import build, read
from headway.interop.decoders.fused_experts import from_mxfp4, packed, unpacked
from tests.fixtures.decoder_families import configuration
from tests.fixtures.random_weights import with_noise

EXPERTS, ROWS, GROUPS = 3, 5, 2


def in_four_bits(experts, rows, groups):
    blocks = torch.randint(0, 256, (experts, rows, groups, 16), dtype=torch.uint8)
    return blocks, torch.randint(120, 130, (experts, rows, groups), dtype=torch.uint8)


def test_numbers_of_four_bits_are_those_of_transformers_to_the_last_bit():
    blocks, scales = in_four_bits(EXPERTS, ROWS, GROUPS)
    ours = from_mxfp4(blocks, scales)
    assert ours.shape == (EXPERTS, ROWS, 32 * GROUPS)
    assert torch.equal(ours.mT, convert_moe_packed_tensors(blocks, scales))
    assert {abs(x) for x in (ours.float() * 2.0**7).flatten().tolist()} >= {0.0, 0.5, 1.5, 6.0}


def test_what_is_packed_is_what_was_unpacked():
    prefix = "model.layers.1.mlp.experts."
    stored = {
        f"{prefix}gate_up_proj": torch.randn(EXPERTS, 4, 2 * ROWS),
        f"{prefix}gate_up_proj_bias": torch.randn(EXPERTS, 2 * ROWS),
        f"{prefix}down_proj": torch.randn(EXPERTS, ROWS, 4),
        f"{prefix}down_proj_bias": torch.randn(EXPERTS, 4),
        "model.layers.1.mlp.router.weight": torch.randn(EXPERTS, 4),
    }
    single = unpacked(stored, "model.safetensors")
    gate_up = stored[f"{prefix}gate_up_proj"][2]
    assert torch.equal(single[f"{prefix}2.gate_proj.weight"], gate_up.mT[::2])
    assert torch.equal(single[f"{prefix}2.up_proj.weight"], gate_up.mT[1::2])
    again = packed(single)
    assert again.keys() == stored.keys()
    assert all(torch.equal(again[key], stored[key]) for key in stored)


@pytest.fixture
def folder(tmp_path):
    """A folder of gpt-oss, whose expansions are stored in MXFP4, and its float32 twin."""
    torch.manual_seed(0)
    settings = configuration("gpt-oss").to_dict() | {"hidden_size": 32, "intermediate_size": 32}
    model = transformers.GptOssForCausalLM(transformers.GptOssConfig(**settings))
    with_noise(model)
    stored = {}
    for key, tensor in model.state_dict().items():
        if key.endswith(("experts.gate_up_proj", "experts.down_proj")):
            blocks, scales = in_four_bits(tensor.shape[0], tensor.shape[2], 1)
            tensor.copy_(convert_moe_packed_tensors(blocks, scales).float())
            stored |= {f"{key}_blocks": blocks, f"{key}_scales": scales}
        else:
            stored[key] = tensor
    model.config.save_pretrained(tmp_path)
    numbers = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.embed_tokens"]}
    config = tmp_path / "config.json"
    config.write_text(
        config.read_text().replace("{", f'{{"quantization_config": {numbers},'.replace("'", '"'), 1)
    )
    save_file(stored, tmp_path / "model.safetensors", {"format": "pt"})
    return model, tmp_path


@torch.no_grad()
def test_a_file_in_four_bits_is_the_model_of_its_numbers(folder):
    theirs, path = folder
    text = torch.randint(3, 37, (1, 12))
    ours = build(*read(path))
    assert_close(ours(text), theirs(input_ids=text).logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.pop("model.layers.0.mlp.experts.down_proj_scales"), "but no .*_scales"),
        (
            lambda x: x.update(
                {"model.layers.0.mlp.experts.down_proj_scales": torch.zeros(4, dtype=torch.uint8)}
            ),
            r"have shapes \(4, 32, 1, 16\) and \(4,\); MXFP4 has bytes of the shapes",
        ),
        (
            lambda x: x.update({"model.layers.0.mlp.experts.down_proj_bias": torch.zeros(4)}),
            "down_proj_bias has 1 dimensions, not 2",
        ),
    ],
)
def test_a_damaged_file_is_refused_by_the_name_of_the_tensor(folder, change, message):
    path = folder[1] / "model.safetensors"
    stored = load_file(path)
    change(stored)
    save_file(stored, path, {"format": "pt"})
    with pytest.raises(DataError, match=message):
        read(folder[1])


def test_other_numbers_are_refused_with_the_key(folder):
    config = folder[1] / "config.json"
    config.write_text(config.read_text().replace('"mxfp4"', '"awq"'))
    with pytest.raises(DataError, match="quantization_config"):
        read(folder[1])
