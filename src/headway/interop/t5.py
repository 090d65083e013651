"""T5, T5 v1.1, Flan-T5 and mT5 (`T5ForConditionalGeneration`): relative positions, no biases.

Pre-norm with RMSNorm, scores that are not scaled, one table of distances in each stack. v1.0 ties
the output projection to the embedding and divides the vectors before it by sqrt(D); v1.1 and mT5
have a separate output projection and a gated feed-forward layer. Raffel et al. 2020; Shazeer 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from headway.interop.hf_config import HFConfig
from headway.interop.weight_names import Architecture, Family, Part, needs
from headway.models import TranslatorConfig

HEAD = "lm_head.weight"
ACTIVATIONS: Mapping[str, Any] = {
    "relu": "relu",
    "gated-gelu": "geglu",
    "gated-silu": "swiglu",
    "gelu": "gelu",
    "silu": "silu",
}
"""Values of `feed_forward_proj` -> ours; the gate of T5's gated-gelu has the tanh form."""
ACTIVATION_NAMES = {ours: theirs for theirs, ours in ACTIVATIONS.items()}
_DENSE = {"relu": "relu", "geglu": "gelu_new", "swiglu": "silu", "gelu": "gelu", "silu": "silu"}
_SETTINGS: Mapping[str, Any] = {
    "norm": "pre",
    "norm_kind": "rms",
    "bias": False,
    "attention": "dot",
    "positions": "relative",
    "scale_embeddings": False,
    "embedding_norm": False,
    "output_bias": False,
    "share_embeddings": True,
}
_BUCKETS, _FARTHEST = 32, 128


def _parts(config: TranslatorConfig) -> Iterator[Part]:
    yield Part("shared.weight", ("source_embedding.tokens.weight",))
    for side in ("encoder", "decoder"):
        table = "SelfAttention.relative_attention_bias.weight"
        ours = f"{side}.blocks.0.attention.positions.table"
        yield Part(f"{side}.block.0.layer.0.{table}", (ours,))
        count = config.encoder_layers if side == "encoder" else config.decoder_layers
        for number in range(count):
            yield from _block(config, side, number)
        yield Part(f"{side}.final_layer_norm.weight", (f"{side}.norm.gain",))
    if not config.tie_output:
        yield Part(HEAD, ("output.weight",))


def _block(config: TranslatorConfig, side: str, number: int) -> Iterator[Part]:
    theirs, ours = f"{side}.block.{number}.layer", f"{side}.blocks.{number}"
    attentions = [("SelfAttention", "attention")]
    if side == "decoder":
        attentions.append(("EncDecAttention", "cross"))
    for place, (name, our_name) in enumerate(attentions):
        for projection in ("query", "key", "value", "output"):
            key = f"{theirs}.{place}.{name}.{projection[0]}.weight"
            yield Part(key, (f"{ours}.{our_name}.{projection}.weight",))
        norm = f"{ours}.around_{our_name}.norm.gain"
        yield Part(f"{theirs}.{place}.layer_norm.weight", (norm,))
    layers = {"wi": "expand", "wo": "contract"}
    if config.activation in ("geglu", "swiglu"):
        layers = {"wi_0": "gate", "wi_1": "expand", "wo": "contract"}
    last = f"{theirs}.{len(attentions)}"
    for name, our_name in layers.items():
        yield Part(
            f"{last}.DenseReluDense.{name}.weight", (f"{ours}.feedforward.{our_name}.weight",)
        )
    yield Part(f"{last}.layer_norm.weight", (f"{ours}.around_feedforward.norm.gain",))


def _config(hf_config: HFConfig, keys: Collection[str]) -> TranslatorConfig:
    """The output projection is tied if the file has none of its own; so it is in transformers."""
    vocabulary = hf_config.whole("vocab_size", 32_128)
    hf_config.must_be("relative_attention_num_buckets", _BUCKETS)
    hf_config.must_be("relative_attention_max_distance", _FARTHEST)
    encoder_layers = hf_config.whole("num_layers", 6)
    scaled = False
    if hf_config.values.get("model_type") != "mt5":  # which never scales
        tied = hf_config.flag("tie_word_embeddings", True)
        scaled = hf_config.flag("scale_decoder_outputs", tied)
    return TranslatorConfig(
        **_SETTINGS,
        model_dim=hf_config.whole("d_model", 512),
        num_heads=hf_config.whole("num_heads", 8),
        head_dim=hf_config.whole("d_kv", 64),
        ffn_dim=hf_config.whole("d_ff", 2048),
        encoder_layers=encoder_layers,
        decoder_layers=hf_config.whole("num_decoder_layers", encoder_layers),
        norm_eps=hf_config.number("layer_norm_epsilon", 1e-6),
        activation=hf_config.choice("feed_forward_proj", ACTIVATIONS, "relu"),
        dropout=hf_config.number("dropout_rate", 0.1, high=1.0),
        tie_output=HEAD not in keys,
        scale_output=scaled,
        source_vocabulary=vocabulary,
        target_vocabulary=vocabulary,
    )


def _to_hf_config(config: TranslatorConfig) -> dict[str, Any]:
    gated = config.activation in ("geglu", "swiglu")
    return {
        "is_encoder_decoder": True,
        "vocab_size": config.source_vocabulary,
        "d_model": config.model_dim,
        "d_kv": config.head_width,
        "d_ff": config.ffn_dim,
        "num_layers": config.encoder_layers,
        "num_decoder_layers": config.decoder_layers,
        "num_heads": config.num_heads,
        "layer_norm_epsilon": config.norm_eps,
        "feed_forward_proj": ACTIVATION_NAMES[config.activation],
        "is_gated_act": gated,
        "dense_act_fn": _DENSE[config.activation],
        "dropout_rate": config.dropout,
        "relative_attention_num_buckets": _BUCKETS,
        "relative_attention_max_distance": _FARTHEST,
        "scale_decoder_outputs": config.scale_output,
        "tie_word_embeddings": config.tie_output,
    }


def _lacks_of_mt5(config: TranslatorConfig) -> list[str]:
    return _lacks(config) + needs(config, {"scale_output": (False,)})


def _lacks(config: TranslatorConfig) -> list[str]:
    required = {
        "encoder": ("transformer",),
        "decoder": ("transformer",),
        "position_dim": (0,),
        "activation": tuple(ACTIVATION_NAMES),
        **{key: (value,) for key, value in _SETTINGS.items()},
    }
    return needs(config, required)


def _tied(config: TranslatorConfig) -> dict[str, str]:
    copies = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"]
    return dict.fromkeys([*copies, HEAD] if config.tie_output else copies, "shared.weight")


def _family(
    model_type: str, architecture: str, lacks: Callable[[TranslatorConfig], list[str]]
) -> Family:
    whole = Architecture(
        names=(architecture,), kind=TranslatorConfig, config=_config, parts=_parts, tied=_tied
    )
    return Family(
        model_type=model_type,
        prefix="",
        heads=".*",
        # a table that old files have in the cross-attention and no version uses
        ignored=r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",
        architectures=(whole,),
        to_hf_config=_to_hf_config,
        lacks=lacks,
        generates=True,
    )


FAMILIES = (
    _family("t5", "T5ForConditionalGeneration", _lacks),
    _family("mt5", "MT5ForConditionalGeneration", _lacks_of_mt5),
)
