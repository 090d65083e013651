"""Encoders that read a whole text at once: BERT and its family (lectures 3.5, 3.6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import nn

from headway.attention import AttentionPositions, Mask, MultiHeadAttention
from headway.blocks import (
    Embeddings,
    Encoder,
    EncoderBlock,
    FeedForward,
    LayerNorm,
    MaskedWordHead,
    Pooler,
    PostNorm,
    PreNorm,
    Residual,
    SegmentEmbeddings,
)
from headway.blocks.feedforward import ACTIVATIONS
from headway.models import kernels_and_positions
from headway.models.contracts import init_normal
from headway.models.kernels_and_positions import KERNELS, SCHEMES
from headway.settings import COPIES, HEADS, LAYERS, LENGTH, VOCABULARY, WIDTH, setting
from headway.shapes import Bool, Float, Int, Tensor

Value = int | float | str | bool | None
PoolerName = Literal["tanh", "relu", "none"]
POOLERS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": F.relu}


def _bert(layers: int, width: int, heads: int, **others: Value) -> dict[str, Value]:
    """A size as BERT has it: the feed-forward layer is four times as wide."""
    shape = {"num_layers": layers, "model_dim": width, "num_heads": heads, "ffn_dim": 4 * width}
    return {**shape, **others}


_ROBERTA: dict[str, Value] = {
    "vocabulary": 50_265,
    "token_types": 1,
    "first_place": 2,
    "norm_eps": 1e-5,
    "pooler": "none",
    "next_sentence": False,
}
_DISTILLED: dict[str, Value] = {"token_types": 0, "pooler": "none", "next_sentence": False}
_ALBERT: dict[str, Value] = {
    "embedding_dim": 128,
    "shared_layers": True,
    "vocabulary": 30_000,
    "activation": "gelu-tanh",
}


@dataclass(frozen=True, kw_only=True)
class BertConfig:
    """Shape of a `Bert`. The named sizes are in `sizes`.

    base, large: Devlin et al. 2019, section 3 (110 and 340 million). small, mini: Turc et al. 2019.
    roberta-*: Liu et al. 2019. distilbert: Sanh et al. 2019. albert-base: Lan et al. 2020, whose
    layers share one set of weights. tinybert-*: Jiao et al. 2020, minilm: Wang et al. 2020.
    multilingual: the 104 languages' cased vocabulary. tiny: for a CPU.
    """

    model_dim: int = setting(128, "width of every layer's input and output", gt=0, le=WIDTH)
    num_heads: int = setting(4, "attention heads", gt=0, le=HEADS)
    ffn_dim: int = setting(512, "inner width of the feed-forward layers", gt=0, le=WIDTH)
    num_layers: int = setting(4, "encoder blocks", gt=0, le=LAYERS)
    shared_layers: bool = setting(False, "all blocks are one, used num_layers times (ALBERT)")
    embedding_dim: int | None = setting(
        None,
        "width of the embeddings, widened by a matrix (ALBERT); none: model_dim",
        gt=0,
        le=WIDTH,
    )
    dropout: float = setting(0.1, "share of activations dropped while training", ge=0, lt=1)
    norm: Literal["pre", "post"] = setting("post", "norm before each sublayer, or after its sum")
    norm_eps: float = setting(1e-12, "added to the variance under a norm's root", gt=0)
    activation: Literal["relu", "gelu", "gelu-tanh", "silu"] = setting(
        "gelu", "nonlinearity of the feed-forward layers"
    )
    positions: str = setting("learned", "how a token knows its place", names=SCHEMES)
    first_place: int = setting(
        0, "rows of a learned table before the first token's", ge=0, le=LENGTH
    )
    attention: str = setting("scaled-dot", "the score of every attention", names=KERNELS)
    window: int = setting(128, "keys to each side with attention=window", gt=0, le=LENGTH)
    max_length: int = setting(
        512, "longest text, its marks included; a learned table ends there", gt=0, le=LENGTH
    )
    token_types: int = setting(
        2, "kinds of text in one input (first, second); 0: none", ge=0, le=COPIES
    )
    pooler: PoolerName = setting(
        "tanh", "activation of the layer that makes a text's vector of [CLS]; none: no such layer"
    )
    masked_words: bool = setting(True, "has the head that guesses hidden words")
    next_sentence: bool = setting(True, "has the head that says whether the second text follows")
    vocabulary: int = setting(8000, "pieces of the language", gt=0, le=VOCABULARY)

    family: ClassVar[str] = "bert"
    sizes: ClassVar[dict[str, dict[str, Value]]] = {
        "tiny": {},
        "mini": _bert(4, 256, 4, vocabulary=30_522),
        "small": _bert(4, 512, 8, vocabulary=30_522),
        "base": _bert(12, 768, 12, vocabulary=30_522),
        "large": _bert(24, 1024, 16, vocabulary=30_522),
        "multilingual": _bert(12, 768, 12, vocabulary=119_547),
        "roberta-base": _bert(12, 768, 12, **_ROBERTA),
        "roberta-large": _bert(24, 1024, 16, **_ROBERTA),
        "distilbert": _bert(6, 768, 12, **_DISTILLED, vocabulary=30_522),
        "albert-base": _bert(12, 768, 12, **_ALBERT),
        "tinybert-4": {**_bert(4, 312, 12, vocabulary=30_522), "ffn_dim": 1200},
        "tinybert-6": _bert(6, 768, 12, vocabulary=30_522),
        "minilm": _bert(6, 384, 12, vocabulary=30_522),
    }

    @property
    def embedding_width(self) -> int:
        return self.embedding_dim or self.model_dim

    def __post_init__(self) -> None:
        model_dim, num_heads = self.model_dim, self.num_heads
        if model_dim % num_heads:
            raise ValueError(f"{model_dim=} must be a multiple of {num_heads=}")
        if self.max_length < 3:
            raise ValueError(f"max_length={self.max_length} must be at least 3: two are marks")
        if self.next_sentence and self.pooler == "none":
            raise ValueError("next_sentence needs a pooler: it judges the text's vector")
        if self.positions == "sinusoidal" and self.embedding_width % 2:
            raise ValueError("positions=sinusoidal needs an even width: sines go with cosines")
        if self.positions == "rotary" and (model_dim // num_heads) % 2:
            raise ValueError("positions=rotary turns dimensions in pairs: a head's must be even")


class Bert(nn.Module):
    """Segment embeddings and encoder blocks; on them what the configuration asks for: a pooler, the
    heads for hidden words and for the next sentence (None where it does not).

    Devlin et al. 2019; Liu et al. 2019 (RoBERTa); Sanh et al. 2019; Lan et al. 2020 (ALBERT).
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        width, narrow = config.model_dim, config.embedding_width
        self.embedding = _embedding(config)
        self.widen = nn.Identity() if narrow == width else nn.Linear(narrow, width)
        self.encoder = _encoder(config)
        self.pooler = None if config.pooler == "none" else Pooler(width, POOLERS[config.pooler])
        self.masked_words: MaskedWordHead | None = None
        if config.masked_words:
            activation, norm = ACTIVATIONS[config.activation], LayerNorm(narrow, config.norm_eps)
            self.masked_words = MaskedWordHead(width, narrow, config.vocabulary, activation, norm)
        self.next_sentence = nn.Linear(width, 2) if config.next_sentence else None
        self.tie_weights()
        if self.tokens.weight.device.type != "meta":
            self.init_weights()

    @property
    def tokens(self) -> nn.Embedding:
        """The token embedding."""
        return self.embedding.words.tokens

    def tie_weights(self) -> None:
        """Make the shared matrix one parameter; again after the parameters were replaced."""
        if self.masked_words is not None:
            self.masked_words.output.weight = self.tokens.weight

    def init_weights(self) -> None:
        """N(0, 0.02^2) and zero biases, as BERT's."""
        init_normal(self, std=0.02)

    @property
    def max_length(self) -> int | None:
        """The most tokens of an input, marks included; None for any number."""
        return self.config.max_length if self.config.positions == "learned" else None

    def encode(
        self,
        tokens: Int[Tensor, "B T"],
        keys: Bool[Tensor, "B T"] | None = None,
        types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Every token's vector in its context.

        keys: True = real, None where nothing is padded. types: 1 for tokens of a second text; not
        looked at by a model that knows one kind of text (RoBERTa).
        """
        if self.config.token_types < 2:
            types = None
        embedded = self.widen(self.embedding(tokens, types))
        hidden: Tensor = self.encoder(embedded, Mask(keys=keys))
        return hidden

    def pool(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B D"]:
        """One vector for each text, from [CLS]'s. ValueError for a model without a pooler."""
        if self.pooler is None:
            raise ValueError("this model has no pooler")
        pooled: Tensor = self.pooler(hidden)
        return pooled

    def words(self, hidden: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        """Logits of the word at each place. ValueError for a model without that head."""
        if self.masked_words is None:
            raise ValueError("this model has no head for hidden words")
        logits: Tensor = self.masked_words(hidden)
        return logits

    def follows(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B 2"]:
        """Logits of: the second text follows the first (0), it stands elsewhere (1).

        ValueError for a model without that head.
        """
        if self.next_sentence is None:
            raise ValueError("this model has no head for the next sentence")
        logits: Tensor = self.next_sentence(self.pool(hidden))
        return logits

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        keys: Bool[Tensor, "B T"] | None = None,
        types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Logits of the word at every place."""
        return self.words(self.encode(tokens, keys, types))


def _embedding(config: BertConfig) -> SegmentEmbeddings:
    width = config.embedding_width
    positions = kernels_and_positions.input_positions(
        config.positions, width, 0, config.max_length + config.first_place
    )
    return SegmentEmbeddings(
        Embeddings(nn.Embedding(config.vocabulary, width), positions, scale=1.0),
        nn.Embedding(config.token_types, width) if config.token_types else None,
        LayerNorm(width, config.norm_eps),
        config.dropout,
        config.first_place,
    )


def _encoder(config: BertConfig) -> Encoder:
    width, heads = config.model_dim, config.num_heads
    within = kernels_and_positions.attention_positions(
        config.positions, heads, width // heads, causal=False
    )
    count = 1 if config.shared_layers else config.num_layers
    blocks = [_block(config, within) for _ in range(count)]
    norm = LayerNorm(width, config.norm_eps) if config.norm == "pre" else nn.Identity()
    return Encoder(blocks * (config.num_layers // count), norm)


def _block(config: BertConfig, within: AttentionPositions | None) -> EncoderBlock:
    """`within`: one object for all blocks, as positions know nothing of depth."""
    width, heads = config.model_dim, config.num_heads
    kernel = kernels_and_positions.kernel(config.attention, heads, width // heads, config.window)
    attention = MultiHeadAttention(width, heads, kernel=kernel, positions=within)
    activation = ACTIVATIONS[config.activation]

    def residual() -> Residual:
        kind = PreNorm if config.norm == "pre" else PostNorm
        return kind(LayerNorm(width, config.norm_eps), config.dropout)

    return EncoderBlock(attention, FeedForward(width, config.ffn_dim, activation), residual)
