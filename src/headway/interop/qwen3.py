"""Qwen3 (`Qwen3ForCausalLM`): Llama with QK-norm, the architecture of our modern sizes."""

from __future__ import annotations

from typing import Any

from headway.interop import llama
from headway.interop.hf_config import HFConfig
from headway.interop.language_models import language_family
from headway.interop.weight_names import needs
from headway.models import GPTConfig


def _settings(hf_config: HFConfig) -> dict[str, Any]:
    hf_config.must_be("attention_bias", False)
    hf_config.must_be("use_sliding_window", False)
    settings = llama.shape(hf_config)
    return {
        **settings,
        "head_dim": hf_config.whole("head_dim", 128),
        "bias": False,
        "qk_norm": True,
    }


def _lacks(config: GPTConfig) -> list[str]:
    return llama.shape_lacks(config) + needs(config, {"qk_norm": (True,), "bias": (False,)})


FAMILY = language_family(
    model_type="qwen3",
    architecture="Qwen3ForCausalLM",
    bare="Qwen3Model",
    prefix="model.",
    embedding="embed_tokens.weight",
    ignored=r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq",
    settings=_settings,
    to_hf_config=llama.hf_sizes,
    parts=llama.parts,
    lacks=_lacks,
)
