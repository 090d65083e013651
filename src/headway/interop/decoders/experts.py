"""Mixtures of experts: Mixtral, Qwen-MoE, OLMoE and gpt-oss.

| family | differs from its dense relative in |
|---|---|
| Mixtral | Mistral whose feed-forward layers are 8 experts; the weights sum to 1 |
| Qwen2-MoE | Qwen2 with many small experts, and one that reads every token |
| Qwen3-MoE | Qwen3 with many small experts |
| OLMoE | Llama with QK-norm over all heads; the probabilities are the weights |
| gpt-oss | Llama with biases, windows, sinks and limits of the activations |
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headway.blocks import Experts
from headway.blocks.feedforward import CLAMPED
from headway.interop.config_fields import Key, Values, number
from headway.interop.decoders.llama import NO_BIAS, all_full, kind_like_llama, like_llama
from headway.interop.decoders.rotary import scaling_or
from headway.interop.decoders.tables import (
    ALL_HEADS,
    ExpertNames,
    Names,
    biases_are,
    biases_of_attention,
    head_width,
    one_width,
)
from headway.interop.decoders.windows import all_or_none, layer_types, only, shortest
from headway.interop.hf_config import HFConfig
from headway.models import GPTConfig

WIDTH, SHARED, NORMED = "moe_intermediate_size", "shared_expert_intermediate_size", "norm_topk_prob"


def _experts(total: str, defaults: tuple[int, int], **others: int) -> tuple[Key, ...]:
    """The keys of experts. total: the key of E. defaults: E and k if keys are missing. others: the
    keys that a family has, of WIDTH, SHARED and NORMED, and their defaults."""

    def read(file: HFConfig, fields: Values) -> Experts:
        sums_to_1 = NORMED not in others or file.flag(NORMED, bool(others[NORMED]))
        return Experts(
            total=file.whole(total, file.whole("num_local_experts", defaults[0])),
            chosen=file.whole("num_experts_per_tok", defaults[1]),
            ffn_dim=file.whole(WIDTH, others[WIDTH]) if WIDTH in others else None,
            shared_dim=file.whole(SHARED, others[SHARED]) if SHARED in others else 0,
            weights="sum-to-1" if sums_to_1 else "probabilities",
            layers=_layers(file, int(fields["num_layers"])) if WIDTH in others else "e",
            balance=file.number(
                "router_aux_loss_coef",
                0.01 if total == "num_experts" and WIDTH not in others else 0.001,
            ),
        )

    written: dict[str, Callable[[Any], object]] = {
        "num_experts_per_tok": lambda config: config.experts.chosen,
        "router_aux_loss_coef": lambda config: config.experts.balance,
        WIDTH: lambda config: config.experts.ffn_dim or config.ffn_dim,
        SHARED: lambda config: config.experts.shared_dim,
        NORMED: lambda config: config.experts.weights == "sum-to-1",
        "mlp_only_layers": _dense_layers,
    }
    has = {"num_experts_per_tok", "router_aux_loss_coef", *others}
    has |= {"mlp_only_layers"} if WIDTH in others else set()
    return (
        Key(total, "experts", read, lambda config: config.experts.total),
        *(Key(key, "", _nothing, write) for key, write in written.items() if key in has),
    )


def _nothing(file: HFConfig, fields: Values) -> None:
    return None


def _layers(file: HFConfig, count: int) -> str:
    """Return the letters of the layers: e, or d for those that are dense."""
    step, dense = file.whole("decoder_sparse_step", 1), file.values.get("mlp_only_layers", [])
    if not isinstance(dense, list) or not {*dense} <= {*range(count)}:
        raise file.refusal("mlp_only_layers", dense, f"a list of layers from 0 to {count - 1}")
    has_experts = ((n + 1) % step == 0 and n not in dense for n in range(count))
    return shortest("".join("e" if has else "d" for has in has_experts))


def _dense_layers(config: GPTConfig) -> list[int]:
    return [n for n in range(config.num_layers) if not config.experts.are_in(n)]


def _have(
    *, shared: bool = False, small: bool = False, sums_to_1: bool = False
) -> Callable[[GPTConfig], list[str]]:
    """Return the check that a model has the experts of a family: one that reads every token, small
    ones in some layers, weights that sum to 1."""

    def lacks(config: GPTConfig) -> list[str]:
        experts = config.experts
        fits = {
            f"total={experts.total}": experts.total > 0,
            f"shared_dim={experts.shared_dim}": bool(experts.shared_dim) == shared,
            f"ffn_dim={experts.ffn_dim}": (experts.ffn_dim or config.ffn_dim) == config.ffn_dim,
            f"layers={experts.layers}": set(experts.layers) == {"e"},
            f"weights={experts.weights}": not sums_to_1 or experts.weights == "sum-to-1",
        }
        if small:
            del fits[f"ffn_dim={experts.ffn_dim}"], fits[f"layers={experts.layers}"]
        return [f"experts.{name}" for name, is_fit in fits.items() if not is_fit]

    return lacks


MIXTRAL = kind_like_llama(
    "mixtral",
    "Mixtral",
    like_llama(8, 1_000_000.0, intermediate_size=14_336, max_position_embeddings=131_072).extended(
        head_width(),
        *all_or_none(),
        *_experts("num_local_experts", (8, 2)),
        number("rms_norm_eps", "norm_eps", 1e-5),
        fixed={"qk_norm": False, **NO_BIAS},
    ),
    Names(
        experts=ExpertNames(
            router="block_sparse_moe.gate",
            expert="block_sparse_moe.experts.{}.",
            inside={"w1": "gate", "w3": "expand", "w2": "contract"},
        )
    ),
    _have(sums_to_1=True),
).family()
_NO_WINDOWS = {"use_sliding_window": False}
QWEN2_MOE = kind_like_llama(
    "qwen2_moe",
    "Qwen2Moe",
    like_llama(
        16,
        vocab_size=151_936,
        hidden_size=2048,
        intermediate_size=5632,
        num_hidden_layers=24,
        num_attention_heads=16,
        max_position_embeddings=32_768,
    ).extended(
        head_width(),
        *_experts("num_experts", (60, 4), **{WIDTH: 1408, SHARED: 5632, NORMED: 0}),
        biases_of_attention("qkv_bias", "qkv", True),
        fixed={"qk_norm": False, "bias": False},
        expected=_NO_WINDOWS,
        constant=_NO_WINDOWS,
        check=all_full,
    ),
    Names(),
    biases_are("none", "qkv"),
    one_width,
    _have(shared=True, small=True),
).family()
QWEN3_MOE = kind_like_llama(
    "qwen3_moe",
    "Qwen3Moe",
    like_llama(
        4,
        vocab_size=151_936,
        hidden_size=2048,
        intermediate_size=6144,
        num_hidden_layers=24,
        num_attention_heads=32,
        max_position_embeddings=32_768,
    ).extended(
        head_width(),
        *_experts("num_experts", (128, 8), **{WIDTH: 768, NORMED: 0}),
        biases_of_attention("attention_bias", "all"),
        fixed={"qk_norm": True, "qk_norm_over": "head", "bias": False},
        expected=_NO_WINDOWS,
        constant=_NO_WINDOWS,
        check=all_full,
    ),
    Names(),
    biases_are("none", "all"),
    _have(small=True),
).family()
OLMOE = kind_like_llama(
    "olmoe",
    "Olmoe",
    like_llama(
        vocab_size=50_304,
        hidden_size=2048,
        intermediate_size=2048,
        num_hidden_layers=16,
        num_attention_heads=16,
        max_position_embeddings=4096,
    ).extended(
        *_experts("num_experts", (64, 8), **{NORMED: 0}),
        biases_of_attention("attention_bias", "all"),
        number("rms_norm_eps", "norm_eps", 1e-5),
        fixed={"qk_norm": True, "qk_norm_over": "all", "bias": False},
    ),
    Names(qk=ALL_HEADS),
    biases_are("none", "all"),
    one_width,
    _have(),
).family()


_YARN = {"rope_type": "yarn", "factor": 32.0, "truncate": False}
_YARN |= {"beta_fast": 32.0, "beta_slow": 1.0, "original_max_position_embeddings": 4096}


def _in_floats_or_mxfp4(file: HFConfig, fields: Values) -> None:
    """Raise DataError for weights in other numbers."""
    numbers = file.values.get("quantization_config", {"quant_method": "mxfp4"})
    if not isinstance(numbers, dict) or numbers.get("quant_method") != "mxfp4":
        raise file.refusal("quantization_config", numbers, "mxfp4, or no such key")


GPT_OSS = replace(
    kind_like_llama(
        "gpt_oss",
        "GptOss",
        like_llama(
            8,
            150_000.0,
            vocab_size=201_088,
            hidden_size=2880,
            intermediate_size=2880,
            num_hidden_layers=36,
            num_attention_heads=64,
            max_position_embeddings=131_072,
        ).extended(
            head_width(64),
            *layer_types(lambda file, count: ("lg" * count)[:count], size=128),
            *_experts("num_local_experts", (128, 4)),
            biases_of_attention("attention_bias", "all", True),
            number("rms_norm_eps", "norm_eps", 1e-5),
            scaling_or(_YARN),
            fixed={"activation": CLAMPED, "sinks": True, "qk_norm": False, "bias": True},
            expected={"swiglu_limit": 7.0, "swiglu_alpha": 1.702},
            constant={"swiglu_limit": 7.0},
            check=_in_floats_or_mxfp4,
        ),
        Names(experts=ExpertNames(router="mlp.router")),
        biases_are("none", "all"),
        only("gl"),
        _have(sums_to_1=True),
    ),
    has_fused_experts=True,
).family()
FAMILIES = (MIXTRAL, QWEN2_MOE, QWEN3_MOE, OLMOE, GPT_OSS)
