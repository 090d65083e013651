"""DeBERTa-v3: scores of words with words, words with distances, distances with words.

There are no absolute positions and no token types. DeBERTa-v2's larger models, which have a
convolution beside the first layer or projections of their own for distances, are refused.
"""

from dataclasses import replace

from headway.base.errors import DataError
from headway.interop.config_fields import Values, choice, whole
from headway.interop.encoders.bert import BERT, FIELDS
from headway.interop.hf_config import ACTIVATIONS, HFConfig

_REQUIRED: Values = {
    "relative_attention": True,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
}
_BOTH = {"c2p", "p2c"}


def _is_version_3(file: HFConfig, fields: Values) -> None:
    """Raise DataError unless the keys that make a DeBERTa-v3 are all there."""
    for key, value in _REQUIRED.items():
        if key not in file.values:
            raise DataError(f"the key {key} is missing; DeBERTa-v3 has {key}={value}", file.where)
        file.must_be(key, value)
    kinds = file.values.get("pos_att_type", "")
    names = kinds.split("|") if isinstance(kinds, str) else kinds
    if not isinstance(names, list) or {str(name).strip() for name in names} != _BOTH:
        raise file.refusal("pos_att_type", kinds, "p2c|c2p")
    if file.values.get("type_vocab_size", 0) != 0:
        raise file.refusal("type_vocab_size", file.values["type_vocab_size"], "0")
    longest = file.values.get("max_relative_positions", -1)
    if longest not in (-1, fields["max_length"]):
        raise file.refusal("max_relative_positions", longest, "-1 or max_position_embeddings")


DEBERTA = replace(
    BERT,
    model_type="deberta-v2",
    stem="DebertaV2",
    prefix="deberta",
    fields=FIELDS.extended(
        whole("position_buckets", "relative_buckets", 256),
        choice("hidden_act", "activation", ACTIVATIONS, "gelu"),
        fixed={"positions": "disentangled", "token_types": 0},
        expected={"legacy": True, "conv_kernel_size": 0, "pooler_hidden_act": "gelu"},
        constant={
            **_REQUIRED,
            "pos_att_type": ["p2c", "c2p"],
            "max_relative_positions": -1,
            "type_vocab_size": 0,
            "pooler_dropout": 0.0,
        },
        check=_is_version_3,
    ).without("type_vocab_size"),
    positive=(),
    classes={"Model": (), "ForMaskedLM": ("masked_lm_head",)},
    distances={
        "encoder.rel_embeddings.weight": "distances.table",
        "encoder.LayerNorm.weight": "distances.norm.gain",
        "encoder.LayerNorm.bias": "distances.norm.shift",
    },
    inside={
        "attention.self.query_proj": "attention.query",
        "attention.self.key_proj": "attention.key",
        "attention.self.value_proj": "attention.value",
        "attention.output.dense": "attention.output",
        "attention.output.LayerNorm": "around_attention.norm",
        "intermediate.dense": "feedforward.expand",
        "output.dense": "feedforward.contract",
        "output.LayerNorm": "around_feedforward.norm",
    },
    pooler="",
    follows="",
    pooled={"pooler.dense": "pooler.project"},
    pooling="gelu",
    dropouts=("cls_dropout", "hidden_dropout_prob", None),
    unused=r"(lm|mask)_predictions\..*",
)
FAMILIES = (DEBERTA.family(),)
