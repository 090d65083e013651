"""Llama and the families that differ from it in a few options.

| family | differs in |
|---|---|
| Llama 3.1 and later | scaled rotary positions |
| Mistral, Ministral | a window in all layers |
| Qwen2, 2.5 | biases of queries, keys and values; windows in the upper layers, if they are used |
| Qwen3 | QK-norm: our modern sizes |
| SmolLM3 | no positions in every fourth layer |
| Granite | four multipliers |
| Phi-3, Phi-4-mini | joined matrices, partial rotary positions, a factor for each pair |
"""

from collections.abc import Callable

from headway.interop.config_fields import Fields, Key, Values, flag, number
from headway.interop.decoders.kind import ROTARY, Kind
from headway.interop.decoders.rotary import partial, rotary
from headway.interop.decoders.tables import (
    Names,
    all_of,
    biases_are,
    biases_of_attention,
    groups,
    head_width,
    one_width,
    optional,
    sizes,
)
from headway.interop.decoders.windows import all_or_none, layer_types, only, shortest
from headway.interop.hf_config import HFConfig
from headway.models import GPTConfig


def like_llama(
    key_heads: int | None = None, base: float = 10_000.0, tied: bool = False, **defaults: int
) -> Fields:
    """Return the keys of pre-norm, RMSNorm, SwiGLU, rotary positions and grouped queries.

    The arguments are what missing keys mean: see `sizes`, `groups` and `rotary`.
    """
    known = sizes(tied=tied, **defaults)  # type: ignore[arg-type]
    return known.extended(
        groups(key_heads),
        *rotary(base),
        fixed={"norm": "pre", "norm_kind": "rms", "activation": "swiglu"},
        expected={"hidden_act": "silu"},
        constant={"hidden_act": "silu"},
    )


FIELDS = like_llama()
NO_BIAS = {"bias": False, "attention_bias": "same"}


def kind_like_llama(
    model_type: str,
    name: str,
    fields: Fields,
    names: Names,
    *lacks: Callable[[GPTConfig], list[str]],
) -> Kind:
    """Return a family whose classes and keys are called as Llama's."""
    return Kind(
        model_type=model_type,
        architecture=f"{name}ForCausalLM",
        bare=f"{name}Model",
        prefix="model.",
        embedding=f"{names.words}.weight",
        ignored=ROTARY,
        fields=fields,
        parts=names.parts,
        lacks=all_of(*lacks),
    )


def all_full(file: HFConfig, fields: Values) -> None:
    """Raise DataError unless all layers attend to all tokens."""
    kinds = file.values.get("layer_types", ["full_attention"])
    if not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds):
        raise file.refusal("layer_types", kinds, "a list of full_attention for every layer")


def _whole_heads(config: GPTConfig) -> list[str]:
    if config.model_dim % config.num_heads:
        return [f"model_dim={config.model_dim} (must be a multiple of num_heads)"]
    return []


BIASES = flag("mlp_bias", "bias", False), biases_of_attention("attention_bias", "all")
LLAMA = kind_like_llama(
    "llama",
    "Llama",
    FIELDS.extended(head_width(), *BIASES, fixed={"qk_norm": False}, check=all_full),
    Names(),
    biases_are("none", "all"),
    _whole_heads,
).family()
MISTRAL = kind_like_llama(
    "mistral",
    "Mistral",
    like_llama(8, intermediate_size=14_336, max_position_embeddings=131_072).extended(
        head_width(), *all_or_none(4096), fixed={"qk_norm": False, **NO_BIAS}
    ),
    Names(),
).family()
MINISTRAL = kind_like_llama(
    "ministral",
    "Ministral",
    like_llama(8, intermediate_size=14_336, max_position_embeddings=131_072).extended(
        head_width(), *layer_types(lambda file, n: "l" * n), fixed={"qk_norm": False, **NO_BIAS}
    ),
    Names(),
    only("gl"),
).family()


def _upper_layers(file: HFConfig, count: int) -> str:
    """Windows in the layers from `max_window_layers` on, if they are used."""
    first = file.whole("max_window_layers", 28)
    if not file.flag("use_sliding_window", False) or "sliding_window" in file.nulls:
        return "g" * count
    return "".join("l" if n >= first else "g" for n in range(count))


_WINDOWS = layer_types(_upper_layers)
_USES_WINDOWS = Key(
    "use_sliding_window", "", lambda file, _: None, lambda config: "l" in config.layers
)
QWEN = like_llama(vocab_size=151_936, intermediate_size=22_016, max_position_embeddings=32_768)
QWEN2 = kind_like_llama(
    "qwen2",
    "Qwen2",
    QWEN.extended(
        head_width(),
        *_WINDOWS,
        _USES_WINDOWS,
        fixed={"qk_norm": False, "bias": False, "attention_bias": "qkv"},
    ),
    Names(),
    only("gl"),
).family()
QWEN3 = kind_like_llama(
    "qwen3",
    "Qwen3",
    QWEN.extended(
        head_width(128),
        *_WINDOWS,
        _USES_WINDOWS,
        biases_of_attention("attention_bias", "all"),
        fixed={"qk_norm": True, "qk_norm_over": "head", "bias": False},
    ),
    Names(),
    biases_are("none", "all"),
    only("gl"),
).family()


def _smollm3_layers(file: HFConfig, fields: Values) -> str:
    """No positions in every fourth layer, which has a window, if windows are used."""
    count = int(fields["num_layers"])
    step = file.whole("no_rope_layer_interval", 4)
    turned = file.values.get("no_rope_layers", [int((n + 1) % step != 0) for n in range(count)])
    if not isinstance(turned, list) or len(turned) != count or {*turned} - {0, 1}:
        raise file.refusal("no_rope_layers", turned, "a list of 0 or 1 for every layer")
    has_windows = file.flag("use_sliding_window", False) and "sliding_window" in file.values

    def usual(file: HFConfig, count: int) -> str:
        return "".join("g" if turns or not has_windows else "l" for turns in turned)

    letters = str(layer_types(usual)[0].read(file, fields))
    pairs = zip((letters * count)[:count], turned, strict=True)
    return shortest("".join(letter if turns else letter.upper() for letter, turns in pairs))


def _smollm3_types(config: GPTConfig) -> list[str]:
    return ["sliding_attention" if kind in "lL" else "full_attention" for kind in config.kinds]


SMOLLM3 = kind_like_llama(
    "smollm3",
    "SmolLM3",
    like_llama(
        4,
        2_000_000.0,
        tied=True,
        vocab_size=128_256,
        hidden_size=2048,
        num_hidden_layers=36,
        num_attention_heads=16,
        max_position_embeddings=32_768,
    ).extended(
        head_width(),
        *BIASES,
        Key("layer_types", "layers", _smollm3_layers, _smollm3_types),
        Key(
            "no_rope_layers",
            "",
            lambda file, _: None,
            lambda config: [int(kind.islower()) for kind in config.kinds],
        ),
        _WINDOWS[1],
        Key("use_sliding_window", "", lambda file, _: None, lambda c: "l" in c.layers.lower()),
        fixed={"qk_norm": False},
    ),
    Names(),
    biases_are("none", "all"),
    one_width,
).family()

GRANITE = kind_like_llama(
    "granite",
    "Granite",
    FIELDS.extended(
        *BIASES,
        optional("embedding_multiplier", "embedding_scale", 1.0),
        optional("attention_multiplier", "score_scale", 1.0),
        number("residual_multiplier", "residual_scale", 1.0),
        Key(
            "logits_scaling",
            "logit_scale",
            lambda file, _: 1 / file.number("logits_scaling", 1.0, low=1e-9),
            lambda config: 1 / config.logit_scale,
        ),
        fixed={"qk_norm": False},
    ),
    Names(),
    biases_are("none", "all"),
    one_width,
    lambda config: ["score_scale=None"] if config.score_scale is None else [],
).family()

_PHI3_JOINED = Names(
    attention={
        "self_attn.qkv_proj": ("attention.query", "attention.key", "attention.value"),
        "self_attn.o_proj": "attention.output",
    },
    feedforward={
        "mlp.gate_up_proj": ("feedforward.gate", "feedforward.expand"),
        "mlp.down_proj": "feedforward.contract",
    },
)
PHI3 = kind_like_llama(
    "phi3",
    "Phi3",
    like_llama(
        vocab_size=32_064,
        hidden_size=3072,
        intermediate_size=8192,
        max_position_embeddings=4096,
    ).extended(
        partial(1.0),
        *all_or_none(),
        number("rms_norm_eps", "norm_eps", 1e-5),
        Key(
            "original_max_position_embeddings",
            "",
            lambda file, _: None,
            lambda config: (
                config.rotary_scaling.original_length
                if config.rotary_scaling.kind != "none"
                else config.max_length
            ),
        ),
        fixed={"qk_norm": False, **NO_BIAS},
    ),
    _PHI3_JOINED,
    one_width,
).family()

FAMILIES = (LLAMA, QWEN3, QWEN2, MISTRAL, MINISTRAL, SMOLLM3, GRANITE, PHI3)
