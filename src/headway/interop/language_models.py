"""Language models of Hugging Face folders, each a table of config.json and a table of tensors.

| family | norm | positions | feed-forward | tensors |
|---|---|---|---|---|
| GPT-1 (`openai-gpt`) | post, and none at the end | learned | GELU | transposed, q k v joined |
| GPT-2 | pre | learned | GELU | transposed, q k v joined |
| Llama | pre, RMSNorm | rotary | SwiGLU | grouped keys and values |
| Qwen3 | pre, RMSNorm | rotary | SwiGLU | as Llama, with QK-norm: our modern sizes |

Our single dropout is their dropout after each sublayer; we have no dropout on attention weights.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from headway.base.shapes import Tensor
from headway.interop.config_fields import (
    Fields,
    Key,
    Values,
    choice,
    computed,
    flag,
    number,
    probability,
    whole,
    written,
)
from headway.interop.hf_config import ACTIVATIONS, HFConfig
from headway.interop.weight_names import (
    Architecture,
    Family,
    Part,
    Table,
    layers,
    needs,
    none_absent,
)
from headway.models import GPTConfig

HEAD = "lm_head.weight"
POSITIONS = "embedding.positions.table.vectors"
WORDS = "embedding.tokens.weight"
_ROTARY = r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq"


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """A family of GPTs, whose head may be tied to the embedding.

    architecture: the class name of the model with its head; bare: without, in old files. embedding:
    the key of the token embedding, which is also the head if they are tied. parts: yields all
    tensors but the head. lacks: returns the settings that the table of fields cannot check. absent:
    see `Architecture`.
    """

    model_type: str
    architecture: str
    bare: str
    prefix: str
    embedding: str
    ignored: str
    fields: Fields
    parts: Callable[[GPTConfig], Iterator[Part]]
    lacks: Callable[[GPTConfig], list[str]]
    absent: Callable[[HFConfig, Mapping[str, Tensor]], dict[str, Tensor]] = none_absent

    def family(self) -> Family[GPTConfig]:
        whole = Architecture(
            names=(self.architecture, self.bare),
            kind=GPTConfig,
            config=lambda hf_config, keys: GPTConfig(**self.fields.read(hf_config)),
            parts=self._all_parts,
            tied=lambda config: {HEAD: self.embedding} if config.tie_output else {},
            absent=self.absent,
        )
        return Family(
            model_type=self.model_type,
            prefix=self.prefix,
            heads=re.escape(HEAD),
            ignored=self.ignored,
            architectures=(whole,),
            to_hf_config=self.fields.write,
            lacks=lambda config: self.fields.lacks(config) + self.lacks(config),
            generates=True,
        )

    def _all_parts(self, config: GPTConfig) -> Iterator[Part]:
        yield from self.parts(config)
        if not config.tie_output:
            yield Part(HEAD, ("output.weight",))


def _gpt_fields(vocabulary: int, max_length: int, norm: str, activation: Key) -> Fields:
    """Return the table of GPT-1 or GPT-2. The defaults are those of the released models."""
    return Fields(
        keys=(
            whole("vocab_size", "vocabulary", vocabulary),
            whole("n_positions", "max_length", max_length),
            written("n_ctx", "max_length"),
            whole("n_embd", "model_dim", 768),
            whole("n_layer", "num_layers", 12),
            whole("n_head", "num_heads", 12),
            number("layer_norm_epsilon", "norm_eps", 1e-5),
            probability("resid_pdrop", "dropout", 0.1),
            written("embd_pdrop", "dropout"),
            flag("tie_word_embeddings", "tie_output", True),
            activation,
        ),
        fixed={
            "norm": norm,
            "norm_kind": "layer",
            "positions": "learned",
            "attention": "scaled-dot",
            "bias": True,
            "qk_norm": False,
        },
        constant={"attn_pdrop": 0.0},
    )


# Their Conv1D computes x W, our Linear x W^T; their queries, keys and values are one matrix.
_GPT_LAYER: Table = {
    "ln_1": "around_attention.norm",
    "attn.c_attn": ("attention.query", "attention.key", "attention.value"),
    "attn.c_proj": "attention.output",
    "ln_2": "around_feedforward.norm",
    "mlp.c_fc": "feedforward.expand",
    "mlp.c_proj": "feedforward.contract",
}


def _gpt_parts(config: GPTConfig, words: str, positions: str) -> Iterator[Part]:
    """Yield the tensors of GPT-1, which are those of GPT-2 but for the last norm."""
    yield Part(f"{words}.weight", (WORDS,))
    yield Part(f"{positions}.weight", (POSITIONS,))
    for n in range(config.num_layers):
        yield from layers(_GPT_LAYER, f"h.{n}.", f"decoder.blocks.{n}.", transposed=True)


def _gpt2_parts(config: GPTConfig) -> Iterator[Part]:
    yield from _gpt_parts(config, "wte", "wpe")
    yield from layers({"ln_f": "decoder.norm"})


def _heads_lack(config: GPTConfig) -> list[str]:
    """Return the settings of the heads that neither GPT-1 nor GPT-2 have."""
    head_width = config.model_dim // config.num_heads
    widths = (None,) if config.model_dim % config.num_heads else (None, head_width)
    return needs(config, {"num_kv_heads": (None, config.num_heads), "head_dim": widths})


GPT2 = _Kind(
    model_type="gpt2",
    architecture="GPT2LMHeadModel",
    bare="GPT2Model",
    prefix="transformer.",
    embedding="wte.weight",
    ignored=r"h\.\d+\.attn\.(masked_)?bias",
    fields=_gpt_fields(
        50_257,
        1024,
        "pre",
        choice("activation_function", "activation", ACTIVATIONS, "gelu_new"),
    ).extended(
        whole("n_inner", "ffn_dim", lambda fields: 4 * fields["model_dim"]),
        expected={
            "scale_attn_weights": True,
            "scale_attn_by_inverse_layer_idx": False,
            "add_cross_attention": False,
        },
    ),
    parts=_gpt2_parts,
    lacks=_heads_lack,
).family()


# Their "gelu" is the tanh approximation.
_AFN = {"gelu": "gelu-tanh", "relu": "relu", "silu": "silu", "swish": "silu"}
GPT1 = _Kind(
    model_type="openai-gpt",
    architecture="OpenAIGPTLMHeadModel",
    bare="OpenAIGPTModel",
    prefix="transformer.",
    embedding="tokens_embed.weight",
    ignored=r"h\.\d+\.attn\.bias|position_ids",
    fields=_gpt_fields(40_478, 512, "post", choice("afn", "activation", _AFN, "gelu")).extended(
        computed("ffn_dim", lambda fields: 4 * fields["model_dim"])
    ),
    parts=lambda config: _gpt_parts(config, "tokens_embed", "positions_embed"),
    lacks=lambda config: _heads_lack(config) + needs(config, {"ffn_dim": (4 * config.model_dim,)}),
).family()


def _rotary_base(hf_config: HFConfig, fields: Values) -> float:
    """Return the rotary base, from `rope_parameters` (transformers 5) or from `rope_theta` and
    `rope_scaling` (transformers 4)."""
    default = hf_config.number("rope_theta", 10_000.0, low=1.0)
    for key in ("rope_parameters", "rope_scaling"):
        inner = hf_config.values.get(key, {})
        if not isinstance(inner, dict):
            raise hf_config.refusal(key, inner, "an object (names and values)")
        nested = HFConfig(
            {f"{key}.{name}": value for name, value in inner.items()}, hf_config.where
        )
        for name in ("rope_type", "type"):
            nested.must_be(f"{key}.{name}", "default")
        nested.must_be(f"{key}.partial_rotary_factor", 1.0)
        default = nested.number(f"{key}.rope_theta", default, low=1.0)
    return default


def _rotary_parameters(config: GPTConfig) -> dict[str, object]:
    return {"rope_theta": config.rotary_base, "rope_type": "default"}


_BIASES = {"attention_bias": "self_attn", "mlp_bias": "mlp"}


def _check_attention(hf_config: HFConfig, fields: Values) -> None:
    kinds = hf_config.values.get("layer_types", ["full_attention"])
    if not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds):
        raise hf_config.refusal("layer_types", kinds, "a list of full_attention for every layer")


_MODERN = Fields(
    keys=(
        whole("vocab_size", "vocabulary", 32_000),
        whole("max_position_embeddings", "max_length", 2048),
        whole("hidden_size", "model_dim", 4096),
        whole("intermediate_size", "ffn_dim", 11_008),
        whole("num_hidden_layers", "num_layers", 32),
        whole("num_attention_heads", "num_heads", 32),
        whole(
            "num_key_value_heads",
            "num_kv_heads",
            lambda fields: int(fields["num_heads"]),
            source="kv_heads",
        ),
        number("rms_norm_eps", "norm_eps", 1e-6),
        # twice: for transformers 5, and for all other programs
        Key("rope_theta", "rotary_base", _rotary_base, lambda config: config.rotary_base),
        Key("rope_parameters", "", lambda file, _: None, _rotary_parameters),
        flag("tie_word_embeddings", "tie_output", False),
        written("attention_bias", "bias"),
    ),
    fixed={
        "norm": "pre",
        "norm_kind": "rms",
        "activation": "swiglu",
        "positions": "rotary",
        "attention": "scaled-dot",
    },
    expected={"hidden_act": "silu"},
    constant={"hidden_act": "silu", "attention_dropout": 0.0},
    check=_check_attention,
)
_LINEAR = {
    "self_attn.q_proj": "attention.query",
    "self_attn.k_proj": "attention.key",
    "self_attn.v_proj": "attention.value",
    "self_attn.o_proj": "attention.output",
    "mlp.gate_proj": "feedforward.gate",
    "mlp.up_proj": "feedforward.expand",
    "mlp.down_proj": "feedforward.contract",
}
_NORMS = {
    "input_layernorm": "around_attention.norm",
    "post_attention_layernorm": "around_feedforward.norm",
}
_QK_NORMS = {
    "self_attn.q_norm": "attention.query_norm",
    "self_attn.k_norm": "attention.key_norm",
}


def _modern_parts(config: GPTConfig) -> Iterator[Part]:
    yield Part("embed_tokens.weight", (WORDS,))
    norms = _NORMS | _QK_NORMS if config.qk_norm else _NORMS
    for n in range(config.num_layers):
        theirs, ours = f"layers.{n}.", f"decoder.blocks.{n}."
        yield from layers(norms, theirs, ours, biases=False)
        yield from layers(_LINEAR, theirs, ours, biases=config.bias)
    yield from layers({"norm": "decoder.norm"}, biases=False)


def _zero_biases(hf_config: HFConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return biases of 0 for attention or feed-forward layers, if only the others have biases.

    All linear layers of a GPT have biases, or none.
    """
    has_biases = {layer: hf_config.flag(key, False) for key, layer in _BIASES.items()}
    if len(set(has_biases.values())) == 1:
        return {}
    (plain,) = (layer for layer, has_bias in has_biases.items() if not has_bias)
    return {
        f"{name.removesuffix('.weight')}.bias": tensor.new_zeros(len(tensor))
        for name, tensor in tensors.items()
        if f".{plain}." in name and name.endswith("_proj.weight")
    }


def _has_bias(hf_config: HFConfig, fields: Values) -> bool:
    return any([hf_config.flag(key, False) for key in _BIASES])


def _width_lacks(config: GPTConfig) -> list[str]:
    if config.model_dim % config.num_heads:
        return [f"model_dim={config.model_dim} (must be a multiple of num_heads)"]
    return []


LLAMA = _Kind(
    model_type="llama",
    architecture="LlamaForCausalLM",
    bare="LlamaModel",
    prefix="model.",
    embedding="embed_tokens.weight",
    ignored=_ROTARY,
    fields=_MODERN.extended(
        whole(
            "head_dim",
            "head_dim",
            lambda fields: max(1, int(fields["model_dim"]) // int(fields["num_heads"])),
            source="head_width",
        ),
        Key("attention_bias", "bias", _has_bias, lambda config: config.bias),
        written("mlp_bias", "bias"),
        fixed={"qk_norm": False},
    ),
    parts=_modern_parts,
    lacks=_width_lacks,
    absent=_zero_biases,
).family()
QWEN3 = _Kind(
    model_type="qwen3",
    architecture="Qwen3ForCausalLM",
    bare="Qwen3Model",
    prefix="model.",
    embedding="embed_tokens.weight",
    ignored=_ROTARY,
    fields=_MODERN.extended(
        whole("head_dim", "head_dim", 128, source="head_width"),
        fixed={"qk_norm": True, "bias": False},
        expected={"attention_bias": False, "use_sliding_window": False},
    ),
    parts=_modern_parts,
    lacks=lambda config: [],
).family()
FAMILIES = (GPT2, GPT1, LLAMA, QWEN3)
