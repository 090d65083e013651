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

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from headway.attention import (
    AttentionPositions,
    DisentangledAttention,
    DistanceVectors,
    Mask,
    MultiHeadAttention,
    RelativeBuckets,
)
from headway.base.shapes import Bool, Float, Int, Tensor
from headway.blocks import (
    Embeddings,
    Encoder,
    EncoderBlock,
    FeedForward,
    GatedFeedForward,
    MaskedTokenHead,
    Pooler,
    PostNorm,
    PreNorm,
    ReplacedTokenHead,
    Residual,
    SegmentEmbeddings,
)
from headway.blocks.feedforward import ACTIVATIONS, GATES
from headway.blocks.norms import NORMS, Norm
from headway.models import kernels_and_positions
from headway.models.bert_config import BertConfig, PoolerName
from headway.models.contracts import init_normal
from headway.models.kernels_and_positions import Limits, RotaryKind

POOLERS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-norm": F.gelu,
}


class Bert(nn.Module):
    """Segment embeddings, an encoder, and the pooler and pre-training heads that `config` names.

    masked_lm_head: the head of masked language modelling; next_sentence: the head of next-sentence
    prediction; replaced_token_head: that of ELECTRA; pooler: makes one vector of a text. Each is
    None if the configuration has none.
    Devlin et al. 2019; Liu et al. 2019 (RoBERTa); Sanh et al. 2019; Lan et al. 2020 (ALBERT).
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        width, narrow = config.model_dim, config.embedding_width
        self.embedding = _embedding(config)
        self.widen = nn.Identity() if narrow == width else nn.Linear(narrow, width)
        self.encoder = _encoder(config)
        self.pooler = bert_pooler(config, config.pooler)
        activation = ACTIVATIONS[GATES.get(config.activation, config.activation)]
        self.masked_lm_head: MaskedTokenHead | None = None
        if config.masked_lm_head:
            norm = bert_norm(config, narrow)
            self.masked_lm_head = MaskedTokenHead(
                width, narrow, config.vocabulary, activation, norm, config.head_bias
            )
        self.next_sentence = nn.Linear(width, 2) if config.next_sentence else None
        has_detector = config.replaced_token_head
        self.replaced_token_head = ReplacedTokenHead(width, activation) if has_detector else None
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

    def replaced(self, hidden: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Return the logit that the token at each position was replaced by another (ELECTRA).

        Raises ValueError for a model without that head.
        """
        if self.replaced_token_head is None:
            raise ValueError("this model has no head of replaced tokens (replaced_token_head)")
        return self.replaced_token_head(hidden)

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        keys: Bool[Tensor, "B T"] | None = None,
        types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of the word at each position."""
        return self.words(self.encode(tokens, keys, types))


def bert_norm(config: BertConfig, width: int | None = None) -> Norm:
    """Make a norm of the kind that `config` names. width: model_dim unless set."""
    return NORMS[config.norm_kind](width or config.model_dim, config.norm_eps)


def bert_pooler(config: BertConfig, name: PoolerName) -> Pooler | None:
    """Make the pooler with this activation; None for "none"."""
    if name == "none":
        return None
    if name == "gelu-norm":
        return Pooler(config.model_dim, POOLERS[name], bert_norm(config), config.head_bias)
    return Pooler(config.model_dim, POOLERS[name])


def _embedding(config: BertConfig) -> SegmentEmbeddings:
    width = config.embedding_width
    positions = kernels_and_positions.input_positions(
        config.positions, width, 0, config.max_length + config.first_position
    )
    return SegmentEmbeddings(
        Embeddings(nn.Embedding(config.vocabulary, width), positions, scale=1.0),
        nn.Embedding(config.token_types, width) if config.token_types else None,
        bert_norm(config, width),
        config.dropout,
        config.first_position,
    )


def _encoder(config: BertConfig) -> Encoder:
    positions = {kind: bert_positions(config, kind) for kind in dict.fromkeys(config.kinds)}
    if config.local_rotary_base is None:  # the angles are then computed once for all layers
        positions = dict.fromkeys(positions, next(iter(positions.values())))
    distances = None
    if config.positions == "disentangled":
        distances = DistanceVectors(
            config.model_dim, config.relative_buckets, config.max_length, bert_norm(config)
        )
    count = 1 if config.shared_layers else config.num_layers
    blocks = [
        EncoderBlock(
            bert_attention(config, kind, positions[kind], distances),
            bert_feedforward(config),
            lambda: bert_residual(config),
        )
        for kind in config.kinds[:count]
    ]
    if not config.first_norm:
        blocks[0].around_attention = PreNorm(nn.Identity(), config.dropout)
    norm = bert_norm(config) if config.norm == "pre" else nn.Identity()
    return Encoder(blocks * (config.num_layers // count), norm)


def bert_positions(config: BertConfig, kind: str) -> AttentionPositions | None:
    """Make the position encoding inside self-attention: one object for all layers of a kind."""
    heads, buckets = config.num_heads, config.relative_buckets
    if buckets and config.positions != "disentangled":
        return RelativeBuckets(heads, causal=False, num_buckets=buckets)
    is_local = kind == "l" and config.local_rotary_base is not None
    base = (is_local and config.local_rotary_base) or config.rotary_base
    return kernels_and_positions.attention_positions(
        config.positions, heads, config.model_dim // heads, causal=False, rotary=RotaryKind(base)
    )


def bert_attention(
    config: BertConfig,
    kind: str,
    positions: AttentionPositions | None,
    distances: DistanceVectors | None,
) -> MultiHeadAttention:
    """Make the self-attention of a block; all blocks share `positions` and `distances`."""
    width, heads = config.model_dim, config.num_heads
    limits = Limits(window=config.window if kind == "l" else None)
    if distances is not None:
        return DisentangledAttention(width, heads, distances, window=limits.window)
    kernel = kernels_and_positions.kernel(
        config.attention, heads, width // heads, config.window, limits
    )
    return MultiHeadAttention(width, heads, kernel=kernel, positions=positions, bias=config.bias)


def bert_feedforward(config: BertConfig) -> FeedForward | GatedFeedForward:
    """Make the feed-forward layer of a block, which has a gate for swiglu and geglu."""
    gate = GATES.get(config.activation)
    kind = FeedForward if gate is None else GatedFeedForward
    activation = ACTIVATIONS[gate or config.activation]
    return kind(config.model_dim, config.ffn_dim, activation, bias=config.bias)


def bert_residual(config: BertConfig) -> Residual:
    """Make the residual connection around a sublayer."""
    kind = PreNorm if config.norm == "pre" else PostNorm
    return kind(bert_norm(config), config.dropout)
