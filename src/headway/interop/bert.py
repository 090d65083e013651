"""BERT (`BertModel` and its heads): post-norm, learned positions, a pooler on [CLS]."""

from __future__ import annotations

from typing import Any

from headway.interop import encoders
from headway.interop.encoders import EMBEDDING, Names, encoder_family, hf_encoder_config
from headway.interop.hf_config import ACTIVATIONS, HFConfig
from headway.interop.weight_names import needs
from headway.models import BertConfig

INSIDE = {
    "attention.self.query": "attention.query",
    "attention.self.key": "attention.key",
    "attention.self.value": "attention.value",
    "attention.output.dense": "attention.output",
    "attention.output.LayerNorm": "around_attention.norm",
    "intermediate.dense": "feedforward.expand",
    "output.dense": "feedforward.contract",
    "output.LayerNorm": "around_feedforward.norm",
}
"""The layers of a block, theirs -> ours; RoBERTa has the same names."""

_NAMES = Names(
    stem="Bert",
    classes={
        "Model": (False, False),
        "ForPreTraining": (True, True),
        "ForMaskedLM": (True, False),
        "ForNextSentencePrediction": (False, True),
    },
    layer="encoder.layer.{}",
    inside=INSIDE,
    pooler="pooler.dense",
    root="cls.predictions.",
    words={
        "cls.predictions.transform.dense": "masked_lm_head.transform",
        "cls.predictions.transform.LayerNorm": "masked_lm_head.norm",
    },
    bias="cls.predictions.bias",
    copies={
        "cls.predictions.decoder.weight": EMBEDDING,
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    follows="cls.seq_relationship",
    pooled="pooler.dense",
)


def _settings(hf_config: HFConfig) -> dict[str, Any]:
    activation = hf_config.choice("hidden_act", ACTIVATIONS, "gelu")
    return {**encoders.settings(hf_config), "activation": activation}


def _lacks(config: BertConfig) -> list[str]:
    model_width = (None, config.model_dim)
    reasons = needs(
        config, {"first_position": (0,), "embedding_dim": model_width, "shared_layers": (False,)}
    )
    if not config.token_types:
        reasons.append("token_types=0 (must be 1 or more)")
    return reasons


FAMILY = encoder_family(
    model_type="bert",
    names=_NAMES,
    settings=_settings,
    to_hf_config=hf_encoder_config,
    lacks=_lacks,
)
