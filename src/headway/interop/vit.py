"""ViT (`ViTModel` and its classifier), and DINO, which has the same format: pre-norm, learned
positions, of which the first is that of the class token."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from headway.interop.hf_config import ACTIVATION_NAMES, ACTIVATIONS, HFConfig, hf_labels
from headway.interop.weight_names import Architecture, Family, Part, layers, needs
from headway.models import ViTClassifierConfig, ViTConfig
from headway.models.vit_classifier import ImagePooling

DEEPEST = 1000
MASK = "embeddings.mask_token"

BODY = {
    "attention.attention.query": "attention.query",
    "attention.attention.key": "attention.key",
    "attention.attention.value": "attention.value",
    "attention.output.dense": "attention.output",
}
"""The attention layers of a block, theirs -> ours; DINOv2 has the same names."""


@dataclass(frozen=True, kw_only=True)
class Names:
    """The names of the parts of a `ViT` in a family, theirs -> ours.

    stem: prefix of the class names. inside: yields the tensors of a block for a configuration.
    mask: number of dimensions of the mask token. pooler: the layer on [CLS]; "" if there is none.
    pooling: the input of a classifier's head.
    """

    stem: str
    inside: Callable[[ViTConfig], Iterator[Part]]
    mask: int
    pooler: str
    pooling: ImagePooling


def vit_fields(hf_config: HFConfig) -> dict[str, Any]:
    """Return the fields of `ViTConfig` whose keys are the same in ViT and DINOv2."""
    hf_config.must_be("qkv_bias", True)
    (y, x), (height, width) = hf_config.sides("image_size", 224), hf_config.sides("patch_size", 16)
    return {
        "image_size": y,
        "image_width": None if x == y else x,
        "patch_size": height,
        "patch_width": None if width == height else width,
        "channels": hf_config.whole("num_channels", 3),
        "model_dim": hf_config.whole("hidden_size"),
        "num_layers": hf_config.whole("num_hidden_layers", below=DEEPEST),
        "num_heads": hf_config.whole("num_attention_heads"),
        "dropout": hf_config.number("hidden_dropout_prob", 0.0, high=1.0),
    }


def hf_vit_sizes(config: ViTConfig) -> dict[str, Any]:
    """Return the keys of config.json for a configuration of ours, the inverse of `vit_fields`."""

    def one_or_two(sides: tuple[int, int]) -> int | list[int]:
        return sides[0] if sides[0] == sides[1] else list(sides)

    return {
        "image_size": one_or_two(config.image),
        "patch_size": one_or_two(config.patch),
        "num_channels": config.channels,
        "hidden_size": config.model_dim,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": 0.0,
        "qkv_bias": True,
        "layer_norm_eps": config.norm_eps,
    }


def image_family(
    *,
    model_type: str,
    names: Names,
    settings: Callable[[HFConfig], dict[str, Any]],
    to_hf_config: Callable[[ViTConfig], dict[str, Any]],
    lacks: Callable[[ViTConfig], list[str]],
) -> Family:
    """Return a `Family` of image encoders, without and with a classifier.

    settings: config.json -> fields of `ViTConfig`, except pooler and mask_token; to_hf_config: the
    inverse. lacks: the reasons why an encoder of ours cannot be represented.
    """
    return Family(
        model_type=model_type,
        prefix=f"{model_type}.",
        heads=r"classifier[.].*",
        ignored=r"embeddings\.position_ids",
        architectures=(
            Architecture(
                names=(f"{names.stem}Model",),
                kind=ViTConfig,
                config=partial(_bare, names, settings),
                parts=partial(_parts, names),
                bare=True,
            ),
            Architecture(
                names=(f"{names.stem}ForImageClassification",),
                kind=ViTClassifierConfig,
                config=partial(_classifier, names, settings),
                parts=partial(_classifier_parts, names),
                unused=r"pooler\..*",
            ),
        ),
        to_hf_config=partial(_to_hf_config, to_hf_config),
        lacks=partial(_lacks, names, lacks),
        sees=True,
    )


def _bare(
    names: Names,
    settings: Callable[[HFConfig], dict[str, Any]],
    hf_config: HFConfig,
    keys: Collection[str],
) -> ViTConfig:
    """Return the configuration, with pooler and mask token if the file has them."""
    has_pooler = bool(names.pooler) and f"{names.pooler}.weight" in keys
    pooler = "tanh" if has_pooler else "none"
    return ViTConfig(**{**settings(hf_config), "mask_token": MASK in keys, "pooler": pooler})


def _classifier(
    names: Names,
    settings: Callable[[HFConfig], dict[str, Any]],
    hf_config: HFConfig,
    keys: Collection[str],
) -> ViTClassifierConfig:
    hf_config.must_be("problem_type", "single_label_classification")
    vit = ViTConfig(**{**settings(hf_config), "mask_token": MASK in keys})
    count = len(hf_config.labels())
    return ViTClassifierConfig(vit=vit, num_classes=count, pooling=names.pooling)


def _parts(names: Names, config: ViTConfig) -> Iterator[Part]:
    width, (rows, columns) = config.model_dim, config.grid
    yield Part("embeddings.cls_token", ("embedding.class_token",), shape=(1, 1, width))
    yield Part(
        "embeddings.position_embeddings",
        ("embedding.class_position", "embedding.positions.vectors"),
        shape=(1, 1 + rows * columns, width),
    )
    if config.mask_token:
        shape = (1,) * (names.mask - 1) + (width,)
        yield Part(MASK, ("embedding.mask_token",), shape=shape)
    kernel = "embeddings.patch_embeddings.projection"
    yield Part(
        f"{kernel}.weight",
        ("embedding.patches.project.weight",),
        shape=(width, config.channels, *config.patch),
    )
    yield Part(f"{kernel}.bias", ("embedding.patches.project.bias",))
    for number in range(config.num_layers):
        for part in names.inside(config):
            ours = tuple(f"encoder.blocks.{number}.{name}" for name in part.ours)
            yield replace(part, theirs=f"encoder.layer.{number}.{part.theirs}", ours=ours)
    yield from layers({"layernorm": "encoder.norm"})
    if config.pooler != "none":
        yield from layers({names.pooler: "pooler.project"})


def _classifier_parts(names: Names, config: ViTClassifierConfig) -> Iterator[Part]:
    for part in _parts(names, config.vit):
        yield replace(part, ours=tuple(f"vit.{name}" for name in part.ours))
    yield from layers({"classifier": "head"})


def _to_hf_config(
    to_hf_config: Callable[[ViTConfig], dict[str, Any]], config: Any
) -> dict[str, Any]:
    if isinstance(config, ViTConfig):
        return to_hf_config(config)
    labels = hf_labels([f"LABEL_{i}" for i in range(config.num_classes)])
    return {**to_hf_config(config.vit), **labels, "problem_type": "single_label_classification"}


def _lacks(names: Names, lacks: Callable[[ViTConfig], list[str]], config: Any) -> list[str]:
    vit = config if isinstance(config, ViTConfig) else config.vit
    required: Mapping[str, tuple[Any, ...]] = {
        "positions": ("learned",),
        "attention": ("scaled-dot",),
        "class_token": (True,),
        "registers": (0,),
        "pooler": ("none", "tanh") if names.pooler else ("none",),
    }
    reasons = needs(vit, required) + lacks(vit)
    if isinstance(config, ViTClassifierConfig):
        reasons += needs(config, {"pooling": (names.pooling,)})
    return reasons


def _inside(config: ViTConfig) -> Iterator[Part]:
    yield from layers(BODY)
    yield from layers(
        {
            "layernorm_before": "around_attention.norm",
            "layernorm_after": "around_feedforward.norm",
            "intermediate.dense": "feedforward.expand",
            "output.dense": "feedforward.contract",
        }
    )


def _settings(hf_config: HFConfig) -> dict[str, Any]:
    width = hf_config.whole("hidden_size")
    hf_config.must_be("pooler_act", "tanh")
    hf_config.must_be("pooler_output_size", width)
    return {
        **vit_fields(hf_config),
        "ffn_dim": hf_config.whole("intermediate_size"),
        "norm_eps": hf_config.number("layer_norm_eps", 1e-12),
        "activation": hf_config.choice("hidden_act", ACTIVATIONS, "gelu"),
    }


def _vit_to_hf_config(config: ViTConfig) -> dict[str, Any]:
    return {
        **hf_vit_sizes(config),
        "intermediate_size": config.ffn_dim,
        "hidden_act": ACTIVATION_NAMES[config.activation],
    }


def _vit_lacks(config: ViTConfig) -> list[str]:
    return needs(
        config,
        {"layer_scale": (None,), "mask_token": (False,), "activation": tuple(ACTIVATION_NAMES)},
    )


FAMILY = image_family(
    model_type="vit",
    names=Names(stem="ViT", inside=_inside, mask=3, pooler="pooler.dense", pooling="first"),
    settings=_settings,
    to_hf_config=_vit_to_hf_config,
    lacks=_vit_lacks,
)
