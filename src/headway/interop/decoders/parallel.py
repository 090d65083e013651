"""Families with parallel sublayers: x + attention(norm(x)) + feedforward(norm(x)).

| family | norms of a block | rotary positions | biases |
|---|---|---|---|
| GPT-NeoX (Pythia) | two | the first quarter | all |
| GPT-J | one | adjacent pairs | feed-forward, logits |
| Phi-1, 1.5, 2 | one | the first half | all, logits |
| Cohere (Command R) | one, without shift | adjacent pairs | none |
| Cohere 2 (Command R7B) | one, without shift | in three of four layers, with a window | none |
| StableLM | two, or one in parallel | the first quarter | queries, keys, values |
"""

from headway.interop.config_fields import Fields, Key, choice, flag, number, whole, written
from headway.interop.decoders.kind import Kind
from headway.interop.decoders.llama import kind_like_llama
from headway.interop.decoders.rotary import partial, rotary
from headway.interop.decoders.tables import (
    DENSE,
    JOINED,
    NORMS,
    Names,
    all_of,
    biases_are,
    biases_of_attention,
    groups,
    head_width,
    is_set,
    one_width,
    own_keys,
    sizes,
)
from headway.interop.decoders.windows import every, layer_types, only
from headway.interop.hf_config import ACTIVATIONS
from headway.interop.weight_names import Table
from headway.models import GPTConfig

_PLAIN = {"norm_kind": "layer", "qk_norm": False}
_SHARED: Table = {"input_layernorm": "around_attention.norm"}
_SERIAL = {True: "parallel", False: "pre"}


def _norms(config: GPTConfig) -> Table:
    return _SHARED if config.norm == "parallel-shared" else NORMS


def _heads(config: GPTConfig) -> int:
    return config.num_heads


_NEOX = Names(
    attention={
        "attention.query_key_value": JOINED,
        "attention.dense": "attention.output",
    },
    feedforward=DENSE,
    norms=_norms,
    words="embed_in",
    last="final_layer_norm",
    groups=_heads,
)
NEOX = Kind(
    model_type="gpt_neox",
    architecture="GPTNeoXForCausalLM",
    bare="GPTNeoXModel",
    prefix="gpt_neox.",
    embedding="embed_in.weight",
    head="embed_out.weight",
    ignored=r"layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)",
    fields=sizes(
        "layer_norm_eps",
        1e-5,
        vocab_size=50_432,
        hidden_size=6144,
        intermediate_size=24_576,
        num_hidden_layers=44,
        num_attention_heads=64,
    ).extended(
        *rotary(),
        partial(0.25, "rotary_pct"),
        is_set("use_parallel_residual", "norm", _SERIAL, True),
        choice("hidden_act", "activation", ACTIVATIONS, "gelu"),
        number("hidden_dropout", "dropout", 0.0, 1.0),
        biases_of_attention("attention_bias", "all", True),
        written("rotary_emb_base", "rotary_base"),
        fixed={**_PLAIN, "bias": True},
    ),
    parts=_NEOX.parts,
    lacks=all_of(own_keys, one_width, biases_are("none", "all")),
).family()

_GPTJ = Names(
    attention={
        "attn.q_proj": "attention.query",
        "attn.k_proj": "attention.key",
        "attn.v_proj": "attention.value",
        "attn.out_proj": "attention.output",
    },
    feedforward={"mlp.fc_in": "feedforward.expand", "mlp.fc_out": "feedforward.contract"},
    norms=lambda config: {"ln_1": "around_attention.norm"},
    words="wte",
    last="ln_f",
    block="h.{}.",
)
_LOGIT_BIAS = {"output_bias": True, "norm": "parallel-shared", **_PLAIN}
GPTJ = Kind(
    model_type="gptj",
    architecture="GPTJForCausalLM",
    bare="GPTJModel",
    prefix="transformer.",
    embedding="wte.weight",
    ignored=r"h\.\d+\.attn\.(bias|masked_bias|embed_positions)",
    fields=Fields(
        keys=(
            whole("vocab_size", "vocabulary", 50_400),
            whole("n_positions", "max_length", 2048),
            whole("n_embd", "model_dim", 4096),
            whole("n_layer", "num_layers", 28),
            whole("n_head", "num_heads", 16),
            whole("n_inner", "ffn_dim", lambda fields: 4 * int(fields["model_dim"])),
            number("layer_norm_epsilon", "norm_eps", 1e-5),
            number("resid_pdrop", "dropout", 0.0, 1.0),
            written("embd_pdrop", "dropout"),
            choice("activation_function", "activation", ACTIVATIONS, "gelu_new"),
            flag("tie_word_embeddings", "tie_output", False),
            Key(
                "rotary_dim",
                "rotary_fraction",
                lambda file, fields: (
                    file.whole("rotary_dim", 64)
                    * int(fields["num_heads"])
                    / int(fields["model_dim"])
                ),
                lambda config: config.rotated,
            ),
        ),
        fixed={
            "attention": "scaled-dot",
            "positions": "rotary",
            "rotary_pairs": "adjacent",
            "rotary_base": 10_000.0,
            "bias": True,
            "attention_bias": "none",
            **_LOGIT_BIAS,
        },
        constant={"attn_pdrop": 0.0},
    ),
    parts=_GPTJ.parts,
    lacks=all_of(own_keys, one_width),
).family()

_PHI = Names(
    attention={
        "self_attn.q_proj": "attention.query",
        "self_attn.k_proj": "attention.key",
        "self_attn.v_proj": "attention.value",
        "self_attn.dense": "attention.output",
    },
    feedforward={"mlp.fc1": "feedforward.expand", "mlp.fc2": "feedforward.contract"},
    norms=_norms,
    last="final_layernorm",
)
PHI = kind_like_llama(
    "phi",
    "Phi",
    sizes(
        "layer_norm_eps",
        1e-5,
        vocab_size=51_200,
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=24,
    ).extended(
        groups(),
        *rotary(),
        partial(0.5),
        choice("hidden_act", "activation", ACTIVATIONS, "gelu_new"),
        number("resid_pdrop", "dropout", 0.0, 1.0),
        written("embd_pdrop", "dropout"),
        fixed={"bias": True, "attention_bias": "same", **_LOGIT_BIAS},
        expected={"qk_layernorm": False},
    ),
    _PHI,
    one_width,
).family()

COHERE_KEYS = (
    groups(),
    number("logit_scale", "logit_scale", 0.0625),
    biases_of_attention("attention_bias", "all"),
)
_COHERE_SIZES = sizes(
    "layer_norm_eps",
    1e-5,
    tied=True,
    vocab_size=256_000,
    hidden_size=8192,
    intermediate_size=22_528,
    num_hidden_layers=40,
    num_attention_heads=64,
    max_position_embeddings=8192,
)
_COHERE = {
    "norm": "parallel-shared",
    "norm_kind": "layer-gain",
    "qk_norm": False,
    "bias": False,
    "rotary_pairs": "adjacent",
    "activation": "swiglu",
}
_SILU = {"hidden_act": "silu"}
COHERE = kind_like_llama(
    "cohere",
    "Cohere",
    _COHERE_SIZES.extended(
        *COHERE_KEYS,
        head_width(),
        *rotary(500_000.0),
        fixed=_COHERE,
        expected={**_SILU, "use_qk_norm": False},
        constant=_SILU,
    ),
    Names(norms=_norms),
    biases_are("none", "all"),
).family()
COHERE2 = kind_like_llama(
    "cohere2",
    "Cohere2",
    _COHERE_SIZES.extended(
        *COHERE_KEYS,
        head_width(128),
        *rotary(),
        *layer_types(lambda file, count: every(4)(file, count).replace("g", "G"), letters="Gl"),
        fixed=_COHERE,
        expected=_SILU,
        constant=_SILU,
    ),
    Names(norms=_norms),
    biases_are("none", "all"),
    only("Gl"),
).family()

STABLELM = kind_like_llama(
    "stablelm",
    "StableLm",
    sizes(
        "layer_norm_eps",
        1e-5,
        vocab_size=50_304,
        hidden_size=2560,
        intermediate_size=6912,
        max_position_embeddings=4096,
    ).extended(
        groups(),
        *rotary(),
        partial(0.25),
        is_set("use_parallel_residual", "norm", {True: "parallel-shared", False: "pre"}, False),
        biases_of_attention("use_qkv_bias", "qkv"),
        number("hidden_dropout", "dropout", 0.0, 1.0),
        fixed={**_PLAIN, "bias": False, "activation": "swiglu"},
        expected={**_SILU, "qk_layernorm": False},
        constant=_SILU,
    ),
    Names(norms=_norms),
    biases_are("none", "qkv"),
    one_width,
).family()

FAMILIES = (NEOX, GPTJ, PHI, COHERE, COHERE2, STABLELM)
