"""BERT: P(x_t | all other words) = softmax(E f(h_t)), h = encoder(x).

A Transformer encoder is trained to predict masked words from the words on both sides (masked
language modelling). Its vectors then serve other tasks: classes, tags, answers, embeddings.

>>> import torch
>>> from headway.models import Bert, BertConfig
>>> config = BertConfig(model_dim=8, num_heads=2, ffn_dim=16, num_layers=1, vocabulary=10)
>>> model = Bert(config).eval()
>>> mask = 4  # the id of [MASK], which replaces the second of three words
>>> prediction = model(torch.tensor([[7, mask, 9]]))[0, 1]  # logits of the masked word
>>> prediction.softmax(-1).sum().item() > 0.999  # a distribution over the 10 words
True
>>> torch.equal(prediction, model(torch.tensor([[6, mask, 9]]))[0, 1])  # another word at the left
False
>>> torch.equal(prediction, model(torch.tensor([[7, mask, 8]]))[0, 1])  # another one at the right
False
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import nn

from headway.attention import AttentionPositions, Mask, MultiHeadAttention
from headway.base.settings import (
    COPIES,
    HEADS,
    LAYERS,
    LENGTH,
    VOCABULARY,
    WIDTH,
    count,
    fraction,
    setting,
)
from headway.base.shapes import Bool, Float, Int, Tensor
from headway.blocks import (
    Embeddings,
    Encoder,
    EncoderBlock,
    FeedForward,
    LayerNorm,
    MaskedTokenHead,
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

Value = int | float | str | bool | None
PoolerName = Literal["tanh", "relu", "none"]
POOLERS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": F.relu}


def _bert(layers: int, width: int, heads: int, **changes: Value) -> dict[str, Value]:
    """Return a size of BERT, whose feed-forward layers are four times as wide as the model."""
    shape = {"num_layers": layers, "model_dim": width, "num_heads": heads, "ffn_dim": 4 * width}
    return {**shape, **changes}


_ROBERTA: dict[str, Value] = {
    "vocabulary": 50_265,
    "token_types": 1,
    "first_position": 2,
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
    """Architecture of a `Bert`. The named sizes are in `sizes`.

    base, large: Devlin et al. 2019, section 3 (110 and 340 million parameters). small, mini: Turc
    et al. 2019. roberta-*: Liu et al. 2019. distilbert: Sanh et al. 2019. albert-base: Lan et al.
    2020, whose layers share their weights. tinybert-*: Jiao et al. 2020. minilm: Wang et al. 2020.
    multilingual: with the cased vocabulary of 104 languages. tiny: for a CPU.
    """

    model_dim: int = count(128, "model width: size of the vectors between layers", WIDTH)
    num_heads: int = count(4, "number of attention heads", HEADS)
    ffn_dim: int = count(512, "inner dimension of the feed-forward layers", WIDTH)
    num_layers: int = count(4, "number of encoder layers", LAYERS)
    shared_layers: bool = setting(False, "all layers share their weights (ALBERT)")
    embedding_dim: int | None = count(
        None, "embedding dimension, projected to model_dim (ALBERT); if unset, model_dim", WIDTH
    )
    dropout: float = fraction(0.1, "dropout probability of activations")
    norm: Literal["pre", "post"] = setting("post", "pre-norm or post-norm residual connections")
    norm_eps: float = setting(1e-12, "epsilon of the norms, added to the variance", gt=0)
    activation: Literal["relu", "gelu", "gelu-tanh", "silu"] = setting(
        "gelu", "activation function of the feed-forward layers"
    )
    positions: str = setting("learned", "position encoding", names=SCHEMES)
    first_position: int = count(
        0, "position of the first token in a learned position table (RoBERTa: 2)", LENGTH, least=0
    )
    attention: str = setting("scaled-dot", "attention score of all layers", names=KERNELS)
    window: int = count(
        128, "window size of sliding-window attention to each side, in tokens", LENGTH
    )
    max_length: int = count(512, "maximum number of tokens, including special tokens", LENGTH)
    token_types: int = count(
        2, "number of segments (first and second text); 0: no segment embedding", COPIES, least=0
    )
    pooler: PoolerName = setting(
        "tanh",
        "activation of the pooler, a layer that turns [CLS] into the text vector, or none",
    )
    masked_lm_head: bool = setting(True, "head of masked language modelling")
    next_sentence: bool = setting(True, "head of next-sentence prediction")
    vocabulary: int = count(8000, "vocabulary size", VOCABULARY)

    family: ClassVar[str] = "bert"
    sizes: ClassVar[dict[str, dict[str, Value]]] = {
        "tiny": _bert(4, 128, 4),
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
        """The dimension of the embeddings."""
        return self.embedding_dim or self.model_dim

    def __post_init__(self) -> None:
        model_dim, num_heads = self.model_dim, self.num_heads
        if model_dim % num_heads:
            raise ValueError(f"{model_dim=} must be a multiple of {num_heads=}")
        if self.max_length < 3:
            raise ValueError(
                f"max_length={self.max_length} must be at least 3: two are special tokens"
            )
        if self.next_sentence and self.pooler == "none":
            raise ValueError(
                "next_sentence needs a pooler, whose vector it classifies: set pooler=tanh"
            )
        if self.positions == "sinusoidal" and self.embedding_width % 2:
            raise ValueError(
                f"positions=sinusoidal needs an even width, not {self.embedding_width}: sines and "
                "cosines are in pairs"
            )
        if self.positions == "rotary" and (model_dim // num_heads) % 2:
            raise ValueError(
                "positions=rotary rotates pairs of dimensions: the dimension of a head, "
                f"{model_dim // num_heads}, must be even"
            )


class Bert(nn.Module):
    """Segment embeddings, an encoder, and the pooler and pre-training heads that `config` names.

    masked_lm_head: the head of masked language modelling; next_sentence: the head of next-sentence
    prediction; pooler: makes one vector of a text. Each is None if the configuration has none.
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
        self.masked_lm_head: MaskedTokenHead | None = None
        if config.masked_lm_head:
            activation, norm = ACTIVATIONS[config.activation], LayerNorm(narrow, config.norm_eps)
            self.masked_lm_head = MaskedTokenHead(
                width, narrow, config.vocabulary, activation, norm
            )
        self.next_sentence = nn.Linear(width, 2) if config.next_sentence else None
        self.tie_weights()
        if not self.tokens.weight.is_meta:
            self.init_weights()

    @property
    def tokens(self) -> nn.Embedding:
        """The token embedding."""
        return self.embedding.words.tokens

    def tie_weights(self) -> None:
        """Make the shared matrix one parameter; call it again after replacing parameters."""
        if self.masked_lm_head is not None:
            self.masked_lm_head.output.weight = self.tokens.weight

    def init_weights(self) -> None:
        """Initialise with N(0, 0.02^2) and zero biases, as the released code of BERT."""
        init_normal(self, std=0.02)

    @property
    def max_length(self) -> int | None:
        """The maximum number of tokens, including special tokens; None if there is no limit."""
        return self.config.max_length if self.config.positions == "learned" else None

    def encode(
        self,
        tokens: Int[Tensor, "B T"],
        keys: Bool[Tensor, "B T"] | None = None,
        types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Return the vector of each token, which depends on the whole text.

        keys: True for real tokens, False for padding; None if nothing is padded. types: the segment
        of each token, 1 in a second text; ignored by a model with one segment (RoBERTa).
        """
        if self.config.token_types < 2:
            types = None
        embedded = self.widen(self.embedding(tokens, types))
        return self.encoder(embedded, Mask(keys=keys))

    def pool(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B D"]:
        """Return one vector for each text, from [CLS]. ValueError for a model without a pooler."""
        if self.pooler is None:
            raise ValueError(
                "this model has no pooler: use the vector of [CLS] or the mean instead"
            )
        return self.pooler(hidden)

    def words(self, hidden: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        """Return the logits of the word at each position.

        Raises ValueError for a model without the head of masked language modelling.
        """
        if self.masked_lm_head is None:
            raise ValueError("this model has no head of masked language modelling (masked_lm_head)")
        return self.masked_lm_head(hidden)

    def follows(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B 2"]:
        """Return the logits of next-sentence prediction: the second text follows (0) or not (1).

        Raises ValueError for a model without that head.
        """
        if self.next_sentence is None:
            raise ValueError("this model has no head of next-sentence prediction (next_sentence)")
        return self.next_sentence(self.pool(hidden))

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        keys: Bool[Tensor, "B T"] | None = None,
        types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of the word at each position."""
        return self.words(self.encode(tokens, keys, types))


def _embedding(config: BertConfig) -> SegmentEmbeddings:
    width = config.embedding_width
    positions = kernels_and_positions.input_positions(
        config.positions, width, 0, config.max_length + config.first_position
    )
    return SegmentEmbeddings(
        Embeddings(nn.Embedding(config.vocabulary, width), positions, scale=1.0),
        nn.Embedding(config.token_types, width) if config.token_types else None,
        LayerNorm(width, config.norm_eps),
        config.dropout,
        config.first_position,
    )


def _encoder(config: BertConfig) -> Encoder:
    width, heads = config.model_dim, config.num_heads
    positions = kernels_and_positions.attention_positions(
        config.positions, heads, width // heads, causal=False
    )
    count = 1 if config.shared_layers else config.num_layers
    blocks = [_block(config, positions) for _ in range(count)]
    norm = LayerNorm(width, config.norm_eps) if config.norm == "pre" else nn.Identity()
    return Encoder(blocks * (config.num_layers // count), norm)


def _block(config: BertConfig, positions: AttentionPositions | None) -> EncoderBlock:
    """Make one block; all blocks share `positions`, the encoding inside self-attention."""
    width, heads = config.model_dim, config.num_heads
    kernel = kernels_and_positions.kernel(config.attention, heads, width // heads, config.window)
    attention = MultiHeadAttention(width, heads, kernel=kernel, positions=positions)
    activation = ACTIVATIONS[config.activation]

    def residual() -> Residual:
        kind = PreNorm if config.norm == "pre" else PostNorm
        return kind(LayerNorm(width, config.norm_eps), config.dropout)

    return EncoderBlock(attention, FeedForward(width, config.ffn_dim, activation), residual)
