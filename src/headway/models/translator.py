"""Encoder-decoders: the Transformer of "Attention Is All You Need", RNNs, and what lies between.

Lectures 3.2 to 3.4. Any encoder works under any decoder, with any score and position scheme.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import nn

from headway.attention import AttentionPositions, Mask, MultiHeadAttention
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
)
from headway.blocks.feedforward import ACTIVATIONS
from headway.models import kernels_and_positions
from headway.models.contracts import init_weights
from headway.models.kernels_and_positions import SCHEMES, SCORES
from headway.settings import HEADS, LAYERS, LENGTH, VOCABULARY, WIDTH, setting
from headway.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True, kw_only=True)
class TranslatorConfig:
    """Shape of a `Translator`. The named sizes are in `sizes`; big and base are the 2017
    paper's."""

    encoder: Literal["transformer", "rnn", "feed-forward"] = setting(
        "transformer", "what reads the source"
    )
    decoder: Literal["transformer", "rnn"] = setting("transformer", "what writes the target")
    attention: str = setting(
        "scaled-dot",
        "the score of every attention; none: an RNN decoder sees one vector only",
        names=SCORES,
    )
    window: int = setting(16, "keys that attention=window looks back over", gt=0, le=LENGTH)
    cell: Literal["gru", "lstm"] = setting("gru", "of recurrent encoders and decoders")
    bidirectional: bool = setting(True, "a recurrent encoder reads from both ends")
    input_feeding: bool = setting(
        False, "a recurrent decoder reads what attention found one word before"
    )
    model_dim: int = setting(128, "width of every layer's input and output", gt=0, le=WIDTH)
    num_heads: int = setting(4, "attention heads; must divide model_dim", gt=0, le=HEADS)
    ffn_dim: int = setting(256, "inner width of the feed-forward layers", gt=0, le=WIDTH)
    encoder_layers: int = setting(4, "blocks in the encoder", gt=0, le=LAYERS)
    decoder_layers: int = setting(4, "blocks in the decoder", gt=0, le=LAYERS)
    dropout: float = setting(0.1, "share of activations dropped while training", ge=0, lt=1)
    norm: Literal["pre", "post"] = setting("pre", "norm before each sublayer, or after its sum")
    activation: Literal["relu", "gelu"] = setting("relu", "nonlinearity of the feed-forward layers")
    positions: str = setting(
        "sinusoidal",
        "how a token knows its place; recurrent networks need and get none",
        names=SCHEMES,
    )
    position_dim: int = setting(
        0,
        "0 adds positions to the word vectors; P > 0 concatenates P position dimensions",
        ge=0,
        le=WIDTH,
    )
    max_length: int = setting(
        1024, "longest text a learned position table can hold", gt=0, le=LENGTH
    )
    share_embeddings: bool = setting(
        True, "one matrix for source, target and output (needs one joint vocabulary)"
    )
    tie_output: bool = setting(True, "the target embedding is the output projection too")
    source_vocabulary: int = setting(8000, "pieces of the source language", gt=0, le=VOCABULARY)
    target_vocabulary: int = setting(8000, "pieces of the target language", gt=0, le=VOCABULARY)

    family: ClassVar[str] = "translator"
    sizes: ClassVar[dict[str, dict[str, int | float | str]]] = {
        "tiny": {},
        "small": {"model_dim": 256, "num_heads": 4, "ffn_dim": 1024},
        "base": {
            "model_dim": 512,
            "num_heads": 8,
            "ffn_dim": 2048,
            "encoder_layers": 6,
            "decoder_layers": 6,
            "norm": "post",
        },
        "big": {
            "model_dim": 1024,
            "num_heads": 16,
            "ffn_dim": 4096,
            "encoder_layers": 6,
            "decoder_layers": 6,
            "norm": "post",
            "dropout": 0.3,
        },
        "rnn": {
            "encoder": "rnn",
            "decoder": "rnn",
            "attention": "additive",
            "num_heads": 1,
            "model_dim": 256,
            "encoder_layers": 1,
            "decoder_layers": 1,
        },
    }

    def __post_init__(self) -> None:
        model_dim, num_heads, position_dim = self.model_dim, self.num_heads, self.position_dim
        if model_dim % num_heads:
            near = [h for h in range(1, 2 * num_heads) if model_dim % h == 0]
            raise ValueError(
                f"{model_dim=} must be a multiple of {num_heads=}; "
                f"num_heads could be {' or '.join(map(str, near[-2:]))}"
            )
        self._check_combination()
        if position_dim >= model_dim:
            raise ValueError(f"{position_dim=} leaves no room for the word in {model_dim=}")
        if position_dim and self.tie_output:
            raise ValueError(
                f"{position_dim=} makes word vectors narrower than the output projection: "
                "set tie_output and share_embeddings to false"
            )
        if self.share_embeddings and not self.tie_output:
            raise ValueError("share_embeddings ties all three matrices: tie_output must be true")
        source, target = self.source_vocabulary, self.target_vocabulary
        if self.share_embeddings and source != target:
            raise ValueError(
                f"share_embeddings needs one joint vocabulary, but source_vocabulary={source} "
                f"and target_vocabulary={target}"
            )

    def _check_combination(self) -> None:
        recurrent = self.decoder == "rnn"
        recurrent_side = recurrent or self.encoder == "rnn"
        if self.attention == "none" and not recurrent:
            raise ValueError(
                "attention=none is for decoder=rnn: a Transformer is made of attention"
            )
        if self.input_feeding and (not recurrent or self.attention == "none"):
            raise ValueError("input_feeding needs decoder=rnn and an attention to feed from")
        if self.attention == "window" and recurrent and self.encoder != "transformer":
            raise ValueError(
                "attention=window looks around a token in its own sequence, and nothing here "
                "attends to its own sequence"
            )
        if self.position_dim and recurrent_side:
            raise ValueError(
                f"position_dim={self.position_dim}: a recurrent network has no positions to "
                "concatenate; set it to 0"
            )
        positioned = not (self.encoder == self.decoder == "rnn")
        if (
            positioned
            and self.positions == "sinusoidal"
            and (self.position_dim or self.model_dim) % 2
        ):
            name = "position_dim" if self.position_dim else "model_dim"
            raise ValueError(f"positions=sinusoidal needs an even {name}: sines go with cosines")
        if self.encoder == "rnn" and self.bidirectional and self.model_dim % 2:
            raise ValueError(
                f"model_dim={self.model_dim} must be even: each direction of the encoder has half; "
                "or set bidirectional to false"
            )
        if self.positions == "rotary" and (self.model_dim // self.num_heads) % 2:
            raise ValueError(
                f"positions=rotary turns dimensions in pairs: model_dim / num_heads = "
                f"{self.model_dim // self.num_heads} must be even"
            )


class Translator(nn.Module):
    """P(y_t | y_<t, x): an encoder reads the source, a decoder writes the target word by word."""

    def __init__(self, config: TranslatorConfig) -> None:
        super().__init__()
        self.config = config
        read, written = _positions(config, config.encoder), _positions(config, config.decoder)
        width = read.token_dim(config.model_dim)
        source = nn.Embedding(config.source_vocabulary, width)
        shared = config.share_embeddings
        target = source if shared else nn.Embedding(config.target_vocabulary, width)
        self.source_embedding = Embeddings(source, read, config.dropout)
        self.encoder = _encoder(config)
        self.target_embedding = Embeddings(target, written, config.dropout)
        self.decoder = _decoder(config)
        self.output = nn.Linear(config.model_dim, config.target_vocabulary, bias=False)
        self.tie_weights()
        if self.output.weight.device.type != "meta":
            self.init_weights()

    def tie_weights(self) -> None:
        """Make the shared matrices one parameter; again after the parameters were replaced."""
        if self.config.share_embeddings:
            self.target_embedding.tokens = self.source_embedding.tokens
        if self.config.tie_output:
            self.output.weight = self.target_embedding.tokens.weight

    def init_weights(self) -> None:
        init_weights(self, tied=[self.output] if self.config.tie_output else [])

    @property
    def max_source(self) -> int | None:
        """The most source tokens, </s> included; None for any number."""
        return self.source_embedding.positions.max_length

    @property
    def max_target(self) -> int | None:
        """The most target tokens, <s> included; None for any number."""
        return self.target_embedding.positions.max_length

    def encode(
        self, source: Int[Tensor, "B S"], keys: Bool[Tensor, "B S"] | None = None
    ) -> Float[Tensor, "B S D"]:
        """Memory: one vector a source token that knows its whole sentence. keys: True = real."""
        memory: Tensor = self.encoder(self.source_embedding(source), Mask(keys=keys))
        return memory

    def decode(
        self,
        target_in: Int[Tensor, "B T"],
        memory: Float[Tensor, "B S D"],
        keys: Bool[Tensor, "B S"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """The vectors from which the next token after each of target_in is predicted."""
        x = self.target_embedding(target_in)
        hidden: Tensor = self.decoder(x, memory, Mask(keys=keys))
        return hidden

    def forward(
        self,
        source: Int[Tensor, "B S"],
        target_in: Int[Tensor, "B T"],
        keys: Bool[Tensor, "B S"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Logits of the next token after each of target_in (teacher forcing)."""
        logits: Tensor = self.output(self.decode(target_in, self.encode(source, keys), keys))
        return logits

    def start(
        self, source: Int[Tensor, "B S"], keys: Bool[Tensor, "B S"] | None = None
    ) -> DecoderState | RecurrentState:
        """Encode once; beams made by `state.reorder` share the sentence's keys and values."""
        state: DecoderState | RecurrentState = self.decoder.start(self.encode(source, keys), keys)
        return state

    def step(self, tokens: Int[Tensor, "N T"], state: Any) -> tuple[Float[Tensor, "N T V"], Any]:
        """`state`: what `start` gave, or this method the last time."""
        hidden = self.decoder.step(self.target_embedding(tokens, state.lengths), state)
        return self.output(hidden), state


def _positions(config: TranslatorConfig, side: str) -> Added | Concatenated | NoPositions:
    if side == "rnn":
        return NoPositions()  # it reads in order
    return kernels_and_positions.input_positions(
        config.positions, config.model_dim, config.position_dim, config.max_length
    )


def _attention(
    config: TranslatorConfig, within: AttentionPositions | None = None, *, own: bool = False
) -> MultiHeadAttention:
    """own: self-attention, with the positions that its stack has inside its attentions."""
    head_dim = config.model_dim // config.num_heads
    window = config.window if own else None
    kernel = kernels_and_positions.kernel(config.attention, config.num_heads, head_dim, window)
    return MultiHeadAttention(config.model_dim, config.num_heads, kernel=kernel, positions=within)


def _within(config: TranslatorConfig, *, causal: bool) -> AttentionPositions | None:
    """One object for all layers of a stack: T5's table of distances is shared by them."""
    head_dim = config.model_dim // config.num_heads
    return kernels_and_positions.attention_positions(
        config.positions, config.num_heads, head_dim, causal=causal
    )


def _feedforward(config: TranslatorConfig) -> FeedForward:
    activation = ACTIVATIONS[config.activation]
    return FeedForward(config.model_dim, config.ffn_dim, activation, config.dropout)


def _residual(config: TranslatorConfig) -> Callable[[], Residual]:
    kind = PreNorm if config.norm == "pre" else PostNorm
    return lambda: kind(LayerNorm(config.model_dim), config.dropout)


def _last_norm(config: TranslatorConfig) -> nn.Module:
    """A pre-norm stack leaves its sum unnormalised; a post-norm stack does not."""
    return LayerNorm(config.model_dim) if config.norm == "pre" else nn.Identity()


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
        plain = [FeedForwardBlock(_feedforward(config), _residual(config)) for _ in depth]
        return Encoder(plain, _last_norm(config))
    within = _within(config, causal=False)
    blocks = [
        EncoderBlock(_attention(config, within, own=True), _feedforward(config), _residual(config))
        for _ in depth
    ]
    return Encoder(blocks, _last_norm(config))


def _decoder(config: TranslatorConfig) -> Decoder | RecurrentDecoder:
    if config.decoder == "rnn":
        return _recurrent_decoder(config)
    within = _within(config, causal=True)
    blocks = (
        DecoderBlock(
            _attention(config, within, own=True),
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
