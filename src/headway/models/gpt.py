"""Language models: P(next token | the tokens before it), from GPT to today's (lectures 3.7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import torch
from torch import nn

from headway.attention import (
    AttentionPositions,
    Documents,
    GroupedQueryAttention,
    MultiHeadAttention,
)
from headway.blocks import (
    DecoderOnly,
    DecoderOnlyBlock,
    DecoderOnlyState,
    Embeddings,
    FeedForward,
    GatedFeedForward,
    LayerNorm,
    PostNorm,
    PreNorm,
    Residual,
    RMSNorm,
)
from headway.blocks.feedforward import ACTIVATIONS
from headway.models import kernels_and_positions
from headway.models.contracts import init_normal
from headway.models.kernels_and_positions import KERNELS, SCHEMES
from headway.settings import HEADS, LAYERS, LENGTH, VOCABULARY, WIDTH, setting
from headway.shapes import Bool, Float, Int, Tensor

Value = int | float | str | None
NORMS: dict[str, type[LayerNorm] | type[RMSNorm]] = {"layer": LayerNorm, "rms": RMSNorm}


def _gpt(layers: int, width: int, heads: int, **others: Value) -> dict[str, Value]:
    """A size as GPT-1 to GPT-3 have it: the feed-forward layer is four times as wide."""
    shape = {"num_layers": layers, "model_dim": width, "num_heads": heads, "ffn_dim": 4 * width}
    return {**shape, **others}


_GPT2: dict[str, Value] = {"vocabulary": 50_257, "max_length": 1024}
_GPT3: dict[str, Value] = {"vocabulary": 50_257, "max_length": 2048}


def _modern(
    layers: int, width: int, heads: int, kv_heads: int, ffn_dim: int, **others: Value
) -> dict[str, Value]:
    """RMSNorm, SwiGLU (8/3 as wide), rotary positions, shared keys and values, QK-norm."""
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
        **others,
    }


@dataclass(frozen=True, kw_only=True)
class GPTConfig:
    """Shape of a `GPT`. The named sizes are in `sizes`.

    gpt1, gpt2-*: the released models (the GPT-2 paper's table says 117, 345, 762 and 1542 million;
    they have 124, 355, 774 and 1558). gpt3-*: table 2.1 of Brown et al. 2020, which slips twice:
    its 1.3B has 24 heads of 128 in a width of 2048 (16 fit), its 13B a width of 5140 (40 heads of
    128 make 5120); the lectures' slide gives the 175B 175 layers (it has 96). Every second layer
    of theirs attends to a band only; here all attend to everything. tiny, char, mini: for a CPU.
    modern-*: today's choices together; modern-0.6b has the shape of Qwen3-0.6B.
    """

    model_dim: int = setting(64, "width of every layer's input and output", gt=0, le=WIDTH)
    num_heads: int = setting(4, "attention heads", gt=0, le=HEADS)
    num_kv_heads: int | None = setting(
        None,
        "heads of keys and values, each shared by num_heads / num_kv_heads; none: all own",
        gt=0,
        le=HEADS,
    )
    head_dim: int | None = setting(
        None, "width of a head; none: model_dim / num_heads", gt=0, le=WIDTH
    )
    ffn_dim: int = setting(256, "inner width of the feed-forward layers", gt=0, le=WIDTH)
    num_layers: int = setting(2, "decoder blocks", gt=0, le=LAYERS)
    dropout: float = setting(0.0, "share of activations dropped while training", ge=0, lt=1)
    norm: Literal["pre", "post"] = setting("pre", "norm before each sublayer, or after its sum")
    norm_kind: Literal["layer", "rms"] = setting("layer", "LayerNorm, or RMSNorm without its mean")
    norm_eps: float = setting(1e-5, "added to the variance under a norm's root", gt=0)
    qk_norm: bool = setting(False, "an RMSNorm on every head's queries and keys")
    activation: Literal["relu", "gelu", "gelu-tanh", "silu", "swiglu"] = setting(
        "gelu-tanh", "nonlinearity of the feed-forward layers; swiglu adds a gate"
    )
    bias: bool = setting(True, "linear layers add a bias")
    positions: str = setting("learned", "how a token knows its place", names=SCHEMES)
    rotary_base: float = setting(10_000.0, "of positions=rotary: greater reaches farther", gt=1)
    attention: str = setting("scaled-dot", "the score of every attention", names=KERNELS)
    window: int = setting(128, "keys that attention=window looks back over", gt=0, le=LENGTH)
    max_length: int = setting(
        256, "longest text to train on; a learned table ends there", gt=0, le=LENGTH
    )
    tie_output: bool = setting(True, "the embedding is the output projection too")
    vocabulary: int = setting(8000, "pieces of the language", gt=0, le=VOCABULARY)

    family: ClassVar[str] = "gpt"
    sizes: ClassVar[dict[str, dict[str, Value]]] = {
        "tiny": {},
        "char": _gpt(4, 128, 4, max_length=64),
        "mini": _gpt(6, 384, 6),
        "gpt1": _gpt(*(12, 768, 12), vocabulary=40_478, max_length=512, norm="post", dropout=0.1),
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
        "modern-mini": _modern(6, 384, 6, 2, 1024),
        "modern-small": _modern(12, 768, 12, 4, 2048, vocabulary=50_257, max_length=1024),
        "modern-0.6b": _modern(
            *(28, 1024, 16, 8, 3072),
            head_dim=128,
            rotary_base=1e6,
            vocabulary=151_936,
            max_length=40_960,
        ),
    }

    @property
    def head_width(self) -> int:
        return self.head_dim or self.model_dim // self.num_heads

    @property
    def kv_heads(self) -> int:
        return self.num_kv_heads or self.num_heads

    def __post_init__(self) -> None:
        model_dim, num_heads, num_kv_heads = self.model_dim, self.num_heads, self.kv_heads
        if self.head_dim is None and model_dim % num_heads:
            near = [h for h in range(1, 2 * num_heads) if model_dim % h == 0]
            raise ValueError(
                f"{model_dim=} must be a multiple of {num_heads=}; "
                f"num_heads could be {' or '.join(map(str, near[-2:]))}, or set head_dim"
            )
        if num_heads % num_kv_heads:
            raise ValueError(f"{num_heads=} must be a multiple of {num_kv_heads=}")
        if self.positions == "rotary" and self.head_width % 2:
            raise ValueError(
                f"positions=rotary turns dimensions in pairs: a head's width, {self.head_width}, "
                "must be even"
            )
        if self.positions == "sinusoidal" and model_dim % 2:
            raise ValueError("positions=sinusoidal needs an even model_dim: sines go with cosines")


class GPT(nn.Module):
    """P(x_t | x_<t): embeddings, decoder blocks without cross-attention, output projection.

    Radford et al. 2018 (GPT-1), 2019 (GPT-2); Brown et al. 2020 (GPT-3); Touvron et al. 2023.
    """

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = gpt_embeddings(config)
        self.decoder = _decoder(config)
        self.output = nn.Linear(config.model_dim, config.vocabulary, bias=False)
        self.tie_weights()
        if self.output.weight.device.type != "meta":
            self.init_weights()

    def tie_weights(self) -> None:
        """Make the shared matrix one parameter; again after the parameters were replaced."""
        if self.config.tie_output:
            self.output.weight = self.embedding.tokens.weight

    def init_weights(self) -> None:
        """N(0, 0.02^2) and zero biases. What a pre-norm block adds to the stream starts smaller,
        by 1 / sqrt(2 L): the sum of 2 L such changes then has the size of one. Radford et al.
        2019, section 2.3.
        """
        init_normal(self, std=0.02)
        if self.config.norm == "pre":
            std = 0.02 / (2 * self.config.num_layers) ** 0.5
            for name, weight in self.decoder.named_parameters():
                if name.endswith(("attention.output.weight", "feedforward.contract.weight")):
                    nn.init.normal_(weight, std=std)

    @property
    def max_length(self) -> int | None:
        """The most tokens, those of a prompt included; None for any number."""
        return self.embedding.positions.max_length

    def hidden(
        self, tokens: Int[Tensor, "B T"], documents: Documents | None = None
    ) -> Float[Tensor, "B T D"]:
        """The vectors from which the next token after each of `tokens` is predicted.

        Padding stands at the right, where no real token sees it. documents: those that are packed
        into the rows; each gets what it would get alone.
        """
        embedded = self.embedding(tokens, documents=documents)
        found: Tensor = self.decoder(embedded, documents)
        return found

    def forward(
        self, tokens: Int[Tensor, "B T"], documents: Documents | None = None
    ) -> Float[Tensor, "B T V"]:
        """Logits of the next token after each of `tokens`."""
        logits: Tensor = self.output(self.hidden(tokens, documents))
        return logits

    def start(
        self, tokens: Int[Tensor, "B S"], keys: Bool[Tensor, "B S"] | None = None
    ) -> DecoderOnlyState:
        """Read what stands before the tokens to `step` over; S may be 0.

        To continue a prompt, give all of it but its last token, and that one to the first `step`,
        which answers with what follows. keys: True = real; each row's real tokens come first.
        """
        state = self.decoder.start(tokens.shape[0])
        if tokens.shape[1]:
            self.decoder.step(self.embedding(tokens, state.lengths), state)
        if keys is None:
            return state
        lengths = keys.sum(1)
        if not torch.equal(
            keys, torch.arange(keys.shape[1], device=keys.device) < lengths[:, None]
        ):
            raise ValueError("keys must be True for the first tokens of each row: pad at the right")
        return state.rewind(lengths.tolist())

    def step(
        self, tokens: Int[Tensor, "N T"], state: DecoderOnlyState
    ) -> tuple[Float[Tensor, "N T V"], DecoderOnlyState]:
        """`state`: what `start` gave, or this method the last time."""
        hidden = self.decoder.step(self.embedding(tokens, state.lengths), state)
        return self.output(hidden), state


def gpt_embeddings(config: GPTConfig) -> Embeddings:
    """Tokens -> what enters the first block."""
    positions = kernels_and_positions.input_positions(
        config.positions, config.model_dim, 0, config.max_length
    )
    # sines have size 1, so words must not be 50 times smaller; a learned table starts as small
    scale = None if config.positions == "sinusoidal" else 1.0
    tokens = nn.Embedding(config.vocabulary, config.model_dim)
    return Embeddings(tokens, positions, config.dropout, scale)


def gpt_positions(config: GPTConfig) -> AttentionPositions | None:
    """What happens inside the self-attentions of a stack; one object for all its layers."""
    return kernels_and_positions.attention_positions(
        config.positions,
        config.num_heads,
        config.head_width,
        causal=True,
        rotary_base=config.rotary_base,
    )


def _decoder(config: GPTConfig) -> DecoderOnly:
    within = gpt_positions(config)
    blocks = (
        DecoderOnlyBlock(
            gpt_attention(config, within), gpt_feedforward(config), gpt_residual(config)
        )
        for _ in range(config.num_layers)
    )
    return DecoderOnly(blocks, gpt_norm(config) if config.norm == "pre" else nn.Identity())


def gpt_attention(config: GPTConfig, within: AttentionPositions | None) -> MultiHeadAttention:
    """Self-attention. `within`: one object for all layers, as positions know nothing of depth."""
    heads, width = config.num_heads, config.head_width
    kernel = kernels_and_positions.kernel(config.attention, heads, width, config.window)
    if config.kv_heads == heads and not config.qk_norm:
        return MultiHeadAttention(
            *(config.model_dim, heads),
            kernel=kernel,
            head_dim=width,
            bias=config.bias,
            positions=within,
        )
    return GroupedQueryAttention(
        *(config.model_dim, heads, config.kv_heads),
        kernel=kernel,
        head_dim=width,
        bias=config.bias,
        positions=within,
        head_norm=partial(RMSNorm, eps=config.norm_eps) if config.qk_norm else nn.Identity,
    )


def gpt_feedforward(config: GPTConfig) -> FeedForward | GatedFeedForward:
    """Gated for swiglu."""
    gated = config.activation == "swiglu"
    kind = GatedFeedForward if gated else FeedForward
    activation = ACTIVATIONS["silu" if gated else config.activation]
    return kind(config.model_dim, config.ffn_dim, activation, config.dropout, config.bias)


def gpt_norm(config: GPTConfig) -> LayerNorm | RMSNorm:
    """One of the kind that the model has everywhere."""
    return NORMS[config.norm_kind](config.model_dim, config.norm_eps)


def gpt_residual(config: GPTConfig) -> Callable[[], Residual]:
    """What a block wraps each of its sublayers in."""
    kind = PreNorm if config.norm == "pre" else PostNorm
    return lambda: kind(gpt_norm(config), config.dropout)
