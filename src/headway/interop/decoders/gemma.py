"""Gemma: embeddings times sqrt(D), gains of 1 + w, GeGLU, wide heads.

| family | adds |
|---|---|
| Gemma | |
| Gemma 2 | a norm after each sublayer, limits of scores and logits, windows in half of the layers |
| Gemma 3 | QK-norm instead of limits; five of six layers have a window and their own rotary base |
"""

from dataclasses import replace

from headway.interop.config_fields import Fields, Key, choice, computed
from headway.interop.decoders.llama import kind_like_llama
from headway.interop.decoders.rotary import rotary, rotary_by_layer
from headway.interop.decoders.tables import (
    Names,
    biases_are,
    biases_of_attention,
    groups,
    head_width,
    optional,
    sizes,
)
from headway.interop.decoders.windows import every, layer_types, only
from headway.interop.weight_names import Table
from headway.models import GPTConfig

GATES = {"gelu_pytorch_tanh": "geglu", "gelu_new": "geglu", "gelu": "geglu-exact"}
SANDWICH: Table = {
    "input_layernorm": "around_attention.norm",
    "post_attention_layernorm": "around_attention.after_norm",
    "pre_feedforward_layernorm": "around_feedforward.norm",
    "post_feedforward_layernorm": "around_feedforward.after_norm",
}


def _score_scale() -> Key:
    """q . k / sqrt(query_pre_attn_scalar)."""
    return Key(
        "query_pre_attn_scalar",
        "score_scale",
        lambda file, _: file.number("query_pre_attn_scalar", 256.0, low=1e-9) ** -0.5,
        lambda config: _whole(config.score_scale**-2),
    )


def _whole(x: float) -> int | float:
    """Return a whole number for one that is, up to rounding: transformers requires it."""
    return round(x) if abs(x - round(x)) < 1e-6 * x else x


def _scaled_words(config: GPTConfig) -> list[str]:
    root = config.model_dim**0.5
    if config.embedding_scale == root:
        return []
    return [f"embedding_scale={config.embedding_scale} (must be {root:g})"]


def _scaled_scores(config: GPTConfig) -> list[str]:
    return ["score_scale=None (must be a number)"] if config.score_scale is None else []


def _fields(key_heads: int, **defaults: int) -> Fields:
    known = sizes(tied=True, **defaults)  # type: ignore[arg-type]
    return known.extended(
        groups(key_heads),
        head_width(256),
        computed("embedding_scale", lambda fields: int(fields["model_dim"]) ** 0.5),
        biases_of_attention("attention_bias", "all"),
        fixed={"norm_kind": "rms-offset", "bias": False},
        expected={"use_bidirectional_attention": False},
    )


_SIZES = {
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
}
_GATE = choice("hidden_activation", "activation", GATES, "gelu_pytorch_tanh")
_CHECKS = biases_are("none", "all"), _scaled_words

GEMMA = kind_like_llama(
    "gemma",
    "Gemma",
    _fields(
        16,
        vocab_size=256_000,
        hidden_size=3072,
        intermediate_size=24_576,
        num_hidden_layers=28,
        num_attention_heads=16,
        max_position_embeddings=8192,
    ).extended(
        *rotary(),
        choice("hidden_act", "activation", GATES, "gelu_pytorch_tanh"),
        fixed={"norm": "pre", "qk_norm": False},
    ),
    Names(),
    *_CHECKS,
).family()
GEMMA2 = kind_like_llama(
    "gemma2",
    "Gemma2",
    _fields(4, vocab_size=256_000, max_position_embeddings=8192, **_SIZES).extended(
        *rotary(),
        _GATE,
        _score_scale(),
        *layer_types(every(2)),
        optional("attn_logit_softcapping", "score_cap", 50.0),
        optional("final_logit_softcapping", "logit_cap", 30.0),
        fixed={"norm": "sandwich", "qk_norm": False},
    ),
    Names(norms=lambda config: SANDWICH),
    *_CHECKS,
    _scaled_scores,
    only("gl"),
).family()
_GEMMA3 = kind_like_llama(
    "gemma3_text",
    "Gemma3",
    _fields(4, vocab_size=262_208, max_position_embeddings=131_072, **_SIZES).extended(
        *rotary_by_layer(1_000_000.0),
        _GATE,
        _score_scale(),
        *layer_types(every(6)),
        optional("attn_logit_softcapping", "score_cap"),
        optional("final_logit_softcapping", "logit_cap"),
        fixed={"norm": "sandwich", "qk_norm": True, "qk_norm_over": "head"},
    ),
    Names(norms=lambda config: SANDWICH),
    *_CHECKS,
    _scaled_scores,
    only("gl"),
)
GEMMA3 = replace(_GEMMA3, bare="Gemma3TextModel").family()
FAMILIES = (GEMMA, GEMMA2, GEMMA3)
