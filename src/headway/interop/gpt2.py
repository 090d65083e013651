"""GPT-2 (`GPT2LMHeadModel`): pre-norm, learned positions, weights stored transposed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headway.interop.hf_config import ACTIVATION_NAMES, ACTIVATIONS, HFConfig
from headway.interop.language_models import language_family
from headway.interop.weight_names import Part, needs
from headway.models import GPTConfig

# Their Conv1D computes x W, our Linear x W^T; their queries, keys and values are one matrix.
_LAYER = {
    "ln_1": ("around_attention.norm",),
    "attn.c_attn": ("attention.query", "attention.key", "attention.value"),
    "attn.c_proj": ("attention.output",),
    "ln_2": ("around_feedforward.norm",),
    "mlp.c_fc": ("feedforward.expand",),
    "mlp.c_proj": ("feedforward.contract",),
}


def layers(config: GPTConfig) -> Iterator[Part]:
    """Yield the tensors of the blocks, which have the same names in GPT-1 and GPT-2."""
    for number in range(config.num_layers):
        for theirs, ours in _LAYER.items():
            names = [f"decoder.blocks.{number}.{name}" for name in ours]
            norm = theirs.startswith("ln_")
            for kind, of_norm in (("weight", "gain"), ("bias", "shift")):
                suffix = of_norm if norm else kind
                transposed = kind == "weight" and not norm
                yield Part(
                    f"h.{number}.{theirs}.{kind}", tuple(f"{n}.{suffix}" for n in names), transposed
                )


def shape(hf_config: HFConfig, vocabulary: int, max_length: int) -> dict[str, Any]:
    """Return the fields of `GPTConfig` whose keys are the same in GPT-1 and GPT-2.

    vocabulary, max_length: the defaults, of the released models. Our single dropout is their
    dropout after each sublayer; we have no dropout on attention weights.
    """
    return {
        "vocabulary": hf_config.whole("vocab_size", vocabulary),
        "max_length": hf_config.whole("n_positions", max_length),
        "model_dim": hf_config.whole("n_embd", 768),
        "num_layers": hf_config.whole("n_layer", 12),
        "num_heads": hf_config.whole("n_head", 12),
        "norm_eps": hf_config.number("layer_norm_epsilon", 1e-5),
        "dropout": hf_config.number("resid_pdrop", 0.1, high=1.0),
        "tie_output": hf_config.flag("tie_word_embeddings", True),
        "positions": "learned",
        "bias": True,
    }


def hf_sizes(config: GPTConfig) -> dict[str, Any]:
    """Return the keys of config.json for a configuration of ours, the inverse of `shape`."""
    return {
        "vocab_size": config.vocabulary,
        "n_positions": config.max_length,
        "n_ctx": config.max_length,
        "n_embd": config.model_dim,
        "n_layer": config.num_layers,
        "n_head": config.num_heads,
        "layer_norm_epsilon": config.norm_eps,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": 0.0,
    }


def shape_lacks(config: GPTConfig, norm: str) -> list[str]:
    """Return the settings of a model that neither GPT-1 nor GPT-2 can represent."""
    head_width = config.model_dim // config.num_heads
    return needs(
        config,
        {
            "norm": (norm,),
            "norm_kind": ("layer",),
            "positions": ("learned",),
            "attention": ("scaled-dot",),
            "bias": (True,),
            "qk_norm": (False,),
            "num_kv_heads": (None, config.num_heads),
            "head_dim": (None, head_width) if config.model_dim % config.num_heads == 0 else (None,),
        },
    )


def _settings(hf_config: HFConfig) -> dict[str, Any]:
    hf_config.must_be("scale_attn_weights", True)
    hf_config.must_be("scale_attn_by_inverse_layer_idx", False)
    hf_config.must_be("add_cross_attention", False)
    settings = shape(hf_config, 50_257, 1024)
    return {
        **settings,
        "norm": "pre",
        "ffn_dim": hf_config.whole("n_inner", 4 * settings["model_dim"]),
        "activation": hf_config.choice("activation_function", ACTIVATIONS, "gelu_new"),
    }


def _to_hf_config(config: GPTConfig) -> dict[str, Any]:
    return {
        **hf_sizes(config),
        "n_inner": config.ffn_dim,
        "activation_function": ACTIVATION_NAMES[config.activation],
    }


def _parts(config: GPTConfig) -> Iterator[Part]:
    yield Part("wte.weight", ("embedding.tokens.weight",))
    yield Part("wpe.weight", ("embedding.positions.table.vectors",))
    yield from layers(config)
    yield Part("ln_f.weight", ("decoder.norm.gain",))
    yield Part("ln_f.bias", ("decoder.norm.shift",))


def _lacks(config: GPTConfig) -> list[str]:
    known = tuple(ACTIVATION_NAMES)
    return shape_lacks(config, "pre") + needs(config, {"activation": known})


FAMILY = language_family(
    model_type="gpt2",
    architecture="GPT2LMHeadModel",
    bare="GPT2Model",
    prefix="transformer.",
    embedding="wte.weight",
    ignored=r"h\.\d+\.attn\.(masked_)?bias",
    settings=_settings,
    to_hf_config=_to_hf_config,
    parts=_parts,
    lacks=_lacks,
)
