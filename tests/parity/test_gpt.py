"""Whole language models compared with transformers': read from its folders, and written."""

import json
from dataclasses import replace

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from headway.decoding import Limits
from headway.interop import build, read, write
from headway.models import GPT, GPTConfig
from tests.fixtures.random_weights import with_noise
from tests.fixtures.searches import greedy_search

B, T, V = 3, 9, 37
SHAPE = {"vocab_size": V, "n_positions": 24, "n_embd": 24, "n_layer": 3, "n_head": 4}
LLAMA = {
    "vocab_size": V,
    "max_position_embeddings": 24,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
}
THEIRS = {
    "gpt2": (transformers.GPT2Config, {**SHAPE, "n_inner": 40}),
    "gpt2 exact gelu": (transformers.GPT2Config, {**SHAPE, "activation_function": "gelu"}),
    "gpt2 untied": (transformers.GPT2Config, {**SHAPE, "tie_word_embeddings": False}),
    "gpt2 eps": (transformers.GPT2Config, {**SHAPE, "layer_norm_epsilon": 0.1}),
    "gpt1": (transformers.OpenAIGPTConfig, SHAPE),
    "gpt1 silu": (transformers.OpenAIGPTConfig, {**SHAPE, "afn": "silu"}),
    "llama": (transformers.LlamaConfig, LLAMA),
    "llama tied": (transformers.LlamaConfig, {**LLAMA, "tie_word_embeddings": True}),
    "llama biases, wide heads": (
        transformers.LlamaConfig,
        {**LLAMA, "attention_bias": True, "mlp_bias": True, "head_dim": 10, "rms_norm_eps": 0.1},
    ),
    "llama far": (
        transformers.LlamaConfig,
        {**LLAMA, "rope_parameters": {"rope_type": "default", "rope_theta": 50.0}},
    ),
    "qwen3": (transformers.Qwen3Config, {**LLAMA, "head_dim": 8}),
}
OURS = GPTConfig(
    model_dim=24, num_heads=6, ffn_dim=96, num_layers=3, max_length=24, vocabulary=V, dropout=0.1
)
MODERN = replace(
    OURS,
    num_kv_heads=3,
    norm_kind="rms",
    activation="swiglu",
    bias=False,
    positions="rotary",
    rotary_base=100.0,
)
WRITTEN = {
    "GPT2LMHeadModel": OURS,
    "OpenAIGPTLMHeadModel": replace(OURS, norm="post"),
    "LlamaForCausalLM": replace(MODERN, tie_output=False),
    "Qwen3ForCausalLM": replace(MODERN, qk_norm=True, head_dim=10),
}


def theirs(name):
    kind, shape = THEIRS[name]
    config = kind(**shape, bos_token_id=0, eos_token_id=1, pad_token_id=2)
    return with_noise(transformers.AutoModelForCausalLM.from_config(config))


@torch.no_grad()
def agree(ours, reference):
    """Assert equal logits, and equal greedy outputs after prompts of different lengths."""
    tokens = torch.randint(3, V, (B, T))
    assert_close(ours(tokens), reference(input_ids=tokens).logits, rtol=0, atol=1e-4)
    prompts = [tokens[0, :2], tokens[1, :5], tokens[2]]
    for prompt in prompts:
        generated = reference.generate(
            input_ids=prompt[None],
            attention_mask=torch.ones_like(prompt)[None],
            max_new_tokens=11,
            do_sample=False,
            pad_token_id=2,
        )[0, len(prompt) :].tolist()
        limits = Limits(int(prompt[-1]), 1, [11])
        best = greedy_search(ours, (prompt[None, :-1],), limits)[0]
        assert list(best.tokens) == (
            generated[: generated.index(1)] if 1 in generated else generated
        )


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", THEIRS)
def test_a_model_saved_by_transformers_has_the_same_logits_and_outputs(name, tmp_path):
    model = theirs(name)
    model.save_pretrained(tmp_path)
    agree(build(*read(tmp_path)), model)


@pytest.mark.parametrize("architecture", WRITTEN)
def test_a_model_written_by_us_has_the_same_logits_and_outputs_in_transformers(
    architecture, tmp_path
):
    model = with_noise(GPT(WRITTEN[architecture]))
    assert write(model, tmp_path, specials={"eos_token_id": 1}) == architecture
    kind = getattr(transformers, architecture)
    reference, report = kind.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report
    assert reference.config.eos_token_id == 1 and reference.config.bos_token_id is None
    agree(model, reference.eval())


@pytest.mark.parametrize("architecture", WRITTEN)
def test_a_model_written_by_us_is_read_unchanged(architecture, tmp_path):
    model = with_noise(GPT(WRITTEN[architecture]))
    write(model, tmp_path)
    config, tensors = read(tmp_path)
    loaded = build(config, tensors)
    assert set(tensors) == {name for name, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        assert torch.equal(loaded.get_parameter(name), parameter), name
    restored = replace(
        config,
        num_kv_heads=model.config.num_kv_heads,
        head_dim=model.config.head_dim,
        dropout=0.1,  # Llama's config has no such field
    )
    assert restored == model.config


@pytest.mark.parametrize("name", ["gpt2", "gpt1", "llama", "qwen3"])
def test_a_round_trip_changes_no_bit_of_their_file(name, tmp_path):
    theirs(name).save_pretrained(tmp_path / "theirs")
    write(build(*read(tmp_path / "theirs")), tmp_path / "ours")
    first, second = (load_file(tmp_path / p / "model.safetensors") for p in ("theirs", "ours"))
    assert set(first) == set(second)
    for key, tensor in first.items():
        assert torch.equal(second[key], tensor), key


@pytest.mark.parametrize("name", ["gpt2", "gpt1", "llama tied", "qwen3"])
def test_keys_without_prefix_a_copy_of_the_head_and_old_buffers_are_read(name, tmp_path):
    model = theirs(name)
    model.save_pretrained(tmp_path)
    expected = read(tmp_path)[1]
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    prefix = "model." if name in ("llama tied", "qwen3") else "transformer."
    bare = {key.removeprefix(prefix): tensor for key, tensor in tensors.items()}
    if name == "qwen3":
        bare["layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    elif name == "llama tied":
        bare["lm_head.weight"] = bare["embed_tokens.weight"].clone()
    else:
        bare["h.0.attn.bias"] = torch.ones(1, 1, 24, 24).bool()
        original = "wte.weight" if name == "gpt2" else "tokens_embed.weight"
        bare["lm_head.weight"] = bare[original].clone()
    save_file(bare, path)
    actual = read(tmp_path)[1]
    assert set(actual) == set(expected)
    for key, tensor in expected.items():
        assert torch.equal(actual[key], tensor)


def test_shards_are_read_as_one_file(tmp_path):
    model = theirs("gpt2")
    model.save_pretrained(tmp_path / "whole")
    model.save_pretrained(tmp_path / "parts", max_shard_size="20KB")
    assert len(list((tmp_path / "parts").glob("*.safetensors"))) > 2
    whole, sharded = read(tmp_path / "whole")[1], read(tmp_path / "parts")[1]
    assert set(whole) == set(sharded) and all(
        torch.equal(whole[key], sharded[key]) for key in whole
    )


def test_a_bare_gpt2_without_a_head_is_read(tmp_path):
    model = theirs("gpt2")
    model.transformer.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == ["GPT2Model"]
    agree(build(*read(tmp_path)), model)


def test_half_precision_is_preserved_until_the_model_is_built(tmp_path):
    theirs("llama").to(torch.bfloat16).save_pretrained(tmp_path)
    config, tensors = read(tmp_path)
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}
    assert build(config, tensors).output.weight.dtype == torch.float32
    assert build(config, tensors, torch.bfloat16).output.weight.dtype == torch.bfloat16
    write(build(config, tensors, torch.bfloat16), tmp_path / "again")
    assert json.loads((tmp_path / "again" / "config.json").read_text())["dtype"] == "bfloat16"


def test_a_model_that_was_read_can_be_trained(tmp_path):
    theirs("gpt2").save_pretrained(tmp_path)
    model = build(*read(tmp_path)).train()
    model(torch.randint(0, V, (2, 5))).square().mean().backward()
    assert all(p.grad is not None for p in model.parameters())
    assert model.output.weight is model.embedding.tokens.weight
