"""GPT-1 and GPT-2: their matrices are transposed, and queries, keys and values are one.

Our single dropout is their dropout after each sublayer; we have no dropout on attention weights.
"""

from collections.abc import Iterator

from headway.interop.config_fields import (
    Fields,
    Key,
    choice,
    computed,
    flag,
    number,
    probability,
    whole,
    written,
)
from headway.interop.decoders.kind import POSITIONS, WORDS, Kind
from headway.interop.hf_config import ACTIVATIONS
from headway.interop.weight_names import Part, Table, layers, needs
from headway.models import GPTConfig


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


GPT2 = Kind(
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
GPT1 = Kind(
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
FAMILIES = (GPT2, GPT1)
