"""Families with a norm or a layout of their own: OLMo, StarCoder 2, Falcon, BLOOM, MPT.

| family | norms | positions | biases |
|---|---|---|---|
| OLMo | before, without parameters | rotary | none |
| OLMo 2 | RMSNorm of each sublayer's output, QK-norm over all heads | rotary | none |
| OLMo 3 | as OLMo 2 | rotary, scaled in layers without a window only | none |
| StarCoder 2 | LayerNorm | rotary, a window in all layers | all |
| Falcon | LayerNorm, one or two in parallel | rotary, keys in few groups | none, or all |
| BLOOM | LayerNorm, also of the embedding | ALiBi | all |
| MPT | LayerNorm without shift | ALiBi | none |
"""

from dataclasses import replace

from headway.attention import RotaryScaling
from headway.interop.config_fields import Fields, Key, Values, choice, computed, flag, number, whole
from headway.interop.decoders.kind import Kind
from headway.interop.decoders.llama import NO_BIAS, kind_like_llama, like_llama
from headway.interop.decoders.rotary import rotary, rotary_by_layer
from headway.interop.decoders.tables import (
    ALL_HEADS,
    DENSE,
    JOINED,
    NORMS,
    Names,
    all_of,
    biases_are,
    biases_of_attention,
    groups,
    one_width,
    own_keys,
    sizes,
)
from headway.interop.decoders.windows import all_or_none, layer_types, only
from headway.interop.hf_config import ACTIVATIONS, HFConfig
from headway.interop.weight_names import Table, needs
from headway.models import GPTConfig

_BIAS_OF_ATTENTION = biases_of_attention("attention_bias", "all")
_NO_EPS = {"norm_eps": 1e-5}
FIELDS = like_llama(vocab_size=50_304)
OLMO = kind_like_llama(
    "olmo",
    "Olmo",
    Fields(
        keys=tuple(key for key in FIELDS.keys if key.ours != "norm_eps"),
        fixed={
            **FIELDS.fixed,
            **_NO_EPS,
            "norm_kind": "layer-plain",
            "bias": False,
            "qk_norm": False,
        },
        expected={**FIELDS.expected, "clip_qkv": None},
        constant=FIELDS.constant,
    ).extended(_BIAS_OF_ATTENTION),
    Names(),
    biases_are("none", "all"),
    one_width,
).family()

_INNER: Table = {
    "post_attention_layernorm": "around_attention.norm",
    "post_feedforward_layernorm": "around_feedforward.norm",
}
_OLMO2 = {"norm": "inner", "qk_norm": True, "qk_norm_over": "all", "bias": False}
_OLMO2_NAMES = Names(norms=lambda config: _INNER, qk=ALL_HEADS)
OLMO2 = kind_like_llama(
    "olmo2",
    "Olmo2",
    FIELDS.extended(_BIAS_OF_ATTENTION, number("rms_norm_eps", "norm_eps", 1e-5), fixed=_OLMO2),
    _OLMO2_NAMES,
    biases_are("none", "all"),
    one_width,
).family()


def _scales_no_window(config: GPTConfig) -> list[str]:
    """Return what a family lacks whose layers with a window have positions without scaling."""
    is_scaled = config.rotary_scaling != RotaryScaling()
    return ["local_rotary_base=None"] if is_scaled and config.local_rotary_base is None else []


OLMO3 = kind_like_llama(
    "olmo3",
    "Olmo3",
    like_llama(vocab_size=50_304).extended(
        _BIAS_OF_ATTENTION,
        number("rms_norm_eps", "norm_eps", 1e-5),
        *layer_types(lambda file, count: ("lllg" * count)[:count]),
        *rotary_by_layer(500_000.0, one_base=True),
        fixed=_OLMO2,
    ),
    _OLMO2_NAMES,
    biases_are("none", "all"),
    one_width,
    only("gl"),
    _scales_no_window,
).family()

_STARCODER = Names(
    feedforward={"mlp.c_fc": "feedforward.expand", "mlp.c_proj": "feedforward.contract"}
)
STARCODER2 = kind_like_llama(
    "starcoder2",
    "Starcoder2",
    sizes(
        "norm_epsilon",
        1e-5,
        tied=True,
        vocab_size=49_152,
        hidden_size=3072,
        intermediate_size=12_288,
        num_hidden_layers=30,
        num_attention_heads=24,
        max_position_embeddings=4096,
    ).extended(
        groups(2),
        *rotary(),
        *all_or_none(),
        flag("use_bias", "bias", True),
        choice("hidden_act", "activation", ACTIVATIONS, "gelu_pytorch_tanh"),
        number("residual_dropout", "dropout", 0.0, 1.0),
        flag("tie_word_embeddings", "tie_output", True),
        fixed={"norm": "pre", "norm_kind": "layer", "qk_norm": False, "attention_bias": "same"},
    ),
    _STARCODER,
    one_width,
).family()


def _falcon_norm(file: HFConfig, fields: Values) -> str:
    count = file.values.get("num_ln_in_parallel_attn")
    is_parallel = file.flag("parallel_attn", True)
    if not file.flag("new_decoder_architecture", False):
        return "parallel-shared" if is_parallel else "pre"
    return "parallel-shared" if count == 1 else "parallel"


def _falcon_groups(file: HFConfig, fields: Values) -> int:
    heads = int(fields["num_heads"])
    if file.flag("new_decoder_architecture", False):
        file.flag("multi_query", True)
        return file.whole("num_kv_heads", heads)
    file.values.get("num_kv_heads")
    return 1 if file.flag("multi_query", True) else heads


def _is_new(config: GPTConfig) -> bool:
    return config.norm == "parallel" or config.kv_heads not in (1, config.num_heads)


def _falcon_norms(config: GPTConfig) -> Table:
    if config.norm == "parallel":
        return {"ln_attn": "around_attention.norm", "ln_mlp": "around_feedforward.norm"}
    return NORMS if config.norm == "pre" else {"input_layernorm": "around_attention.norm"}


_FALCON = Names(
    attention={
        "self_attention.query_key_value": JOINED,
        "self_attention.dense": "attention.output",
    },
    feedforward=DENSE,
    norms=_falcon_norms,
    words="word_embeddings",
    words_norm="word_embeddings_layernorm",
    last="ln_f",
    block="h.{}.",
    groups=lambda config: config.kv_heads,
)
FALCON = Kind(
    model_type="falcon",
    architecture="FalconForCausalLM",
    bare="FalconModel",
    prefix="transformer.",
    embedding="word_embeddings.weight",
    ignored=r"h\.\d+\.self_attention\.rotary_emb\.inv_freq",
    fields=sizes(
        "layer_norm_epsilon",
        1e-5,
        tied=True,
        vocab_size=65_024,
        hidden_size=4544,
        num_attention_heads=71,
    ).extended(
        Key("num_kv_heads", "num_kv_heads", _falcon_groups, lambda config: config.kv_heads),
        Key(
            "num_ln_in_parallel_attn",
            "norm",
            _falcon_norm,
            lambda config: {"parallel": 2, "parallel-shared": 1}.get(config.norm),
            ("pre", "parallel", "parallel-shared"),
        ),
        Key("new_decoder_architecture", "", lambda file, _: None, _is_new),
        Key("multi_query", "", lambda file, _: None, lambda c: _is_new(c) or c.kv_heads == 1),
        Key("parallel_attn", "", lambda file, _: None, lambda config: config.norm != "pre"),
        whole("ffn_hidden_size", "ffn_dim", lambda fields: 4 * int(fields["model_dim"])),
        choice("activation", "activation", ACTIVATIONS, "gelu"),
        number("hidden_dropout", "dropout", 0.0, 1.0),
        flag("bias", "bias", False),
        flag("tie_word_embeddings", "tie_output", True),
        *rotary(),
        fixed={"norm_kind": "layer", "qk_norm": False, "attention_bias": "same"},
        expected={"alibi": False},
    ),
    parts=_FALCON.parts,
    lacks=all_of(
        one_width,
        lambda config: (
            ["num_kv_heads and norm=pre"] if _is_new(config) and config.norm == "pre" else []
        ),
    ),
).family()

_ALIBI = {"attention": "scaled-dot", "positions": "alibi", "norm": "pre", "qk_norm": False}


_BLOOM = replace(_FALCON, norms=lambda config: NORMS, groups=lambda config: config.num_heads)
BLOOM = Kind(
    model_type="bloom",
    architecture="BloomForCausalLM",
    bare="BloomModel",
    prefix="transformer.",
    embedding="word_embeddings.weight",
    ignored=r"h\.\d+\.self_attention\.mask",
    fields=Fields(
        keys=(
            whole("vocab_size", "vocabulary", 250_880),
            whole("hidden_size", "model_dim", 64),
            whole("n_layer", "num_layers", 2),
            whole("n_head", "num_heads", 8),
            whole("seq_length", "max_length", 2048),
            number("layer_norm_epsilon", "norm_eps", 1e-5),
            number("hidden_dropout", "dropout", 0.0, 1.0),
            flag("tie_word_embeddings", "tie_output", True),
            computed("ffn_dim", lambda fields: 4 * int(fields["model_dim"])),
        ),
        fixed={
            **_ALIBI,
            "norm_kind": "layer",
            "bias": True,
            "attention_bias": "same",
            "embedding_norm": True,
            "activation": "gelu-tanh",
        },
        expected={"apply_residual_connection_post_layernorm": False},
        constant={"attention_dropout": 0.0},
    ),
    parts=_BLOOM.parts,
    lacks=all_of(
        own_keys,
        one_width,
        lambda config: needs(config, {"ffn_dim": (4 * config.model_dim,)}),
    ),
).family()

_MPT_ATTENTION: dict[str, object] = {
    "qk_ln": False,
    "clip_qkv": None,
    "softmax_scale": None,
    "alibi": True,
}
_MPT_ATTENTION |= {"prefix_lm": False, "alibi_bias_max": 8}


def _check_mpt(file: HFConfig, fields: Values) -> None:
    inner = file.values.get("attn_config", {})
    if not isinstance(inner, dict):
        raise file.refusal("attn_config", inner, "an object (names and values)")
    for key, expected in _MPT_ATTENTION.items():
        if inner.get(key, expected) != expected:
            raise file.refusal(f"attn_config.{key}", inner.get(key), repr(expected))


_MPT = Names(
    attention={"attn.Wqkv": JOINED, "attn.out_proj": "attention.output"},
    feedforward={"ffn.up_proj": "feedforward.expand", "ffn.down_proj": "feedforward.contract"},
    norms=lambda config: {"norm_1": "around_attention.norm", "norm_2": "around_feedforward.norm"},
    words="wte",
    last="norm_f",
    block="blocks.{}.",
)
MPT = Kind(
    model_type="mpt",
    architecture="MptForCausalLM",
    bare="MptModel",
    prefix="transformer.",
    embedding="wte.weight",
    ignored=r"blocks\.\d+\.attn\.bias",
    fields=Fields(
        keys=(
            whole("vocab_size", "vocabulary", 50_368),
            whole("d_model", "model_dim", 2048),
            whole("n_layers", "num_layers", 24),
            whole("n_heads", "num_heads", 16),
            whole("max_seq_len", "max_length", 2048),
            number("layer_norm_epsilon", "norm_eps", 1e-5),
            number("resid_pdrop", "dropout", 0.0, 1.0),
            flag("tie_word_embeddings", "tie_output", True),
            Key(
                "expansion_ratio",
                "ffn_dim",
                lambda file, fields: file.whole("expansion_ratio", 4) * int(fields["model_dim"]),
                lambda config: config.ffn_dim // config.model_dim,
            ),
        ),
        fixed={
            **_ALIBI,
            **NO_BIAS,
            "norm_kind": "layer-gain",
            "activation": "gelu",
        },
        expected={"no_bias": True, "logit_scale": None},
        constant={"attn_config": _MPT_ATTENTION, "no_bias": True},
        check=_check_mpt,
    ),
    parts=_MPT.parts,
    lacks=all_of(
        own_keys,
        one_width,
        lambda config: (
            [f"ffn_dim={config.ffn_dim} (must be a multiple of model_dim)"]
            if config.ffn_dim % config.model_dim
            else []
        ),
    ),
).family()

FAMILIES = (OLMO, OLMO2, OLMO3, STARCODER2, FALCON, BLOOM, MPT)
