"""DistilBERT (`DistilBertModel` and its heads): BERT without token types and pooler."""

from __future__ import annotations

from typing import Any

from headway.interop.encoders import DEEPEST, EMBEDDING, Names, encoder_family
from headway.interop.hf_config import ACTIVATION_NAMES, ACTIVATIONS, HFConfig
from headway.interop.weight_names import needs
from headway.models import BertConfig

EPS = 1e-12  # fixed in transformers

_NAMES = Names(
    stem="DistilBert",
    classes={"Model": (False, False), "ForMaskedLM": (True, False)},
    layer="transformer.layer.{}",
    inside={
        "attention.q_lin": "attention.query",
        "attention.k_lin": "attention.key",
        "attention.v_lin": "attention.value",
        "attention.out_lin": "attention.output",
        "sa_layer_norm": "around_attention.norm",
        "ffn.lin1": "feedforward.expand",
        "ffn.lin2": "feedforward.contract",
        "output_layer_norm": "around_feedforward.norm",
    },
    pooler="",
    root="vocab_",
    words={
        "vocab_transform": "masked_lm_head.transform",
        "vocab_layer_norm": "masked_lm_head.norm",
    },
    bias="vocab_projector.bias",
    copies={"vocab_projector.weight": EMBEDDING},
    pooled="pre_classifier",
    pooling="relu",
    dropouts=("seq_classif_dropout", "dropout", 0.2),
)


def _settings(hf_config: HFConfig) -> dict[str, Any]:
    """Return the fields of `BertConfig`. Sinusoidal positions are stored in the file as a table, as
    learned ones are."""
    hf_config.must_be("pruned_heads", {})
    return {
        "vocabulary": hf_config.whole("vocab_size"),
        "model_dim": hf_config.whole("dim"),
        "num_layers": hf_config.whole("n_layers", below=DEEPEST),
        "num_heads": hf_config.whole("n_heads"),
        "ffn_dim": hf_config.whole("hidden_dim"),
        "max_length": hf_config.whole("max_position_embeddings", 512),
        "token_types": 0,
        "norm_eps": EPS,
        "dropout": hf_config.number("dropout", 0.1, high=1.0),
        "activation": hf_config.choice("activation", ACTIVATIONS, "gelu"),
    }


def _to_hf_config(config: BertConfig) -> dict[str, Any]:
    return {
        "vocab_size": config.vocabulary,
        "dim": config.model_dim,
        "n_layers": config.num_layers,
        "n_heads": config.num_heads,
        "hidden_dim": config.ffn_dim,
        "max_position_embeddings": config.max_length,
        "sinusoidal_pos_embds": False,
        "dropout": config.dropout,
        "attention_dropout": 0.0,
        "qa_dropout": 0.0,
        "activation": ACTIVATION_NAMES[config.activation],
    }


def _lacks(config: BertConfig) -> list[str]:
    return needs(
        config,
        {
            "token_types": (0,),
            "first_position": (0,),
            "norm_eps": (EPS,),
            "embedding_dim": (None, config.model_dim),
            "shared_layers": (False,),
        },
    )


FAMILY = encoder_family(
    model_type="distilbert",
    names=_NAMES,
    settings=_settings,
    to_hf_config=_to_hf_config,
    lacks=_lacks,
)
