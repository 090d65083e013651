"""Language model: P(x_1 ... x_T) = product over t of P(x_t | x_1 ... x_(t-1)).

A decoder without cross-attention predicts each token from the tokens before it. Trained on text
without labels, it generates text by predicting one token after another. GPT-1 to GPT-3 and today's
models differ in norms, position encodings and feed-forward layers only.

>>> import torch
>>> from headway.models import GPT, GPTConfig
>>> config = GPTConfig(model_dim=8, num_heads=2, ffn_dim=16, num_layers=1, vocabulary=10)
>>> model = GPT(config).eval()
>>> words = torch.tensor([[4, 5, 6]])
>>> logits = model(words)  # B T V: the prediction after each of the three words
>>> logits.softmax(-1).sum(-1).detach().round(decimals=2)  # each is a distribution over V = 10
tensor([[1., 1., 1.]])
>>> changed = model(torch.tensor([[4, 5, 7]]))  # another third word
>>> (logits != changed).any(-1)  # predictions from earlier words do not depend on it
tensor([[False, False,  True]])
"""

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
from headway.base.settings import HEADS, LAYERS, LENGTH, VOCABULARY, WIDTH, count, fraction, setting
from headway.base.shapes import Bool, Float, Int, Tensor
from headway.blocks import (
    DecoderOnly,
    DecoderOnlyBlock,
    DecoderState,
    Embeddings,
    FeedForward,
    GatedFeedForward,
    LayerNorm,
    PostNorm,
    PreNorm,
    Residual,
    RMSNorm,
)
from headway.blocks.feedforward import ACTIVATIONS, GATES
from headway.models import kernels_and_positions
from headway.models.contracts import init_normal
from headway.models.kernels_and_positions import KERNELS, SCHEMES

Value = int | float | str | None
NORMS: dict[str, type[LayerNorm] | type[RMSNorm]] = {"layer": LayerNorm, "rms": RMSNorm}


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
    layers: int, width: int, heads: int, kv_heads: int, ffn_dim: int, **changes: Value
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


@dataclass(frozen=True, kw_only=True)
class GPTConfig:
    """Architecture of a `GPT`. The named sizes are in `sizes`.

    gpt1, gpt2-*: the released models. (The table of the GPT-2 paper has 117, 345, 762 and 1542
    million parameters; the released models have 124, 355, 774 and 1558.) gpt3-*: table 2.1 of Brown
    et al. 2020 with two corrections: its 1.3B has 24 heads of 128 in a width of 2048 (16 fit), its
    13B a width of 5140 (40 heads of 128 make 5120). The slide of the lectures gives the 175B 175
    layers; it has 96. In GPT-3 every second layer has banded sparse attention; here all attention
    is dense. tiny, char, mini: for a CPU. modern-*: RMSNorm, SwiGLU, rotary positions, QK-norm and
    grouped-query attention; modern-0.6b has the architecture of Qwen3-0.6B.
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
    norm: Literal["pre", "post"] = setting("pre", "pre-norm or post-norm residual connections")
    norm_kind: Literal["layer", "rms"] = setting("layer", "LayerNorm or RMSNorm")
    norm_eps: float = setting(1e-5, "epsilon of the norms, added to the variance", gt=0)
    qk_norm: bool = setting(False, "QK-norm: RMSNorm of the queries and keys of each head")
    activation: Literal["relu", "gelu", "gelu-tanh", "silu", "swiglu"] = setting(
        "gelu-tanh", "activation function of the feed-forward layers; swiglu adds a gate"
    )
    bias: bool = setting(True, "biases in the linear layers")
    positions: str = setting("learned", "position encoding", names=SCHEMES)
    rotary_base: float = setting(
        10_000.0, "base of rotary positions; larger values suit longer contexts", gt=1
    )
    attention: str = setting("scaled-dot", "attention score of all layers", names=KERNELS)
    window: int = count(128, "window size of sliding-window attention, in tokens", LENGTH)
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
    def kv_heads(self) -> int:
        """The number of key and value heads."""
        return self.num_kv_heads or self.num_heads

    def __post_init__(self) -> None:
        model_dim, num_heads, num_kv_heads = self.model_dim, self.num_heads, self.kv_heads
        kernels_and_positions.check_heads(model_dim, num_heads, self.head_dim, self.positions)
        if num_heads % num_kv_heads:
            raise ValueError(f"{num_heads=} must be a multiple of {num_kv_heads=}")
        if self.positions == "sinusoidal" and model_dim % 2:
            raise ValueError(
                f"positions=sinusoidal needs an even model_dim, not {model_dim}: sines and cosines "
                "are in pairs"
            )


class GPT(nn.Module):
    """P(x_t | x_<t) = softmax(W decoder(E[x_<t])): embeddings, decoder, output projection.

    Radford et al. 2018 (GPT-1), 2019 (GPT-2); Brown et al. 2020 (GPT-3); Touvron et al. 2023.
    """

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = gpt_embeddings(config)
        self.decoder = _decoder(config)
        self.output = nn.Linear(config.model_dim, config.vocabulary, bias=False)
        self.tie_weights()
        if not self.output.weight.is_meta:
            self.init_weights()

    def tie_weights(self) -> None:
        """Make the shared matrix one parameter; call it again after replacing parameters."""
        if self.config.tie_output:
            self.output.weight = self.embedding.tokens.weight

    def init_weights(self) -> None:
        """Initialise with N(0, 0.02^2) and zero biases.

        In a pre-norm model the last matrix of each of the 2 L sublayers is scaled by
        1 / sqrt(2 L), so that the variance of their sum does not grow with L. Radford et al.
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
        """The maximum number of tokens, including a prompt; None if there is no limit."""
        return self.embedding.positions.max_length

    def hidden(
        self, tokens: Int[Tensor, "B T"], documents: Documents | None = None
    ) -> Float[Tensor, "B T D"]:
        """Return the hidden vectors that predict the next token after each of `tokens`.

        Padding must be at the right, where no real token attends to it. documents: the documents of
        packed sequences; each is computed as if it were alone.
        """
        embedded = self.embedding(tokens, documents=documents)
        return self.decoder(embedded, documents)

    def forward(
        self, tokens: Int[Tensor, "B T"], documents: Documents | None = None
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of the next token after each of `tokens`."""
        return self.output(self.hidden(tokens, documents))

    def start(
        self, tokens: Int[Tensor, "B S"], keys: Bool[Tensor, "B S"] | None = None
    ) -> DecoderState:
        """Process S earlier tokens, at least 0, and return the decode state after them.

        To continue a prompt, pass all of its tokens but the last one, and the last one to the first
        `step`, which returns the logits of the first new token. keys: True for real tokens, False
        for padding; None if nothing is padded. Raises ValueError if padding is not at the right.
        """
        state = self.decoder.start(tokens.shape[0])
        if tokens.shape[1]:
            self.extend(tokens, state)
        if keys is None:
            return state
        lengths = keys.sum(1)
        if not torch.equal(
            keys, torch.arange(keys.shape[1], device=keys.device) < lengths[:, None]
        ):
            raise ValueError(
                "keys must be True for the first tokens of each sequence: pad at the right"
            )
        return state.rewind(lengths.tolist())

    def extend(self, tokens: Int[Tensor, "N T"], state: DecoderState) -> None:
        """Process T further tokens of a prompt, whose logits are not needed; updates `state`."""
        self.decoder.step(self.embedding(tokens, state.past), state)

    def step(
        self, tokens: Int[Tensor, "N T"], state: DecoderState
    ) -> tuple[Float[Tensor, "N T V"], DecoderState]:
        """Return the logits after each of T new tokens, and the next state.

        state: the state returned by `start` or by the last `step`; it is updated in place.
        """
        hidden = self.decoder.step(self.embedding(tokens, state.past), state)
        return self.output(hidden), state


def gpt_embeddings(config: GPTConfig) -> Embeddings:
    """Make the embeddings: token ids become the input of the first block."""
    positions = kernels_and_positions.input_positions(
        config.positions, config.model_dim, 0, config.max_length
    )
    # sines have amplitude 1, so words must not be 50 times smaller; a learned table is as small
    scale = None if config.positions == "sinusoidal" else 1.0
    tokens = nn.Embedding(config.vocabulary, config.model_dim)
    return Embeddings(tokens, positions, config.dropout, scale)


def gpt_positions(config: GPTConfig) -> AttentionPositions | None:
    """Make the position encoding inside self-attention: one object for all layers."""
    return kernels_and_positions.attention_positions(
        config.positions,
        config.num_heads,
        config.head_width,
        causal=True,
        rotary_base=config.rotary_base,
    )


def _decoder(config: GPTConfig) -> DecoderOnly:
    positions = gpt_positions(config)
    blocks = (
        DecoderOnlyBlock(
            gpt_attention(config, positions), gpt_feedforward(config), gpt_residual(config)
        )
        for _ in range(config.num_layers)
    )
    return DecoderOnly(blocks, gpt_norm(config) if config.norm == "pre" else nn.Identity())


def gpt_attention(config: GPTConfig, positions: AttentionPositions | None) -> MultiHeadAttention:
    """Make the self-attention of a block; all blocks share `positions` (`gpt_positions`)."""
    heads, width = config.num_heads, config.head_width
    kernel = kernels_and_positions.kernel(config.attention, heads, width, config.window)
    if config.kv_heads == heads and not config.qk_norm:
        return MultiHeadAttention(
            config.model_dim,
            heads,
            kernel=kernel,
            head_dim=width,
            bias=config.bias,
            positions=positions,
        )
    return GroupedQueryAttention(
        config.model_dim,
        heads,
        config.kv_heads,
        kernel=kernel,
        head_dim=width,
        bias=config.bias,
        positions=positions,
        head_norm=partial(RMSNorm, eps=config.norm_eps) if config.qk_norm else nn.Identity,
    )


def gpt_feedforward(config: GPTConfig) -> FeedForward | GatedFeedForward:
    """Make the feed-forward layer of a block, which has a gate for activation=swiglu."""
    gate = GATES.get(config.activation)
    kind = FeedForward if gate is None else GatedFeedForward
    activation = ACTIVATIONS[gate or config.activation]
    return kind(config.model_dim, config.ffn_dim, activation, config.dropout, config.bias)


def gpt_norm(config: GPTConfig) -> LayerNorm | RMSNorm:
    """Make a norm of the kind that `config` names."""
    return NORMS[config.norm_kind](config.model_dim, config.norm_eps)


def gpt_residual(config: GPTConfig) -> Callable[[], Residual]:
    """Return the function that makes the residual connection around a sublayer."""
    kind = PreNorm if config.norm == "pre" else PostNorm
    return lambda: kind(gpt_norm(config), config.dropout)
