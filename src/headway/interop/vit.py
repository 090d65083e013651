"""Image encoders of Hugging Face folders: ViT, DINO, which has the same format, and DINOv2.

They have pre-norm and learned positions, of which the first is that of the class token. DINOv2 adds
LayerScale, and SwiGLU in its largest size.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from headway.interop.config_fields import (
    Fields,
    Key,
    Values,
    choice,
    number,
    probability,
    whole,
    written,
)
from headway.interop.hf_config import ACTIVATION_NAMES, ACTIVATIONS, HFConfig, hf_labels
from headway.interop.weight_names import Architecture, Family, Part, layers, needs, prefixed
from headway.models import ViTClassifierConfig, ViTConfig
from headway.models.vit_classifier import ImagePooling

DEEPEST = 1000
MASK = "embeddings.mask_token"


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """A family of image encoders: the names of the parts of a `ViT`, theirs -> ours.

    stem: prefix of the class names. fields: the table of config.json, except pooler and mask_token.
    inside: yields the tensors of a block for a configuration. mask: number of dimensions of the
    mask token. pooler: the layer on [CLS]; "" if there is none. pooling: the input of a
    classifier's head. lacks: returns the settings that the table of fields cannot check.
    """

    model_type: str
    stem: str
    fields: Fields
    inside: Callable[[ViTConfig], Iterator[Part]]
    mask: int
    pooler: str
    pooling: ImagePooling
    lacks: Callable[[ViTConfig], list[str]]

    def family(self) -> Family[ViTConfig | ViTClassifierConfig]:
        return Family(
            model_type=self.model_type,
            prefix=f"{self.model_type}.",
            heads=r"classifier[.].*",
            ignored=r"embeddings\.position_ids",
            architectures=(
                Architecture(
                    names=(f"{self.stem}Model",),
                    kind=ViTConfig,
                    config=self._bare,
                    parts=self._parts,
                    bare=True,
                ),
                Architecture(
                    names=(f"{self.stem}ForImageClassification",),
                    kind=ViTClassifierConfig,
                    config=self._classifier,
                    parts=self._classifier_parts,
                    unused=r"pooler\..*",
                ),
            ),
            to_hf_config=self._to_hf_config,
            lacks=self._lacks,
            sees=True,
        )

    def _bare(self, hf_config: HFConfig, keys: Collection[str]) -> ViTConfig:
        """Return the configuration, with pooler and mask token if the file has them."""
        has_pooler = bool(self.pooler) and f"{self.pooler}.weight" in keys
        fields = self.fields.read(hf_config) | {"pooler": "tanh" if has_pooler else "none"}
        return ViTConfig(**fields, mask_token=MASK in keys)

    def _classifier(self, hf_config: HFConfig, keys: Collection[str]) -> ViTClassifierConfig:
        hf_config.must_be("problem_type", "single_label_classification")
        vit = ViTConfig(**self.fields.read(hf_config), mask_token=MASK in keys)
        count = len(hf_config.labels())
        return ViTClassifierConfig(vit=vit, num_classes=count, pooling=self.pooling)

    def _parts(self, config: ViTConfig) -> Iterator[Part]:
        width, (rows, columns) = config.model_dim, config.grid
        yield Part("embeddings.cls_token", ("embedding.class_token",), shape=(1, 1, width))
        yield Part(
            "embeddings.position_embeddings",
            ("embedding.class_position", "embedding.positions.vectors"),
            shape=(1, 1 + rows * columns, width),
        )
        if config.mask_token:
            shape = (1,) * (self.mask - 1) + (width,)
            yield Part(MASK, ("embedding.mask_token",), shape=shape)
        kernel = "embeddings.patch_embeddings.projection"
        yield Part(
            f"{kernel}.weight",
            ("embedding.patches.project.weight",),
            shape=(width, config.channels, *config.patch),
        )
        yield Part(f"{kernel}.bias", ("embedding.patches.project.bias",))
        for n in range(config.num_layers):
            inside = self.inside(config)
            yield from prefixed(inside, f"encoder.layer.{n}.", f"encoder.blocks.{n}.")
        yield from layers({"layernorm": "encoder.norm"})
        if config.pooler != "none":
            yield from layers({self.pooler: "pooler.project"})

    def _classifier_parts(self, config: ViTClassifierConfig) -> Iterator[Part]:
        yield from prefixed(self._parts(config.vit), ours="vit.")
        yield from layers({"classifier": "head"})

    def _to_hf_config(self, config: ViTConfig | ViTClassifierConfig) -> Values:
        if isinstance(config, ViTConfig):
            return self.fields.write(config)
        labels = hf_labels([f"LABEL_{i}" for i in range(config.num_classes)])
        problem = {"problem_type": "single_label_classification"}
        return {**self.fields.write(config.vit), **labels, **problem}

    def _lacks(self, config: ViTConfig | ViTClassifierConfig) -> list[str]:
        vit = config if isinstance(config, ViTConfig) else config.vit
        reasons = self.fields.lacks(vit) + self.lacks(vit)
        reasons += needs(vit, {"pooler": ("none", "tanh") if self.pooler else ("none",)})
        if isinstance(config, ViTClassifierConfig):
            reasons += needs(config, {"pooling": (self.pooling,)})
        return reasons


def sides(theirs: str, ours: str, other: str, default: int) -> tuple[Key, Key]:
    """A height, and a width that is None if it is equal: one number, or two.

    ours: the field of the height; other: of the width.
    """
    name = "image" if theirs == "image_size" else "patch"

    def write(config: ViTConfig) -> int | list[int]:
        height, width = getattr(config, name)
        return height if height == width else [height, width]

    def width(hf_config: HFConfig, fields: Values) -> int | None:
        height, width = hf_config.sides(theirs, default)
        return None if width == height else width

    height = Key(theirs, ours, lambda file, _: file.sides(theirs, default)[0], write)
    return height, Key("", other, width, write)


_FIELDS = Fields(
    keys=(
        *sides("image_size", "image_size", "image_width", 224),
        *sides("patch_size", "patch_size", "patch_width", 16),
        whole("num_channels", "channels", 3),
        whole("hidden_size", "model_dim"),
        whole("num_hidden_layers", "num_layers", below=DEEPEST),
        whole("num_attention_heads", "num_heads"),
        probability("hidden_dropout_prob", "dropout", 0.0),
    ),
    fixed={
        "positions": "learned",
        "attention": "scaled-dot",
        "class_token": True,
        "registers": 0,
        "patch_bias": True,
        "embedding_norm": False,
    },
    expected={"qkv_bias": True},
    constant={"attention_probs_dropout_prob": 0.0, "qkv_bias": True},
)
_ATTENTION = {
    "attention.attention.query": "attention.query",
    "attention.attention.key": "attention.key",
    "attention.attention.value": "attention.value",
    "attention.output.dense": "attention.output",
}
"""The attention layers of a block, theirs -> ours, in both families."""


def _inside_vit(config: ViTConfig) -> Iterator[Part]:
    yield from layers(_ATTENTION)
    yield from layers(
        {
            "layernorm_before": "around_attention.norm",
            "layernorm_after": "around_feedforward.norm",
            "intermediate.dense": "feedforward.expand",
            "output.dense": "feedforward.contract",
        }
    )


def _check_pooler(hf_config: HFConfig, fields: Values) -> None:
    hf_config.must_be("pooler_act", "tanh")
    hf_config.must_be("pooler_output_size", fields["model_dim"])


VIT = _Kind(
    model_type="vit",
    stem="ViT",
    fields=_FIELDS.extended(
        whole("intermediate_size", "ffn_dim"),
        number("layer_norm_eps", "norm_eps", 1e-12),
        choice("hidden_act", "activation", ACTIVATIONS, "gelu"),
        fixed={"layer_scale": None},
        check=_check_pooler,
    ),
    inside=_inside_vit,
    mask=3,
    pooler="pooler.dense",
    pooling="first",
    lacks=lambda config: needs(config, {"mask_token": (False,)}),
).family()

RATIOS = range(1, 17)  # feed-forward width / model width


def _inside_dinov2(config: ViTConfig) -> Iterator[Part]:
    norms = {"norm1": "around_attention.norm", "norm2": "around_feedforward.norm"}
    yield from layers(norms | _ATTENTION)
    yield Part("layer_scale1.lambda1", ("around_attention.gain",))
    yield Part("layer_scale2.lambda1", ("around_feedforward.gain",))
    if config.activation == "swiglu":
        yield from layers({"mlp.weights_in": ("feedforward.gate", "feedforward.expand")})
        yield from layers({"mlp.weights_out": "feedforward.contract"})
    else:
        yield from layers({"mlp.fc1": "feedforward.expand", "mlp.fc2": "feedforward.contract"})


def _ffn_dim(width: int, ratio: int, gated: bool) -> int:
    """Return the feed-forward width; of gated layers two thirds, rounded up to a multiple of 8."""
    return -(-int(width * ratio * 2 / 3) // 8) * 8 if gated else width * ratio


def _ratio(config: ViTConfig) -> int | None:
    gated = config.activation == "swiglu"
    ratios = (r for r in RATIOS if _ffn_dim(config.model_dim, r, gated) == config.ffn_dim)
    return next(ratios, None)


def _activation(hf_config: HFConfig, fields: Values) -> str:
    name = hf_config.choice("hidden_act", ACTIVATIONS, "gelu")
    return "swiglu" if hf_config.flag("use_swiglu_ffn", False) else name


def _width(hf_config: HFConfig, fields: Values) -> int:
    ratio = hf_config.whole("mlp_ratio", 4, below=RATIOS.stop)
    return _ffn_dim(fields["model_dim"], ratio, fields["activation"] == "swiglu")


def _dinov2_lacks(config: ViTConfig) -> list[str]:
    reasons = needs(config, {"patch_width": (None,)})
    if config.layer_scale is None:
        reasons.append("layer_scale=None (must be a number)")
    if _ratio(config) is None:
        reasons.append(f"ffn_dim={config.ffn_dim} (must be a multiple of model_dim)")
    return reasons


DINOV2 = _Kind(
    model_type="dinov2",
    stem="Dinov2",
    fields=_FIELDS.extended(
        Key(
            "hidden_act",
            "activation",
            _activation,
            lambda config: ACTIVATION_NAMES.get(config.activation, "gelu"),
        ),
        Key("use_swiglu_ffn", "", lambda *_: None, lambda config: config.activation == "swiglu"),
        Key("mlp_ratio", "ffn_dim", _width, _ratio),
        number("layer_norm_eps", "norm_eps", 1e-6),
        Key(
            "layerscale_value",
            "layer_scale",
            lambda file, _: file.number("layerscale_value", 1.0, low=1e-30),
            lambda config: config.layer_scale,
        ),
        written("use_mask_token", "mask_token"),
    ),
    inside=_inside_dinov2,
    mask=2,
    pooler="",
    pooling="both",
    lacks=_dinov2_lacks,
).family()
FAMILIES = (VIT, DINOV2)
