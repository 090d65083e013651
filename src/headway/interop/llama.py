"""Llama (`LlamaForCausalLM`): RMSNorm, SwiGLU, rotary positions, grouped-query attention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headway.base.shapes import Tensor
from headway.interop.hf_config import HFConfig
from headway.interop.language_models import language_family
from headway.interop.weight_names import Part, needs
from headway.models import GPTConfig

_LINEAR = {
    "self_attn.q_proj": "attention.query",
    "self_attn.k_proj": "attention.key",
    "self_attn.v_proj": "attention.value",
    "self_attn.o_proj": "attention.output",
    "mlp.gate_proj": "feedforward.gate",
    "mlp.up_proj": "feedforward.expand",
    "mlp.down_proj": "feedforward.contract",
}
_BIASES = {"attention_bias": "self_attn", "mlp_bias": "mlp"}
_NORMS = {
    "input_layernorm": "around_attention.norm",
    "post_attention_layernorm": "around_feedforward.norm",
}
_QK_NORMS = {
    "self_attn.q_norm": "attention.query_norm",
    "self_attn.k_norm": "attention.key_norm",
}


def parts(config: GPTConfig) -> Iterator[Part]:
    """Yield all tensors but the head, with the norms of queries and keys if there are any."""
    yield Part("embed_tokens.weight", ("embedding.tokens.weight",))
    norms = _NORMS | _QK_NORMS if config.qk_norm else _NORMS
    for number in range(config.num_layers):
        theirs, ours = f"layers.{number}", f"decoder.blocks.{number}"
        for key, name in norms.items():
            yield Part(f"{theirs}.{key}.weight", (f"{ours}.{name}.gain",))
        for key, name in _LINEAR.items():
            for kind in ("weight", "bias") if config.bias else ("weight",):
                yield Part(f"{theirs}.{key}.{kind}", (f"{ours}.{name}.{kind}",))
    yield Part("norm.weight", ("decoder.norm.gain",))


def shape(hf_config: HFConfig) -> dict[str, Any]:
    """Return the fields of `GPTConfig` for every architecture derived from Llama."""
    hf_config.must_be("hidden_act", "silu")
    kinds = hf_config.values.get("layer_types", ["full_attention"])
    if not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds):
        raise hf_config.refusal("layer_types", kinds, "a list of full_attention for every layer")
    num_heads = hf_config.whole("num_attention_heads", 32)
    return {
        "vocabulary": hf_config.whole("vocab_size", 32_000),
        "max_length": hf_config.whole("max_position_embeddings", 2048),
        "model_dim": hf_config.whole("hidden_size", 4096),
        "ffn_dim": hf_config.whole("intermediate_size", 11_008),
        "num_layers": hf_config.whole("num_hidden_layers", 32),
        "num_heads": num_heads,
        "num_kv_heads": hf_config.whole("num_key_value_heads", num_heads),
        "norm": "pre",
        "norm_kind": "rms",
        "norm_eps": hf_config.number("rms_norm_eps", 1e-6),
        "activation": "swiglu",
        "positions": "rotary",
        "rotary_base": _rotary_base(hf_config),
        "tie_output": hf_config.flag("tie_word_embeddings", False),
    }


def hf_sizes(config: GPTConfig) -> dict[str, Any]:
    """Return the keys of config.json for a configuration of ours, the inverse of `shape`.

    The rotary base is written twice: for transformers 5, and for all other programs.
    """
    return {
        "vocab_size": config.vocabulary,
        "max_position_embeddings": config.max_length,
        "hidden_size": config.model_dim,
        "intermediate_size": config.ffn_dim,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_width,
        "rms_norm_eps": config.norm_eps,
        "hidden_act": "silu",
        "rope_parameters": {"rope_theta": config.rotary_base, "rope_type": "default"},
        "rope_theta": config.rotary_base,
        "attention_bias": config.bias,
        "attention_dropout": 0.0,
    }


def shape_lacks(config: GPTConfig) -> list[str]:
    """Return the settings of a model that no architecture derived from Llama can represent."""
    return needs(
        config,
        {
            "norm": ("pre",),
            "norm_kind": ("rms",),
            "activation": ("swiglu",),
            "positions": ("rotary",),
            "attention": ("scaled-dot",),
        },
    )


def _rotary_base(hf_config: HFConfig) -> float:
    """Return the rotary base, from `rope_parameters` (transformers 5) or from `rope_theta` and
    `rope_scaling` (transformers 4)."""
    default = hf_config.number("rope_theta", 10_000.0, low=1.0)
    for key in ("rope_parameters", "rope_scaling"):
        inner = hf_config.values.get(key, {})
        if not isinstance(inner, dict):
            raise hf_config.refusal(key, inner, "an object (names and values)")
        nested = HFConfig(
            {f"{key}.{name}": value for name, value in inner.items()}, hf_config.where
        )
        for name in ("rope_type", "type"):
            nested.must_be(f"{key}.{name}", "default")
        nested.must_be(f"{key}.partial_rotary_factor", 1.0)
        default = nested.number(f"{key}.rope_theta", default, low=1.0)
    return default


def _settings(hf_config: HFConfig) -> dict[str, Any]:
    settings = shape(hf_config)
    bias = any(hf_config.flag(key, False) for key in _BIASES)
    default_width = max(1, settings["model_dim"] // settings["num_heads"])
    return {**settings, "head_dim": hf_config.whole("head_dim", default_width), "bias": bias}


def _zero_biases(hf_config: HFConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return biases of 0 for attention or feed-forward layers, if only the others have biases.

    All linear layers of a GPT have biases, or none.
    """
    has_biases = {layer: hf_config.flag(key, False) for key, layer in _BIASES.items()}
    if len(set(has_biases.values())) == 1:
        return {}
    (plain,) = (layer for layer, has_bias in has_biases.items() if not has_bias)
    return {
        f"{name.removesuffix('.weight')}.bias": tensor.new_zeros(len(tensor))
        for name, tensor in tensors.items()
        if f".{plain}." in name and name.endswith("_proj.weight")
    }


def _to_hf_config(config: GPTConfig) -> dict[str, Any]:
    return {**hf_sizes(config), "mlp_bias": config.bias}


def _lacks(config: GPTConfig) -> list[str]:
    reasons = shape_lacks(config) + needs(config, {"qk_norm": (False,)})
    if config.model_dim % config.num_heads:
        reasons.append(f"model_dim={config.model_dim} (must be a multiple of num_heads)")
    return reasons


FAMILY = language_family(
    model_type="llama",
    architecture="LlamaForCausalLM",
    bare="LlamaModel",
    prefix="model.",
    embedding="embed_tokens.weight",
    ignored=r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq",
    settings=_settings,
    to_hf_config=_to_hf_config,
    parts=parts,
    lacks=_lacks,
    absent=_zero_biases,
)
