"""Encoder-decoder: P(y_1 ... y_T | x) = product over t of P(y_t | y_1 ... y_(t-1), memory(x)).

An encoder turns the source x into the memory, one vector for each token; a decoder predicts the
target y word by word from the words before it and the memory. Both may be Transformers, recurrent
networks or a mixture, with any attention score and position encoding (lectures 3.2 to 3.4).

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
    """Architecture of a `Translator`.

    The named sizes are in `sizes`; base and big are those of Vaswani et al. 2017, table 3.
    """

    encoder: Literal["transformer", "rnn", "feed-forward"] = setting(
        "transformer", "architecture of the encoder"
    )
    decoder: Literal["transformer", "rnn"] = setting("transformer", "architecture of the decoder")
    attention: str = setting(
        "scaled-dot",
        "attention score of all layers; none is for an RNN decoder whose only source is one vector",
        names=SCORES,
    )
    window: int = setting(16, "window size of sliding-window attention, in tokens", gt=0, le=LENGTH)
    cell: Literal["gru", "lstm"] = setting("gru", "recurrent cell of RNN encoders and decoders")
    bidirectional: bool = setting(True, "bidirectional RNN encoder")
    input_feeding: bool = setting(
        False, "RNN decoder: the last attention output is an input of the next step"
    )
    model_dim: int = setting(128, "model width: size of the vectors between layers", gt=0, le=WIDTH)
    num_heads: int = setting(4, "number of attention heads; must divide model_dim", gt=0, le=HEADS)
    ffn_dim: int = setting(256, "inner dimension of the feed-forward layers", gt=0, le=WIDTH)
    encoder_layers: int = setting(4, "number of encoder layers", gt=0, le=LAYERS)
    decoder_layers: int = setting(4, "number of decoder layers", gt=0, le=LAYERS)
    dropout: float = setting(0.1, "dropout probability of activations", ge=0, lt=1)
    norm: Literal["pre", "post"] = setting("pre", "pre-norm or post-norm residual connections")
    activation: Literal["relu", "gelu"] = setting("relu", "feed-forward activation function")
    positions: str = setting(
        "sinusoidal",
        "position encoding of Transformers; recurrent networks have none",
        names=SCHEMES,
    )
    position_dim: int = setting(
        0,
        "dimensions of position encodings concatenated with word vectors; 0: added to them instead",
        ge=0,
        le=WIDTH,
    )
    max_length: int = setting(
        1024, "maximum number of tokens for positions=learned", gt=0, le=LENGTH
    )
    share_embeddings: bool = setting(
        True, "source, target and output share one matrix; needs a joint vocabulary"
    )
    tie_output: bool = setting(True, "output projection and target embedding share a matrix")
    source_vocabulary: int = setting(8000, "source vocabulary size", gt=0, le=VOCABULARY)
    target_vocabulary: int = setting(8000, "target vocabulary size", gt=0, le=VOCABULARY)

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
            raise ValueError(
                f"{position_dim=} leaves no room for the word in {model_dim=}: make it smaller"
            )
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
                "attention=none needs decoder=rnn: a Transformer decoder has attention layers"
            )
        if self.input_feeding and (not recurrent or self.attention == "none"):
            raise ValueError("input_feeding needs decoder=rnn with attention to feed back")
        if self.attention == "window" and recurrent and self.encoder != "transformer":
            raise ValueError(
                "attention=window is for self-attention, but an RNN decoder with "
                f"encoder={self.encoder} has no such layer: choose another attention or encoder"
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
            raise ValueError(f"positions=sinusoidal needs an even {name} for sine-cosine pairs")
        if self.encoder == "rnn" and self.bidirectional and self.model_dim % 2:
            raise ValueError(
                f"model_dim={self.model_dim} must be even for a bidirectional encoder: each "
                "direction has half of it; or set bidirectional to false"
            )
        if self.positions == "rotary" and (self.model_dim // self.num_heads) % 2:
            raise ValueError(
                "positions=rotary rotates pairs of dimensions: model_dim / num_heads = "
                f"{self.model_dim // self.num_heads} must be even"
            )


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
        self.source_embedding = Embeddings(source, source_positions, config.dropout)
        self.encoder = _encoder(config)
        self.target_embedding = Embeddings(target, target_positions, config.dropout)
        self.decoder = _decoder(config)
        self.output = nn.Linear(config.model_dim, config.target_vocabulary, bias=False)
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
        memory: Tensor = self.encoder(self.source_embedding(source), Mask(keys=keys))
        return memory

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
        return hidden

    def forward(
        self,
        source: Int[Tensor, "B S"],
        target_in: Int[Tensor, "B T"],
        keys: Bool[Tensor, "B S"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of the next token after each token of target_in (teacher forcing)."""
        logits: Tensor = self.output(self.decode(target_in, self.encode(source, keys), keys))
        return logits

    def start(
        self, source: Int[Tensor, "B S"], keys: Bool[Tensor, "B S"] | None = None
    ) -> DecoderState | RecurrentState:
        """Encode the source once and return the decode state before the first target token.

        Beams made by `state.reorder` share the keys and values of their sentence.
        """
        state: DecoderState | RecurrentState = self.decoder.start(self.encode(source, keys), keys)
        return state

    def step(self, tokens: Int[Tensor, "N T"], state: Any) -> tuple[Float[Tensor, "N T V"], Any]:
        """Return the logits after each of T new tokens, and the next state.

        state: the state returned by `start` or by the last `step`; it is updated in place.
        """
        hidden = self.decoder.step(self.target_embedding(tokens, state.lengths), state)
        return self.output(hidden), state


def _input_positions(
    config: TranslatorConfig, architecture: str
) -> Added | Concatenated | NoPositions:
    if architecture == "rnn":
        return NoPositions()  # a recurrent network reads its input in order
    return kernels_and_positions.input_positions(
        config.positions, config.model_dim, config.position_dim, config.max_length
    )


def _attention(
    config: TranslatorConfig,
    positions: AttentionPositions | None = None,
    *,
    self_attention: bool = False,
) -> MultiHeadAttention:
    """Make self-attention, with the position encoding of its stack, or cross-attention."""
    heads, width = config.num_heads, config.model_dim
    window = config.window if self_attention else None
    kernel = kernels_and_positions.kernel(config.attention, heads, width // heads, window)
    return MultiHeadAttention(width, heads, kernel=kernel, positions=positions)


def _attention_positions(config: TranslatorConfig, *, causal: bool) -> AttentionPositions | None:
    """Make the position encoding inside self-attention: one object for all layers of a stack.

    The layers share its parameters, as T5's share their table of distances.
    """
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
    """Make the norm after the last block: only a pre-norm stack leaves its sum unnormalised."""
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
