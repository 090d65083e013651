"""GPT-1 (`OpenAIGPTLMHeadModel`): post-norm, learned positions, no last norm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headway.interop import gpt2
from headway.interop.hf_config import HFConfig
from headway.interop.language_models import language_family
from headway.interop.weight_names import Part, needs
from headway.models import GPTConfig

# Their "gelu" is the tanh approximation.
ACTIVATIONS = {"gelu": "gelu-tanh", "relu": "relu", "silu": "silu", "swish": "silu"}


def _settings(hf_config: HFConfig) -> dict[str, Any]:
    settings = gpt2.shape(hf_config, 40_478, 512)
    return {
        **settings,
        "norm": "post",
        "ffn_dim": 4 * settings["model_dim"],
        "activation": hf_config.choice("afn", ACTIVATIONS, "gelu"),
    }


def _to_hf_config(config: GPTConfig) -> dict[str, Any]:
    names = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    return {**gpt2.hf_sizes(config), "afn": names[config.activation]}


def _parts(config: GPTConfig) -> Iterator[Part]:
    yield Part("tokens_embed.weight", ("embedding.tokens.weight",))
    yield Part("positions_embed.weight", ("embedding.positions.table.vectors",))
    yield from gpt2.layers(config)


def _lacks(config: GPTConfig) -> list[str]:
    required = {"activation": tuple(ACTIVATIONS.values()), "ffn_dim": (4 * config.model_dim,)}
    return gpt2.shape_lacks(config, "post") + needs(config, required)


FAMILY = language_family(
    model_type="openai-gpt",
    architecture="OpenAIGPTLMHeadModel",
    bare="OpenAIGPTModel",
    prefix="transformer.",
    embedding="tokens_embed.weight",
    ignored=r"h\.\d+\.attn\.bias|position_ids",
    settings=_settings,
    to_hf_config=_to_hf_config,
    parts=_parts,
    lacks=_lacks,
)
