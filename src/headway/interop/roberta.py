"""RoBERTa and its variants: BERT with positions that start after the id of the padding token."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headway.interop import encoders
from headway.interop.bert import INSIDE
from headway.interop.encoders import EMBEDDING, Names, encoder_family, hf_encoder_config
from headway.interop.hf_config import ACTIVATIONS, HFConfig
from headway.interop.weight_names import Family, needs
from headway.models import BertConfig

_NAMES = Names(
    stem="Roberta",
    classes={"Model": (False, False), "ForMaskedLM": (True, False)},
    layer="encoder.layer.{}",
    inside=INSIDE,
    pooler="pooler.dense",
    root="lm_head.",
    words={
        "lm_head.dense": "masked_lm_head.transform",
        "lm_head.layer_norm": "masked_lm_head.norm",
    },
    bias="lm_head.bias",
    copies={"lm_head.decoder.weight": EMBEDDING, "lm_head.decoder.bias": "lm_head.bias"},
    pooled="classifier.dense",
    classes_layer="classifier.out_proj",
)


def _settings(hf_config: HFConfig) -> dict[str, Any]:
    """Return the fields of `BertConfig`. Their position table starts with unused rows, one for each
    id up to that of padding."""
    settings = encoders.settings(hf_config)
    pad = hf_config.values.get("pad_token_id", 1)
    if type(pad) is not int or not 0 <= pad < settings["max_length"]:
        raise hf_config.refusal("pad_token_id", pad, "an id below max_position_embeddings")
    settings["max_length"] -= pad + 1
    # its masked-language-modelling head uses GELU, whatever hidden_act is
    hf_config.must_be("hidden_act", "gelu")
    return {**settings, "activation": ACTIVATIONS["gelu"], "first_position": pad + 1}


def _to_hf_config(config: BertConfig) -> dict[str, Any]:
    return {
        **hf_encoder_config(config),
        "max_position_embeddings": config.max_length + config.first_position,
        "pad_token_id": config.first_position - 1,
    }


def _lacks(config: BertConfig) -> list[str]:
    model_width = (None, config.model_dim)
    required = {"embedding_dim": model_width, "shared_layers": (False,), "activation": ("gelu",)}
    reasons = needs(config, required)
    for name in ("first_position", "token_types"):
        if not getattr(config, name):
            reasons.append(f"{name}=0 (must be 1 or more)")
    return reasons


def _family(model_type: str, stem: str) -> Family:
    """Return RoBERTa or a variant of it, which has other class names but the same tensor names."""
    family = encoder_family(
        model_type=model_type,
        names=replace(_NAMES, stem=stem),
        settings=_settings,
        to_hf_config=_to_hf_config,
        lacks=_lacks,
    )
    return replace(family, prefix="roberta.")


FAMILY = _family("roberta", "Roberta")
LATER = (_family("xlm-roberta", "XLMRoberta"), _family("camembert", "Camembert"))
"""Conneau et al. 2020 (100 languages), Martin et al. 2020 (French)."""
