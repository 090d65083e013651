"""The configuration of language models: what GPT-1 to GPT-3 and the decoders since then differ in.

Each setting is an object of `attention/` or `blocks/`, which `models/gpt.py` puts together. The
tables of `interop/decoders/` say which of them a published model has.

>>> from headway.models import GPTConfig
>>> config = GPTConfig(num_layers=7, layers="lllllg")  # five layers with a window, one without
>>> config.kinds
'lllllgl'
>>> config.options
['layers=lllllg']
"""

from dataclasses import dataclass, fields
from typing import ClassVar, Literal

from headway.attention import RotaryScaling
from headway.base.settings import (
    HEADS,
    LAYERS,
    LENGTH,
    VOCABULARY,
    WIDTH,
    count,
    fraction,
    section,
    setting,
)
from headway.blocks import Experts
from headway.models import kernels_and_positions
from headway.models.kernels_and_positions import KERNELS, SCHEMES

Value = int | float | str | None


def _gpt(layers: int, width: int, heads: int, **changes: Value) -> dict[str, Value]:
    """Return a size of GPT-1 to GPT-3, whose feed-forward layers are four times as wide.

    The blocks are part of a size: a recipe may have others.
    """
    shape = {"num_layers": layers, "model_dim": width, "num_heads": heads, "ffn_dim": 4 * width}
    return {
        **shape,
        "num_kv_heads": None,
        "norm_kind": "layer",
        "norm_eps": 1e-5,
        "qk_norm": False,
        "activation": "gelu-tanh",
        "bias": True,
        "positions": "learned",
        **changes,
    }


_GPT2: dict[str, Value] = {"vocabulary": 50_257, "max_length": 1024}
_GPT3: dict[str, Value] = {"vocabulary": 50_257, "max_length": 2048}


def _modern(
    layers: int, width: int, heads: int, kv_heads: int, ffn_dim: int, /, **changes: Value
) -> dict[str, Value]:
    """Return a size with RMSNorm, SwiGLU, rotary positions, grouped queries and QK-norm."""
    return {
        "num_layers": layers,
        "model_dim": width,
        "num_heads": heads,
        "num_kv_heads": kv_heads,
        "ffn_dim": ffn_dim,
        "norm_kind": "rms",
        "norm_eps": 1e-6,
        "qk_norm": True,
        "activation": "swiglu",
        "bias": False,
        "positions": "rotary",
        **changes,
    }


def _experts(ffn_dim: int) -> dict[str, Value]:
    """Return 8 experts of an inner dimension, two of which read a token."""
    return {"experts.total": 8, "experts.chosen": 2, "experts.ffn_dim": ffn_dim}


_GEMMA3: dict[str, Value] = {
    "norm": "sandwich",
    "norm_kind": "rms-offset",
    "activation": "geglu",
    "rotary_base": 1e6,
    "local_rotary_base": 10_000.0,
    "layers": "lllllg",
    "window": 64,
}
_OPTIONS = (
    "qk_norm_over",
    "attention_bias",
    "output_bias",
    "local_rotary_base",
    "rotary_fraction",
    "rotary_pairs",
    "score_scale",
    "score_cap",
    "sinks",
    "layers",
    "residual_scale",
    "embedding_scale",
    "embedding_norm",
    "logit_scale",
    "logit_cap",
)
_USUAL: dict[str, tuple[object, ...]] = {
    "norm": ("pre", "post"),
    "norm_kind": ("layer", "rms"),
    "activation": ("relu", "gelu", "gelu-tanh", "silu", "swiglu"),
}
KINDS = "glGL"
"""Letters of `layers`: attention to all tokens or to a window; capitals without positions."""


@dataclass(frozen=True, kw_only=True)
class GPTConfig:
    """Architecture of a `GPT`. The named sizes are in `sizes`.

    gpt1, gpt2-*: the released models. (The table of the GPT-2 paper has 117, 345, 762 and 1542
    million parameters; the released models have 124, 355, 774 and 1558.) gpt3-*: table 2.1 of Brown
    et al. 2020 with two corrections: its 1.3B has 24 heads of 128 in a width of 2048 (16 fit), its
    13B a width of 5140 (40 heads of 128 make 5120). The slide of the lectures gives the 175B 175
    layers; it has 96. In GPT-3 every second layer has banded sparse attention; here all attention
    is dense. tiny, char, mini: for a CPU. modern-*: RMSNorm, SwiGLU, rotary positions, QK-norm and
    grouped-query attention; modern-0.6b has the architecture of Qwen3-0.6B. *-moe: 8 experts of
    half the width, of which two read a token, so that a token costs as much as without experts.
    llama-mini, gemma-mini: modern-mini with the blocks of Llama 3 and of Gemma 3.
    """

    model_dim: int = count(64, "model width: size of the vectors between layers", WIDTH)
    num_heads: int = count(4, "number of attention heads", HEADS)
    num_kv_heads: int | None = count(
        None, "number of key and value heads (grouped-query attention); if unset, num_heads", HEADS
    )
    head_dim: int | None = count(
        None, "dimension of a head; if unset, model_dim / num_heads", WIDTH
    )
    ffn_dim: int = count(256, "inner dimension of the feed-forward layers", WIDTH)
    num_layers: int = count(2, "number of decoder layers", LAYERS)
    dropout: float = fraction(0.0, "dropout probability of activations")
    norm: Literal["pre", "post", "inner", "sandwich", "parallel", "parallel-shared"] = setting(
        "pre",
        "norms before the sublayers, after the sums, after the sublayers, before and after the "
        "sublayers, or sublayers in parallel with a norm each or one norm",
    )
    norm_kind: Literal["layer", "rms", "rms-offset", "layer-gain", "layer-plain"] = setting(
        "layer",
        "LayerNorm or RMSNorm; rms-offset: gains are 1 + w; layer-gain: without shift; "
        "layer-plain: without parameters",
    )
    norm_eps: float = setting(1e-5, "epsilon of the norms, added to the variance", gt=0)
    qk_norm: bool = setting(False, "QK-norm: RMSNorm of the queries and keys of each head")
    qk_norm_over: Literal["head", "all"] = setting(
        "head", "QK-norm of each head, or of all heads as one vector"
    )
    activation: Literal[
        "relu", "gelu", "gelu-tanh", "silu", "swiglu", "swiglu-clamped", "geglu", "geglu-exact"
    ] = setting(
        "gelu-tanh", "activation function of the feed-forward layers; swiglu and geglu add a gate"
    )
    bias: bool = setting(True, "biases in the linear layers")
    experts: Experts = section(Experts)
    attention_bias: Literal["same", "none", "qkv", "all"] = setting(
        "same", "biases in attention, if not as in the other layers; qkv: all but the output's"
    )
    output_bias: bool = setting(False, "biases of the logits")
    positions: str = setting("learned", "position encoding", names=SCHEMES)
    rotary_base: float = setting(
        10_000.0, "base of rotary positions; larger values suit longer contexts", gt=1
    )
    local_rotary_base: float | None = setting(
        None, "base in layers with a window, which is not scaled; if unset, rotary_base", gt=1
    )
    rotary_fraction: float = setting(
        1.0, "fraction of the dimensions of a head that rotary positions rotate", gt=0, le=1
    )
    rotary_pairs: Literal["halves", "adjacent"] = setting(
        "halves", "rotated pairs: dimensions half a head apart, or adjacent ones"
    )
    rotary_scaling: RotaryScaling = section(RotaryScaling)
    attention: str = setting("scaled-dot", "attention score of all layers", names=KERNELS)
    score_scale: float | None = setting(None, "factor of q . k; if unset, 1 / sqrt(head_dim)", gt=0)
    score_cap: float | None = setting(None, "soft limit c of scores: c tanh(score / c)", gt=0)
    sinks: bool = setting(
        False, "a learned score of each head in the softmax, so that weights may sum to less than 1"
    )
    layers: str = setting(
        "g",
        "kinds of layers, repeated until there are num_layers: g attends to all tokens, l to a "
        "window; G and L have no rotary positions",
    )
    window: int = count(128, "window size of sliding-window attention, in tokens", LENGTH)
    residual_scale: float = setting(1.0, "factor of what each sublayer adds", gt=0)
    embedding_scale: float | None = setting(
        None,
        "factor of embeddings; if unset, sqrt(model_dim) for sinusoidal positions, else 1",
        gt=0,
    )
    embedding_norm: bool = setting(False, "a norm after the embedding")
    logit_scale: float = setting(1.0, "factor of the logits", gt=0)
    logit_cap: float | None = setting(None, "soft limit c of logits: c tanh(logit / c)", gt=0)
    max_length: int = count(
        256, "maximum number of tokens of a training text; the limit of positions=learned", LENGTH
    )
    tie_output: bool = setting(True, "the output projection shares the matrix of the embedding")
    vocabulary: int = count(8000, "vocabulary size", VOCABULARY)

    family: ClassVar[str] = "gpt"
    sizes: ClassVar[dict[str, dict[str, Value]]] = {
        "tiny": _gpt(2, 64, 4),
        "char": _gpt(4, 128, 4, max_length=64),
        "mini": _gpt(6, 384, 6),
        "gpt1": _gpt(12, 768, 12, vocabulary=40_478, max_length=512, norm="post", dropout=0.1),
        "gpt2-small": _gpt(12, 768, 12, **_GPT2),
        "gpt2-medium": _gpt(24, 1024, 16, **_GPT2),
        "gpt2-large": _gpt(36, 1280, 20, **_GPT2),
        "gpt2-xl": _gpt(48, 1600, 25, **_GPT2),
        "gpt3-125m": _gpt(12, 768, 12, **_GPT3),
        "gpt3-350m": _gpt(24, 1024, 16, **_GPT3),
        "gpt3-760m": _gpt(24, 1536, 16, **_GPT3),
        "gpt3-1.3b": _gpt(24, 2048, 16, **_GPT3),
        "gpt3-2.7b": _gpt(32, 2560, 32, **_GPT3),
        "gpt3-6.7b": _gpt(32, 4096, 32, **_GPT3),
        "gpt3-13b": _gpt(40, 5120, 40, **_GPT3),
        "gpt3-175b": _gpt(96, 12_288, 96, **_GPT3),
        "modern-tiny": _modern(2, 64, 4, 2, 176),
        "modern-char": _modern(4, 128, 4, 2, 352, max_length=64),
        "modern-micro": _modern(4, 256, 4, 2, 688),
        "modern-mini": _modern(6, 384, 6, 2, 1024),
        "llama-mini": _modern(6, 384, 6, 2, 1024, qk_norm=False),
        "gemma-mini": _modern(6, 384, 6, 2, 1024, **_GEMMA3, embedding_scale=384**0.5),
        "modern-char-moe": _modern(4, 128, 4, 2, 352, max_length=64, **_experts(176)),
        "modern-mini-moe": _modern(6, 384, 6, 2, 1024, **_experts(512)),
        "modern-small": _modern(12, 768, 12, 4, 2048, vocabulary=50_257, max_length=1024),
        "modern-0.6b": _modern(
            28,
            1024,
            16,
            8,
            3072,
            head_dim=128,
            rotary_base=1e6,
            vocabulary=151_936,
            max_length=40_960,
        ),
    }

    @property
    def head_width(self) -> int:
        """The dimension of a head."""
        return self.head_dim or self.model_dim // self.num_heads

    @property
    def rotated(self) -> int:
        """The number of dimensions of a head that rotary positions rotate."""
        return int(self.head_width * self.rotary_fraction + 1e-6)

    @property
    def kv_heads(self) -> int:
        """The number of key and value heads."""
        return self.num_kv_heads or self.num_heads

    @property
    def attention_biases(self) -> Literal["none", "qkv", "all"]:
        """Which linear layers of attention have biases."""
        if self.attention_bias == "same":
            return "all" if self.bias else "none"
        return self.attention_bias

    @property
    def kinds(self) -> str:
        """The kind of each of the num_layers layers, a letter of `layers` each."""
        return kernels_and_positions.repeated(self.layers, self.num_layers)

    @property
    def options(self) -> list[str]:
        """The settings that GPT-1 to GPT-3 and Llama do not have, as texts; empty without any.

        What is made for the blocks of those models alone must refuse a model with other options.
        """
        plain: dict[str, tuple[object, ...]] = {
            item.name: (item.default,) for item in fields(self) if item.name in _OPTIONS
        }
        plain |= _USUAL | {"rotary_scaling": (RotaryScaling(),), "experts": (Experts(),)}
        if self.attention_biases == ("all" if self.bias else "none"):
            del plain["attention_bias"]
        return [
            f"{name}={getattr(self, name)}"
            for name, values in plain.items()
            if getattr(self, name) not in values
        ]

    def __post_init__(self) -> None:
        model_dim, num_heads, num_kv_heads = self.model_dim, self.num_heads, self.kv_heads
        _check_options(self)
        kernels_and_positions.check_heads(model_dim, num_heads, self.head_dim, self.positions)
        if num_heads % num_kv_heads:
            raise ValueError(f"{num_heads=} must be a multiple of {num_kv_heads=}")
        if self.positions == "sinusoidal" and model_dim % 2:
            raise ValueError(
                f"positions=sinusoidal needs an even model_dim, not {model_dim}: sines and cosines "
                "are in pairs"
            )


def _check_options(config: GPTConfig) -> None:
    """Raise ValueError for options that do not fit together."""
    if not config.layers or set(config.layers) - set(KINDS):
        raise ValueError(f"{config.layers=} must be letters of {', '.join(KINDS)}")
    changes_scores = {
        "score_scale": config.score_scale is not None,
        "score_cap": config.score_cap is not None,
        "sinks": config.sinks,
        "layers": "l" in config.layers.lower(),
    }
    for name, is_set in changes_scores.items():
        if is_set and config.attention != "scaled-dot":
            raise ValueError(
                f"{name}={getattr(config, name)} needs attention=scaled-dot, not {config.attention}"
            )
    if config.residual_scale != 1 and config.norm != "pre":
        raise ValueError(f"{config.residual_scale=} needs norm=pre, not {config.norm}")
    if config.qk_norm_over == "all" and not config.qk_norm:
        raise ValueError("qk_norm_over=all needs qk_norm=true")
    is_rotary = config.positions == "rotary"
    if is_rotary and config.rotary_fraction != 1 and config.rotated % 2:
        raise ValueError(
            f"rotary_fraction={config.rotary_fraction} rotates {config.rotated} dimensions of a "
            "head; their number must be even, because they are rotated in pairs"
        )
    needs_rotary = {
        "rotary_fraction": config.rotary_fraction != 1,
        "rotary_pairs": config.rotary_pairs != "halves",
        "rotary_scaling": config.rotary_scaling != RotaryScaling(),
        "local_rotary_base": config.local_rotary_base is not None,
        "layers": config.layers != config.layers.lower(),
    }
    for name, is_set in needs_rotary.items():
        if is_set and not is_rotary:
            raise ValueError(f"{name} needs positions=rotary, not {config.positions}")
