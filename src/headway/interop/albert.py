"""ALBERT (`AlbertModel` and its heads): all layers share one block; factorised embeddings."""

from __future__ import annotations

from typing import Any

from headway.interop import encoders
from headway.interop.encoders import EMBEDDING, Names, encoder_family, hf_encoder_config
from headway.interop.hf_config import ACTIVATIONS, HFConfig
from headway.interop.weight_names import needs
from headway.models import BertConfig

_NAMES = Names(
    stem="Albert",
    classes={"Model": (False, False), "ForPreTraining": (True, True), "ForMaskedLM": (True, False)},
    layer="encoder.albert_layer_groups.{}.albert_layers.0",
    inside={
        "attention.query": "attention.query",
        "attention.key": "attention.key",
        "attention.value": "attention.value",
        "attention.dense": "attention.output",
        "attention.LayerNorm": "around_attention.norm",
        "ffn": "feedforward.expand",
        "ffn_output": "feedforward.contract",
        "full_layer_layer_norm": "around_feedforward.norm",
    },
    pooler="pooler",
    root="predictions.",
    words={
        "predictions.dense": "masked_lm_head.transform",
        "predictions.LayerNorm": "masked_lm_head.norm",
    },
    bias="predictions.bias",
    copies={
        "predictions.decoder.weight": EMBEDDING,
        "predictions.decoder.bias": "predictions.bias",
    },
    follows="sop_classifier.classifier",
    pooled="pooler",
    dropouts=("classifier_dropout_prob", "classifier_dropout_prob", 0.1),
    widen="encoder.embedding_hidden_mapping_in",
)


def _settings(hf_config: HFConfig) -> dict[str, Any]:
    hf_config.must_be("num_hidden_groups", 1)
    hf_config.must_be("inner_group_num", 1)
    settings = {
        **encoders.settings(hf_config),
        "activation": hf_config.choice("hidden_act", ACTIVATIONS, "gelu_new"),
        "embedding_dim": hf_config.whole("embedding_size", 128),
        "shared_layers": True,
        "dropout": hf_config.number("hidden_dropout_prob", 0.0, high=1.0),
    }
    if settings["embedding_dim"] == settings["model_dim"]:
        raise hf_config.refusal(
            "embedding_size", settings["model_dim"], "different from hidden_size"
        )
    return settings


def _to_hf_config(config: BertConfig) -> dict[str, Any]:
    return {
        **hf_encoder_config(config),
        "embedding_size": config.embedding_width,
        "num_hidden_groups": 1,
        "inner_group_num": 1,
    }


def _lacks(config: BertConfig) -> list[str]:
    reasons = needs(config, {"first_position": (0,), "shared_layers": (True,)})
    if config.embedding_width == config.model_dim:
        reasons.append(f"embedding_dim={config.embedding_dim} (must be different from model_dim)")
    if not config.token_types:
        reasons.append("token_types=0 (must be 1 or more)")
    return reasons


FAMILY = encoder_family(
    model_type="albert", names=_NAMES, settings=_settings, to_hf_config=_to_hf_config, lacks=_lacks
)
