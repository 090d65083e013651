"""The configuration of encoders: what BERT and the encoders since then differ in.

Each setting is an object of `attention/` or `blocks/`, which `models/bert.py` puts together. The
tables of `interop/encoders/` say which of them a published model has.

>>> from headway.models import BertConfig
>>> config = BertConfig(num_layers=4, layers="gll", positions="rotary")  # l: a window
>>> config.kinds
'gllg'
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from headway.base.extensions import Names
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
from headway.models import kernels_and_positions
from headway.models.kernels_and_positions import KERNELS, POSITIONS

Value = int | float | str | bool | None
NewPooler = Literal["tanh", "relu", "gelu", "gelu-norm"]
PoolerName = Literal["tanh", "relu", "gelu", "gelu-norm", "none"]
ENCODER_SCHEMES = Names(POSITIONS, ("sinusoidal", "learned", "disentangled", "none"))
"""Values of an encoder's `positions`: those of decoders, and DeBERTa's."""


def _bert(layers: int, width: int, heads: int, /, **changes: Value) -> dict[str, Value]:
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
_DISTILLED: dict[str, Value] = {
    "token_types": 0,
    "pooler": "none",
    "classifier_pooler": "relu",
    "next_sentence": False,
}
_ALBERT: dict[str, Value] = {
    "embedding_dim": 128,
    "shared_layers": True,
    "vocabulary": 30_000,
    "activation": "gelu-tanh",
}
_MODERN: dict[str, Value] = {
    "token_types": 0,
    "norm": "pre",
    "norm_kind": "layer-gain",
    "norm_eps": 1e-5,
    "first_norm": False,
    "activation": "geglu-exact",
    "bias": False,
    "head_bias": False,
    "positions": "rotary",
    "rotary_base": 160_000.0,
    "local_rotary_base": 10_000.0,
    "layers": "gll",
    "window": 65,
    "max_length": 8192,
    "pooler": "none",
    "classifier_pooler": "gelu-norm",
    "next_sentence": False,
    "vocabulary": 50_368,
}
_DEBERTA: dict[str, Value] = {
    "token_types": 0,
    "norm_eps": 1e-7,
    "positions": "disentangled",
    "relative_buckets": 256,
    "pooler": "none",
    "classifier_pooler": "gelu",
    "next_sentence": False,
    "vocabulary": 128_100,
}
_MPNET: dict[str, Value] = {
    "token_types": 0,
    "first_position": 2,
    "relative_buckets": 32,
    "norm_eps": 1e-5,
    "pooler": "none",
    "next_sentence": False,
    "vocabulary": 30_527,
}


@dataclass(frozen=True, kw_only=True)
class BertConfig:
    """Architecture of a `Bert`. The named sizes are in `sizes`.

    base, large: Devlin et al. 2019, section 3 (110 and 340 million parameters). small, mini: Turc
    et al. 2019. roberta-*: Liu et al. 2019. distilbert: Sanh et al. 2019. albert-base: Lan et al.
    2020, whose layers share their weights. tinybert-*: Jiao et al. 2020. minilm: Wang et al. 2020.
    multilingual: with the cased vocabulary of 104 languages. mpnet: Song et al. 2020. modernbert-*:
    Warner et al. 2024. deberta-v3-*: He et al. 2021. tiny, modernbert-tiny: for a CPU.
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
    norm_kind: Literal["layer", "rms", "layer-gain"] = setting(
        "layer", "LayerNorm or RMSNorm; layer-gain: LayerNorm without shift"
    )
    first_norm: bool = setting(
        True, "a pre-norm encoder has a norm before its first attention (ModernBERT: none)"
    )
    norm_eps: float = setting(1e-12, "epsilon of the norms, added to the variance", gt=0)
    activation: Literal["relu", "gelu", "gelu-tanh", "silu", "swiglu", "geglu", "geglu-exact"] = (
        setting(
            "gelu", "activation function of the feed-forward layers; swiglu and geglu add a gate"
        )
    )
    bias: bool = setting(True, "biases in the linear layers of the blocks")
    head_bias: bool = setting(True, "bias in the layer before the logits of masked tokens")
    positions: str = setting(
        "learned", "position encoding; disentangled: DeBERTa's scores", names=ENCODER_SCHEMES
    )
    first_position: int = count(
        0, "position of the first token in a learned position table (RoBERTa: 2)", LENGTH, least=0
    )
    relative_buckets: int = count(
        0,
        "buckets of distances to each side for positions=disentangled; otherwise in all, for a "
        "learned number by distance that is added to the scores (MPNet: 32); 0: none",
        LENGTH,
        least=0,
    )
    rotary_base: float = setting(
        10_000.0, "base of rotary positions; larger values suit longer contexts", gt=1
    )
    local_rotary_base: float | None = setting(
        None, "base in layers with a window; if unset, rotary_base", gt=1
    )
    attention: str = setting("scaled-dot", "attention score of all layers", names=KERNELS)
    layers: str = setting(
        "g",
        "kinds of layers, repeated until there are num_layers: g attends to all tokens, l to a "
        "window",
    )
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
    classifier_pooler: NewPooler = setting(
        "tanh",
        "activation of the pooler that a classifier adds if there is none; gelu-norm has a norm, "
        "and is added for the vectors of tokens, too (ModernBERT)",
    )
    masked_lm_head: bool = setting(True, "head of masked language modelling")
    next_sentence: bool = setting(True, "head of next-sentence prediction")
    replaced_token_head: bool = setting(False, "head that detects replaced tokens (ELECTRA)")
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
        "mpnet": _bert(12, 768, 12, **_MPNET),
        "modernbert-tiny": {**_bert(4, 128, 4, **_MODERN), "ffn_dim": 192, "vocabulary": 8000},
        "modernbert-base": {**_bert(22, 768, 12, **_MODERN), "ffn_dim": 1152},
        "modernbert-large": {**_bert(28, 1024, 16, **_MODERN), "ffn_dim": 2624},
        "deberta-v3-small": _bert(6, 768, 12, **_DEBERTA),
        "deberta-v3-base": _bert(12, 768, 12, **_DEBERTA),
    }

    @property
    def embedding_width(self) -> int:
        """The dimension of the embeddings."""
        return self.embedding_dim or self.model_dim

    @property
    def kinds(self) -> str:
        """The kind of each of the num_layers layers, a letter of `layers` each."""
        return kernels_and_positions.repeated(self.layers, self.num_layers)

    def __post_init__(self) -> None:
        model_dim, num_heads = self.model_dim, self.num_heads
        _check_layers(self)
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


def _check_layers(config: BertConfig) -> None:
    """Raise ValueError for options of layers and distances that do not fit together."""
    if not config.layers or set(config.layers) - set("gl"):
        raise ValueError(f"{config.layers=} must be letters of g, l")
    if config.shared_layers and len(set(config.kinds)) > 1:
        raise ValueError(f"{config.layers=} needs shared_layers=false: shared layers are alike")
    if config.shared_layers and not config.first_norm:
        raise ValueError("first_norm=false needs shared_layers=false: shared layers are alike")
    if config.norm == "post" and not config.first_norm:
        raise ValueError("first_norm=false needs norm=pre: the first norm is a sum's otherwise")
    is_disentangled = config.positions == "disentangled"
    if ("l" in config.layers or is_disentangled) and config.attention != "scaled-dot":
        raise ValueError(
            f"windows and positions=disentangled need attention=scaled-dot, not {config.attention}"
        )
    if is_disentangled and not config.relative_buckets:
        raise ValueError("positions=disentangled needs relative_buckets, such as 256")
    if config.relative_buckets and config.positions not in (
        "learned",
        "sinusoidal",
        "disentangled",
    ):
        raise ValueError(
            f"relative_buckets={config.relative_buckets} needs positions=learned, sinusoidal or "
            f"disentangled, not {config.positions}, which changes the scores already"
        )
    if config.relative_buckets % 2 or config.relative_buckets in (2,):
        raise ValueError(f"{config.relative_buckets=} must be even and at least 4")
    if config.local_rotary_base is not None and config.positions != "rotary":
        raise ValueError(f"local_rotary_base needs positions=rotary, not {config.positions}")
