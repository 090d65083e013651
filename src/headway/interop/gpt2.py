"""GPT-2 (`GPT2LMHeadModel`): pre-norm, learned positions, weights stored transposed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headway.interop.hf_config import ACTIVATION_NAMES, ACTIVATIONS, Facts
from headway.interop.language_models import language_family
from headway.interop.weight_names import Part, needs
from headway.models import GPTConfig

# Their Conv1D is x W, ours x W^T; queries, keys and values are one matrix of theirs.
_LAYER = {
    "ln_1": ("around_attention.norm",),
    "attn.c_attn": ("attention.query", "attention.key", "attention.value"),
    "attn.c_proj": ("attention.output",),
    "ln_2": ("around_feedforward.norm",),
    "mlp.c_fc": ("feedforward.expand",),
    "mlp.c_proj": ("feedforward.contract",),
}


def layers(config: GPTConfig) -> Iterator[Part]:
    """The blocks, which GPT-1 and GPT-2 name alike."""
    for number in range(config.num_layers):
        for theirs, ours in _LAYER.items():
            names = [f"decoder.blocks.{number}.{name}" for name in ours]
            norm = theirs.startswith("ln_")
            for kind, own in (("weight", "gain"), ("bias", "shift")):
                last = own if norm else kind
                transposed = kind == "weight" and not norm
                yield Part(
                    f"h.{number}.{theirs}.{kind}", tuple(f"{n}.{last}" for n in names), transposed
                )


def shape(facts: Facts, vocabulary: int, max_length: int) -> dict[str, Any]:
    """The fields that GPT-1 and GPT-2 name alike; theirs may leave out what is as released.

    One dropout of ours stands for theirs after each sublayer; theirs on attention weights is not
    here.
    """
    return {
        "vocabulary": facts.whole("vocab_size", vocabulary),
        "max_length": facts.whole("n_positions", max_length),
        "model_dim": facts.whole("n_embd", 768),
        "num_layers": facts.whole("n_layer", 12),
        "num_heads": facts.whole("n_head", 12),
        "norm_eps": facts.number("layer_norm_epsilon", 1e-5),
        "dropout": facts.number("resid_pdrop", 0.1, high=1.0),
        "tie_output": facts.flag("tie_word_embeddings", True),
        "positions": "learned",
        "bias": True,
    }


def shape_facts(config: GPTConfig) -> dict[str, Any]:
    """The way back."""
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
    """What of a model neither GPT-1 nor GPT-2 can say."""
    own_width = config.model_dim // config.num_heads
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
            "head_dim": (None, own_width) if config.model_dim % config.num_heads == 0 else (None,),
        },
    )


def _settings(facts: Facts) -> dict[str, Any]:
    facts.must_be("scale_attn_weights", True)
    facts.must_be("scale_attn_by_inverse_layer_idx", False)
    facts.must_be("add_cross_attention", False)
    settings = shape(facts, 50_257, 1024)
    return {
        **settings,
        "norm": "pre",
        "ffn_dim": facts.whole("n_inner", 4 * settings["model_dim"]),
        "activation": facts.choice("activation_function", ACTIVATIONS, "gelu_new"),
    }


def _facts(config: GPTConfig) -> dict[str, Any]:
    return {
        **shape_facts(config),
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
    facts=_facts,
    parts=_parts,
    lacks=_lacks,
)
