"""MPNet, the encoder of all-mpnet-base-v2: RoBERTa's positions, and T5's biases by distance.

All layers add one learned number for each head and bucket of distances to their scores. There are
no token types, and the first token has position 2 whatever the id of padding is.
"""

from dataclasses import replace

from headway.interop.config_fields import Key, choice, whole
from headway.interop.encoders.bert import FIELDS, ROBERTA
from headway.interop.hf_config import ACTIVATIONS

FIRST = 2

# the masked-language-modelling head uses GELU, whatever hidden_act is
MPNET = replace(
    ROBERTA,
    model_type="mpnet",
    stem="MPNet",
    prefix="mpnet",
    fields=FIELDS.extended(
        Key(
            "max_position_embeddings",
            "max_length",
            lambda file, _: file.whole("max_position_embeddings", 512) - FIRST,
            lambda config: config.max_length + FIRST,
        ),
        whole("relative_attention_num_buckets", "relative_buckets", 32),
        choice("hidden_act", "activation", {"gelu": ACTIVATIONS["gelu"]}, "gelu"),
        fixed={"first_position": FIRST, "token_types": 0},
        constant={"attention_probs_dropout_prob": 0.0},
    ).without("type_vocab_size"),
    positive=("relative_buckets",),
    distances={"encoder.relative_attention_bias.weight": "positions.table"},
    inside={
        "attention.attn.q": "attention.query",
        "attention.attn.k": "attention.key",
        "attention.attn.v": "attention.value",
        "attention.attn.o": "attention.output",
        "attention.LayerNorm": "around_attention.norm",
        "intermediate.dense": "feedforward.expand",
        "output.dense": "feedforward.contract",
        "output.LayerNorm": "around_feedforward.norm",
    },
    dropouts=("hidden_dropout_prob", "hidden_dropout_prob", None),
)
FAMILIES = (MPNET.family(),)
