"""Transcriber: P(y_1 ... y_T | sound) = product over t of P(y_t | y_1 ... y_(t-1), encoder(sound)).

An encoder processes the log-mel spectrogram of a window of sound once; a decoder writes the words
that are spoken, one token after another, and attends to the vectors of the sound at each. The first
tokens that it reads say what to write: the language, a transcript or a translation, with the times
of the words or without.

>>> import torch
>>> from headway.models import Transcriber, TranscriberConfig
>>> size = {"model_dim": 8, "num_heads": 2, "ffn_dim": 16, "encoder_layers": 1, "decoder_layers": 1}
>>> config = TranscriberConfig(mels=4, source_positions=10, vocabulary=12, max_length=6, **size)
>>> model = Transcriber(config).eval()
>>> sound = torch.randn(1, 4, 20)  # B Y X: 20 frames of 4 mel bands
>>> model.encode(sound).shape  # the memory: one vector for two frames
torch.Size([1, 10, 8])
>>> tokens = torch.tensor([[9, 5, 6]])  # the start token and two tokens of the transcript
>>> logits = model(sound, tokens)  # B T V: the prediction after each of them
>>> (logits != model(-sound, tokens)).any(-1)  # every prediction depends on the sound
tensor([[True, True, True]])
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from headway.attention import Mask, MultiHeadAttention
from headway.base.settings import HEADS, LAYERS, LENGTH, PIXELS, VOCABULARY, WIDTH, count, fraction
from headway.base.shapes import Float, Int, Tensor
from headway.blocks import (
    Added,
    Decoder,
    DecoderBlock,
    DecoderState,
    Embeddings,
    Encoder,
    EncoderBlock,
    FeedForward,
    LayerNorm,
    LearnedTable,
    PreNorm,
    SoundEmbedding,
)
from headway.blocks.feedforward import ACTIVATIONS
from headway.models.contracts import init_weights

EPSILON = 1e-5


def _size(layers: int, width: int, heads: int, **changes: int) -> dict[str, int]:
    shape = {"encoder_layers": layers, "decoder_layers": layers}
    return {**shape, "model_dim": width, "num_heads": heads, "ffn_dim": 4 * width, **changes}


@dataclass(frozen=True, kw_only=True)
class TranscriberConfig:
    """Architecture of a `Transcriber`. The named sizes are those of Radford et al. 2023, table 1;
    large-v3 has 128 mel bands, and turbo 4 decoder layers."""

    mels: int = count(80, "number of mel bands of the spectrogram", PIXELS)
    source_positions: int = count(
        1500, "maximum number of vectors of the encoder; each is two frames", LENGTH
    )
    model_dim: int = count(384, "model width: size of the vectors between layers", WIDTH)
    num_heads: int = count(6, "number of attention heads; must divide model_dim", HEADS)
    ffn_dim: int = count(1536, "inner dimension of the feed-forward layers", WIDTH)
    encoder_layers: int = count(4, "number of encoder layers", LAYERS)
    decoder_layers: int = count(4, "number of decoder layers", LAYERS)
    dropout: float = fraction(0.0, "dropout probability of activations")
    max_length: int = count(448, "maximum number of tokens that the decoder reads", LENGTH)
    vocabulary: int = count(51865, "vocabulary size", VOCABULARY)

    family: ClassVar[str] = "transcriber"
    sizes: ClassVar[dict[str, dict[str, int]]] = {
        "tiny": _size(4, 384, 6),
        "base": _size(6, 512, 8),
        "small": _size(12, 768, 12),
        "medium": _size(24, 1024, 16),
        "large": _size(32, 1280, 20),
        "large-v3": _size(32, 1280, 20, mels=128, vocabulary=51866),
        "turbo": _size(32, 1280, 20, mels=128, vocabulary=51866, decoder_layers=4),
    }

    def __post_init__(self) -> None:
        if self.model_dim % self.num_heads:
            raise ValueError(
                f"model_dim={self.model_dim} must be a multiple of num_heads={self.num_heads}"
            )
        if self.model_dim % 2 or self.model_dim < 4:
            raise ValueError(
                f"model_dim={self.model_dim} must be even and at least 4: positions are sines and "
                "cosines"
            )


class Transcriber(nn.Module):
    """P(y_t | y_<t, sound) = softmax(E decoder(y_<t, encoder(sound))), E the embedding matrix.

    Radford et al. 2023 (Whisper): a pre-norm Transformer with GELU, convolutions and sines in front
    of the encoder, and learned positions in the decoder. It follows the contract of decoding:
    `start` encodes the sound, `step` decodes further tokens.
    """

    def __init__(self, config: TranscriberConfig) -> None:
        super().__init__()
        self.config = config
        width = config.model_dim
        self.source_embedding = SoundEmbedding(
            config.mels, width, config.source_positions, config.dropout
        )
        self.encoder = Encoder(
            [
                EncoderBlock(_attention(config), _feedforward(config), lambda: _residual(config))
                for _ in range(config.encoder_layers)
            ],
            LayerNorm(width, EPSILON),
        )
        self.target_embedding = Embeddings(
            nn.Embedding(config.vocabulary, width),
            Added(LearnedTable(width, config.max_length)),
            config.dropout,
            scale=1.0,
        )
        self.decoder = Decoder(
            [
                DecoderBlock(
                    _attention(config),
                    _attention(config),
                    _feedforward(config),
                    lambda: _residual(config),
                )
                for _ in range(config.decoder_layers)
            ],
            LayerNorm(width, EPSILON),
        )
        self.output = nn.Linear(width, config.vocabulary, bias=False)
        self.tie_weights()
        if not self.output.weight.is_meta:
            self.init_weights()

    def tie_weights(self) -> None:
        """Make the shared matrix one parameter; call it again after replacing parameters."""
        self.output.weight = self.target_embedding.tokens.weight

    def init_weights(self) -> None:
        """Initialise with Xavier-uniform matrices, zero biases and embeddings N(0, 1/D)."""
        init_weights(self, tied=[self.output])
        self.source_embedding.init_weights()  # replaces the positions of `init_weights`

    @property
    def max_length(self) -> int:
        """The maximum number of tokens, including those that say what to write."""
        return self.config.max_length

    def encode(self, frames: Float[Tensor, "B Y X"]) -> Float[Tensor, "B S D"]:
        """Return the memory: one vector for two frames of the spectrogram."""
        return self.encoder(self.source_embedding(frames), Mask())

    def decode(
        self, target_in: Int[Tensor, "B T"], memory: Float[Tensor, "B S D"]
    ) -> Float[Tensor, "B T D"]:
        """Return the hidden vectors that predict the next token after each token of target_in."""
        return self.decoder(self.target_embedding(target_in), memory, Mask())

    def forward(
        self, frames: Float[Tensor, "B Y X"], target_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of the next token after each token of target_in (teacher forcing)."""
        return self.output(self.decode(target_in, self.encode(frames)))

    def start(self, frames: Float[Tensor, "B Y X"]) -> DecoderState:
        """Encode the sound once and return the decode state before the first token."""
        return self.decoder.start(self.encode(frames), None)

    def step(
        self, tokens: Int[Tensor, "N T"], state: DecoderState
    ) -> tuple[Float[Tensor, "N T V"], DecoderState]:
        hidden = self.decoder.step(self.target_embedding(tokens, state.past), state)
        return self.output(hidden), state


def _attention(config: TranscriberConfig) -> MultiHeadAttention:
    """Make an attention layer whose keys have no bias: it would add the same number to all scores
    of a query, which a softmax does not see."""
    attention = MultiHeadAttention(config.model_dim, config.num_heads)
    attention.key = nn.Linear(config.model_dim, config.model_dim, bias=False)
    return attention


def _feedforward(config: TranscriberConfig) -> FeedForward:
    return FeedForward(config.model_dim, config.ffn_dim, ACTIVATIONS["gelu"], config.dropout)


def _residual(config: TranscriberConfig) -> PreNorm:
    return PreNorm(LayerNorm(config.model_dim, EPSILON), config.dropout)
