"""ModernBERT and NomicBERT: rotary positions, gates, and layers that attend to a window.

| family | differs from BERT in |
|---|---|
| NomicBERT | rotary positions, SwiGLU, no biases but those of norms |
| ModernBERT | pre-norm, GeGLU, windows in two of three layers with a rotary base of their own |
"""

from headway.interop.config_fields import Fields, Key, Values, choice, number, probability, whole
from headway.interop.decoders.rotary import FULL, LOCAL, base_of
from headway.interop.decoders.windows import layer_types
from headway.interop.encoders.bert import DEEPEST
from headway.interop.encoders.kind import EMBEDDING, EncoderKind
from headway.interop.hf_config import HFConfig
from headway.models import BertConfig

_SIZES = (
    whole("vocab_size", "vocabulary"),
    whole("hidden_size", "model_dim"),
    whole("num_hidden_layers", "num_layers", below=DEEPEST),
    whole("num_attention_heads", "num_heads"),
    whole("intermediate_size", "ffn_dim"),
)
_FIXED = {"positions": "rotary", "attention": "scaled-dot", "bias": False, "relative_buckets": 0}


def _every_third(file: HFConfig, count: int) -> str:
    step = file.whole("global_attn_every_n_layers", 3)
    return "".join("l" if n % step else "g" for n in range(count))


def _parameters(config: BertConfig) -> dict[str, object]:
    bases = {FULL: config.rotary_base, LOCAL: config.local_rotary_base}
    return {
        kind: {"rope_type": "default", "rope_theta": base or config.rotary_base}
        for kind, base in bases.items()
    }


# half of local_attention is the largest distance at which a token is attended to
_MODERN = Fields(
    keys=(
        *_SIZES,
        whole("max_position_embeddings", "max_length", 8192),
        number("norm_eps", "norm_eps", 1e-5),
        probability("mlp_dropout", "dropout", 0.0),
        choice("hidden_activation", "activation", {"gelu": "geglu-exact"}, "gelu"),
        layer_types(_every_third)[0],
        Key(
            "local_attention",
            "window",
            lambda file, _: file.whole("local_attention", 128) // 2 + 1,
            lambda config: 2 * (config.window - 1),
        ),
        Key(
            "global_rope_theta",
            "rotary_base",
            lambda file, _: base_of(file, FULL, file.number("global_rope_theta", 160_000.0, 1.0)),
            lambda config: config.rotary_base,
        ),
        Key(
            "local_rope_theta",
            "local_rotary_base",
            lambda file, _: base_of(file, LOCAL, file.number("local_rope_theta", 10_000.0, 1.0)),
            lambda config: config.local_rotary_base or config.rotary_base,
        ),
        Key("rope_parameters", "", lambda file, _: None, _parameters),
    ),
    fixed={
        **_FIXED,
        "norm": "pre",
        "norm_kind": "layer-gain",
        "first_norm": False,
        "head_bias": False,
        "token_types": 0,
    },
    expected={
        "norm_bias": False,
        "attention_bias": False,
        "mlp_bias": False,
        "decoder_bias": True,
        "classifier_bias": False,
        "classifier_activation": "gelu",
    },
    constant={"attention_dropout": 0.0, "embedding_dropout": 0.0},
)
MODERNBERT = EncoderKind(
    model_type="modernbert",
    stem="ModernBert",
    prefix="model",
    fields=_MODERN,
    classes={"Model": (), "ForMaskedLM": ("masked_lm_head",)},
    embedding="embeddings.tok_embeddings.weight",
    embedding_norm="embeddings.norm",
    layer="layers.{}",
    inside={
        "attn_norm": "around_attention.norm",
        "attn.Wqkv": ("attention.query", "attention.key", "attention.value"),
        "attn.Wo": "attention.output",
        "mlp_norm": "around_feedforward.norm",
        "mlp.Wi": ("feedforward.gate", "feedforward.expand"),
        "mlp.Wo": "feedforward.contract",
    },
    last="final_norm",
    pooler="",
    root="decoder.",
    words={"head.dense": "masked_lm_head.transform", "head.norm": "masked_lm_head.norm"},
    bias="decoder.bias",
    copies={"decoder.weight": "embeddings.tok_embeddings.weight"},
    pooled={"head.dense": "pooler.project", "head.norm": "pooler.norm"},
    pooling="gelu-norm",
    answers="classifier",
    classifier_pooling="classifier_pooling",
)


def _one_base(config: BertConfig) -> dict[str, object]:
    return {"rope_type": "default", "rope_theta": config.rotary_base}


NOMIC = EncoderKind(
    model_type="nomic_bert",
    stem="NomicBert",
    fields=Fields(
        keys=(
            *_SIZES,
            whole("max_position_embeddings", "max_length", 2048),
            whole("type_vocab_size", "token_types", 2),
            number("layer_norm_eps", "norm_eps", 1e-12),
            probability("hidden_dropout_prob", "dropout", 0.0),
            choice("hidden_act", "activation", {"silu": "swiglu"}, "silu"),
            Key(
                "rope_theta",
                "rotary_base",
                lambda file, _: base_of(file, FULL, 1000.0),
                lambda config: config.rotary_base,
            ),
            Key("rope_parameters", "", lambda file, _: None, _one_base),
        ),
        fixed={**_FIXED, "norm": "post", "norm_kind": "layer", "first_norm": True},
        constant={"attention_probs_dropout_prob": 0.0, "pad_token_id": 0},  # null is refused
        check=lambda file, fields: _whole_heads(file, fields),
    ),
    positive=("token_types",),
    classes={"Model": (), "ForMaskedLM": ("masked_lm_head",)},
    embedding_norm="emb_ln",
    layer="encoder.layers.{}",
    inside={
        "attn.Wqkv": ("attention.query", "attention.key", "attention.value"),
        "attn.out_proj": "attention.output",
        "norm1": "around_attention.norm",
        "mlp.fc11": "feedforward.expand",
        "mlp.fc12": "feedforward.gate",
        "mlp.fc2": "feedforward.contract",
        "norm2": "around_feedforward.norm",
    },
    pooler="pooler.dense",
    root="cls.predictions.",
    words={
        "cls.predictions.transform.dense": "masked_lm_head.transform",
        "cls.predictions.transform.layer_norm": "masked_lm_head.norm",
    },
    bias="cls.predictions.bias",
    copies={
        "cls.predictions.decoder.weight": EMBEDDING,
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    pooled={"pooler.dense": "pooler.project"},
)


def _whole_heads(file: HFConfig, fields: Values) -> None:
    width = int(fields["model_dim"]) // int(fields["num_heads"])
    file.must_be("head_dim", width)


FAMILIES = (MODERNBERT.family(), NOMIC.family())
