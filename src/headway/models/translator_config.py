"""Configuration of a translator: which encoder, decoder, attention score and sizes.

>>> from headway.models import Translator, TranslatorConfig
>>> TranslatorConfig(encoder="rnn", decoder="rnn", attention="additive").model_dim
128
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from headway.base.settings import HEADS, LAYERS, LENGTH, VOCABULARY, WIDTH, count, fraction, setting
from headway.blocks.positions import SinusoidLayout
from headway.models.kernels_and_positions import SCHEMES, SCORES, check_heads


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
    window: int = count(16, "window size of sliding-window attention, in tokens", LENGTH)
    cell: Literal["gru", "lstm"] = setting("gru", "recurrent cell of RNN encoders and decoders")
    bidirectional: bool = setting(True, "bidirectional RNN encoder")
    input_feeding: bool = setting(
        False, "RNN decoder: the last attention output is an input of the next step"
    )
    model_dim: int = count(128, "model width: size of the vectors between layers", WIDTH)
    num_heads: int = count(4, "number of attention heads; must divide model_dim", HEADS)
    head_dim: int | None = count(
        None, "dimension of a head; if unset, model_dim / num_heads", WIDTH
    )
    ffn_dim: int = count(256, "inner dimension of the feed-forward layers", WIDTH)
    encoder_layers: int = count(4, "number of encoder layers", LAYERS)
    decoder_layers: int = count(4, "number of decoder layers", LAYERS)
    dropout: float = fraction(0.1, "dropout probability of activations")
    norm: Literal["pre", "post"] = setting("pre", "pre-norm or post-norm residual connections")
    norm_kind: Literal["layer", "rms"] = setting("layer", "LayerNorm or RMSNorm")
    norm_eps: float = setting(1e-5, "epsilon of the norms, added to the variance", gt=0)
    activation: Literal["relu", "gelu", "gelu-tanh", "silu", "geglu", "swiglu"] = setting(
        "relu", "feed-forward activation function; geglu and swiglu add a gate"
    )
    bias: bool = setting(True, "biases in the linear layers of the blocks")
    positions: str = setting(
        "sinusoidal",
        "position encoding of Transformers; recurrent networks have none",
        names=SCHEMES,
    )
    sinusoids: SinusoidLayout = setting(
        "pairs",
        "layout of sinusoidal positions: pairs of sine and cosine, halves (all sines, then all "
        "cosines, as in Marian), or endpoint (halves whose last frequency is 1/10000, as in "
        "fairseq)",
    )
    first_position: int = setting(
        0,
        "position of the first token, for sinusoidal and learned positions; 2 in BART and fairseq",
        ge=0,
        le=1024,
    )
    position_dim: int = count(
        0,
        "dimensions of position encodings concatenated with word vectors; 0: added to them instead",
        WIDTH,
        least=0,
    )
    max_length: int = count(1024, "maximum number of tokens for positions=learned", LENGTH)
    scale_embeddings: bool = setting(
        True, "word vectors are multiplied by the square root of their dimension"
    )
    embedding_norm: bool = setting(False, "LayerNorm after the embeddings, as in BART")
    share_embeddings: bool = setting(
        True, "source and target share one embedding matrix; needs a joint vocabulary"
    )
    tie_output: bool = setting(True, "output projection and target embedding share a matrix")
    scale_output: bool = setting(
        False,
        "the vectors before the output projection are divided by the square root of their "
        "dimension, as in T5",
    )
    output_bias: bool = setting(False, "the output projection has a bias, as in Marian")
    alignment_layer: int | None = count(
        None,
        "decoder layer, counted from 0, whose first head of cross-attention gives word alignments; "
        "if unset, the last but one with training.guided_alignment, and otherwise the layer whose "
        "attention is most concentrated",
        LAYERS,
        least=0,
    )
    source_vocabulary: int = count(8000, "source vocabulary size", VOCABULARY)
    target_vocabulary: int = count(8000, "target vocabulary size", VOCABULARY)

    family: ClassVar[str] = "translator"
    sizes: ClassVar[dict[str, dict[str, int | float | str]]] = {
        "tiny": {
            "model_dim": 128,
            "num_heads": 4,
            "ffn_dim": 256,
            "encoder_layers": 4,
            "decoder_layers": 4,
        },
        "small": {
            "model_dim": 256,
            "num_heads": 4,
            "ffn_dim": 1024,
            "encoder_layers": 4,
            "decoder_layers": 4,
        },
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

    @property
    def head_width(self) -> int:
        """The dimension of a head."""
        return self.head_dim or self.model_dim // self.num_heads

    def __post_init__(self) -> None:
        model_dim, position_dim = self.model_dim, self.position_dim
        check_heads(model_dim, self.num_heads, self.head_dim, self.positions)
        self._check_combination()
        self._check_alignment_layer()
        if position_dim >= model_dim:
            raise ValueError(
                f"{position_dim=} leaves no room for the word in {model_dim=}: make it smaller"
            )
        if position_dim and self.tie_output:
            raise ValueError(
                f"{position_dim=} makes word vectors narrower than the output projection: "
                "set tie_output and share_embeddings to false"
            )
        source, target = self.source_vocabulary, self.target_vocabulary
        if self.share_embeddings and source != target:
            raise ValueError(
                f"share_embeddings needs one joint vocabulary, but source_vocabulary={source} "
                f"and target_vocabulary={target}"
            )

    @property
    def cross_attention_layers(self) -> int:
        """The number of layers with cross-attention."""
        if self.decoder == "rnn":
            return 0 if self.attention == "none" else 1
        return self.decoder_layers

    def _check_alignment_layer(self) -> None:
        layer, count = self.alignment_layer, self.cross_attention_layers
        if layer is not None and layer >= count:
            raise ValueError(
                f"alignment_layer={layer} is not a layer with cross-attention: there "
                + (f"are {count}, counted from 0" if count else "is none")
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
        if self.sinusoids == "endpoint" and (self.position_dim or self.model_dim) < 4:
            name = "position_dim" if self.position_dim else "model_dim"
            raise ValueError(f"sinusoids=endpoint needs a {name} of at least 4")
        if self.encoder == "rnn" and self.bidirectional and self.model_dim % 2:
            raise ValueError(
                f"model_dim={self.model_dim} must be even for a bidirectional encoder: each "
                "direction has half of it; or set bidirectional to false"
            )
