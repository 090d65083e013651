"""Encoder-decoder: P(y_1 ... y_T | x) = product over t of P(y_t | y_1 ... y_(t-1), memory(x)).

An encoder turns the source x into the memory, one vector for each token; a decoder predicts the
target y word by word from the words before it and the memory. Both may be Transformers, recurrent
networks or a mixture, with any attention score and position encoding.

>>> import torch
>>> from headway.models import Translator, TranslatorConfig
>>> size = {"model_dim": 8, "num_heads": 2, "ffn_dim": 16, "encoder_layers": 1, "decoder_layers": 1}
>>> config = TranslatorConfig(**size, source_vocabulary=10, target_vocabulary=10)
>>> model = Translator(config).eval()
>>> source, target = torch.tensor([[7, 8, 9]]), torch.tensor([[1, 5, 6]])  # <s> and two words
>>> logits = model(source, target)  # B T V: three predictions, all at once (teacher forcing)
>>> logits.softmax(-1).sum(-1).detach().round(decimals=2)  # each is a distribution over V = 10
tensor([[1., 1., 1.]])
>>> state = model.start(source)  # the same word by word: the encoder runs once
>>> steps = [model.step(word, state)[0] for word in target.split(1, dim=1)]
>>> torch.allclose(torch.cat(steps, dim=1), logits, atol=1e-5)
True
"""

from collections.abc import Callable
from typing import Any

from torch import nn

from headway.attention import AttentionPositions, Mask, MultiHeadAttention
from headway.base.shapes import Bool, Float, Int, Tensor
from headway.blocks import (
    Added,
    Attentional,
    Bridge,
    Concatenated,
    Decoder,
    DecoderBlock,
    DecoderState,
    Embeddings,
    Encoder,
    EncoderBlock,
    FeedForward,
    FeedForwardBlock,
    GatedFeedForward,
    LastState,
    LayerNorm,
    MeanState,
    NoPositions,
    PostNorm,
    PreNorm,
    RecurrentDecoder,
    RecurrentEncoder,
    RecurrentLayers,
    RecurrentState,
    Residual,
    RMSNorm,
)
from headway.blocks.feedforward import ACTIVATIONS, GATES
from headway.models import kernels_and_positions
from headway.models.contracts import init_weights
from headway.models.translator_config import TranslatorConfig


class Translator(nn.Module):
    """P(y_t | y_<t, x) = softmax(W decoder(y_<t, encoder(x))).

    It follows the contract of decoding: `start` encodes the source, `step` decodes further tokens.
    Transformer: Vaswani et al. 2017; recurrent: Sutskever et al. 2014, Bahdanau et al. 2015, Luong
    et al. 2015.
    """

    def __init__(self, config: TranslatorConfig) -> None:
        super().__init__()
        self.config = config
        source_positions = _input_positions(config, config.encoder)
        target_positions = _input_positions(config, config.decoder)
        width = source_positions.token_dim(config.model_dim)
        source = nn.Embedding(config.source_vocabulary, width)
        shared = config.share_embeddings
        target = source if shared else nn.Embedding(config.target_vocabulary, width)
        self.source_embedding = _embeddings(config, source, source_positions)
        self.encoder = _encoder(config)
        self.target_embedding = _embeddings(config, target, target_positions)
        self.decoder = _decoder(config)
        self.output = nn.Linear(config.model_dim, config.target_vocabulary, config.output_bias)
        self.output_scale = config.model_dim**-0.5 if config.scale_output else 1.0
        self.tie_weights()
        if not self.output.weight.is_meta:
            self.init_weights()

    def tie_weights(self) -> None:
        """Make the shared matrices one parameter; call it again after replacing parameters."""
        if self.config.share_embeddings:
            self.target_embedding.tokens = self.source_embedding.tokens
        if self.config.tie_output:
            self.output.weight = self.target_embedding.tokens.weight

    def init_weights(self) -> None:
        init_weights(self, tied=[self.output] if self.config.tie_output else [])

    @property
    def max_source(self) -> int | None:
        """The maximum number of source tokens, including </s>; None if there is no limit."""
        return self.source_embedding.positions.max_length

    @property
    def max_target(self) -> int | None:
        """The maximum number of target tokens, including <s>; None if there is no limit."""
        return self.target_embedding.positions.max_length

    def encode(
        self, source: Int[Tensor, "B S"], keys: Bool[Tensor, "B S"] | None = None
    ) -> Float[Tensor, "B S D"]:
        """Return the memory: one vector for each source token, computed from the whole source.

        keys: True for real tokens, False for padding; None if nothing is padded.
        """
        return self.encoder(self.source_embedding(source), Mask(keys=keys))

    def decode(
        self,
        target_in: Int[Tensor, "B T"],
        memory: Float[Tensor, "B S D"],
        keys: Bool[Tensor, "B S"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Return the hidden vectors that predict the next token after each token of target_in.

        keys: True for real source tokens, False for padding; None if nothing is padded.
        """
        x = self.target_embedding(target_in)
        hidden: Tensor = self.decoder(x, memory, Mask(keys=keys))
        return hidden * self.output_scale

    def forward(
        self,
        source: Int[Tensor, "B S"],
        target_in: Int[Tensor, "B T"],
        keys: Bool[Tensor, "B S"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of the next token after each token of target_in (teacher forcing)."""
        return self.output(self.decode(target_in, self.encode(source, keys), keys))

    def start(
        self, source: Int[Tensor, "B S"], keys: Bool[Tensor, "B S"] | None = None
    ) -> DecoderState | RecurrentState:
        """Encode the source once and return the decode state before the first target token.

        Beams made by `state.reorder` share the keys and values of their sentence.
        """
        state: DecoderState | RecurrentState = self.decoder.start(self.encode(source, keys), keys)
        return state

    def step(self, tokens: Int[Tensor, "N T"], state: Any) -> tuple[Float[Tensor, "N T V"], Any]:
        hidden = self.decoder.step(self.target_embedding(tokens, state.past), state)
        return self.output(hidden * self.output_scale), state


def _embeddings(
    config: TranslatorConfig, tokens: nn.Embedding, positions: Added | Concatenated | NoPositions
) -> Embeddings:
    scale = None if config.scale_embeddings else 1.0
    norm = _norm(config) if config.embedding_norm else None
    return Embeddings(tokens, positions, config.dropout, scale, norm)


def _input_positions(
    config: TranslatorConfig, architecture: str
) -> Added | Concatenated | NoPositions:
    if architecture == "rnn":
        return NoPositions()  # a recurrent network reads its input in order
    return kernels_and_positions.input_positions(
        config.positions,
        config.model_dim,
        config.position_dim,
        config.max_length,
        config.sinusoids,
        config.first_position,
    )


def _attention(
    config: TranslatorConfig,
    positions: AttentionPositions | None = None,
    *,
    self_attention: bool = False,
) -> MultiHeadAttention:
    """Make self-attention, with the position encoding of its stack, or cross-attention."""
    heads, head_dim = config.num_heads, config.head_width
    window = config.window if self_attention else None
    kernel = kernels_and_positions.kernel(config.attention, heads, head_dim, window)
    return MultiHeadAttention(
        config.model_dim,
        heads,
        kernel=kernel,
        head_dim=head_dim,
        bias=config.bias,
        positions=positions,
    )


def _attention_positions(config: TranslatorConfig, *, causal: bool) -> AttentionPositions | None:
    """Make the position encoding inside self-attention: one object for all layers of a stack.

    The layers share its parameters, as T5's share their table of distances.
    """
    return kernels_and_positions.attention_positions(
        config.positions, config.num_heads, config.head_width, causal=causal
    )


def _feedforward(config: TranslatorConfig) -> FeedForward | GatedFeedForward:
    gate = GATES.get(config.activation)
    kind = FeedForward if gate is None else GatedFeedForward
    activation = ACTIVATIONS[gate or config.activation]
    return kind(config.model_dim, config.ffn_dim, activation, config.dropout, config.bias)


def _norm(config: TranslatorConfig) -> LayerNorm | RMSNorm:
    kind = LayerNorm if config.norm_kind == "layer" else RMSNorm
    return kind(config.model_dim, config.norm_eps)


def _residual(config: TranslatorConfig) -> Callable[[], Residual]:
    kind = PreNorm if config.norm == "pre" else PostNorm
    return lambda: kind(_norm(config), config.dropout)


def _last_norm(config: TranslatorConfig) -> nn.Module:
    """Make the norm after the last block: only a pre-norm stack leaves its sum unnormalised."""
    return _norm(config) if config.norm == "pre" else nn.Identity()


def _encoder(config: TranslatorConfig) -> Encoder | RecurrentEncoder:
    depth = range(config.encoder_layers)
    if config.encoder == "rnn":
        return RecurrentEncoder(
            config.cell,
            config.model_dim,
            config.encoder_layers,
            config.bidirectional,
            config.dropout,
        )
    if config.encoder == "feed-forward":
        position_wise = [FeedForwardBlock(_feedforward(config), _residual(config)) for _ in depth]
        return Encoder(position_wise, _last_norm(config))
    positions = _attention_positions(config, causal=False)
    blocks = [
        EncoderBlock(
            _attention(config, positions, self_attention=True),
            _feedforward(config),
            _residual(config),
        )
        for _ in depth
    ]
    return Encoder(blocks, _last_norm(config))


def _decoder(config: TranslatorConfig) -> Decoder | RecurrentDecoder:
    if config.decoder == "rnn":
        return _recurrent_decoder(config)
    positions = _attention_positions(config, causal=True)
    blocks = (
        DecoderBlock(
            _attention(config, positions, self_attention=True),
            _attention(config),
            _feedforward(config),
            _residual(config),
        )
        for _ in range(config.decoder_layers)
    )
    return Decoder(blocks, _last_norm(config))


def _recurrent_decoder(config: TranslatorConfig) -> RecurrentDecoder:
    width = config.model_dim
    layers = RecurrentLayers(
        config.cell,
        2 * width if config.input_feeding else width,
        width,
        config.decoder_layers,
        config.dropout,
    )
    context = LastState(config.bidirectional) if config.encoder == "rnn" else MeanState()
    readout = None if config.attention == "none" else Attentional(_attention(config), width)
    return RecurrentDecoder(
        layers,
        Bridge(context, width, layers.state_dim),
        readout,
        input_feeding=config.input_feeding,
        dropout=config.dropout,
    )
