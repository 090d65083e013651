"""ViT (`ViTModel` and its classifier), and DINO, whose folders are the same: pre-norm, learned
places, one of them the class token's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from headway.interop.hf_config import ACTIVATION_NAMES, ACTIVATIONS, Facts, label_facts
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
"""Of a block, what DINOv2 names alike."""


@dataclass(frozen=True, kw_only=True)
class Names:
    """How a family calls the parts of a `ViT`: theirs -> ours.

    stem: what its classes begin with. inside: a block's layers, by the configuration; gains: of a
    block, those after its sublayers. mask: the dimensions of the token for hidden patches.
    pooler: the layer on [CLS], "" for none. pooling: what a classifier reads.
    """

    stem: str
    inside: Callable[[ViTConfig], Iterator[Part]]
    mask: int
    pooler: str
    pooling: ImagePooling


def size_facts(facts: Facts) -> dict[str, Any]:
    """The fields of `ViTConfig` that ViT and DINOv2 name alike."""
    facts.must_be("qkv_bias", True)
    (y, x), (height, width) = facts.sides("image_size", 224), facts.sides("patch_size", 16)
    return {
        "image_size": y,
        "image_width": None if x == y else x,
        "patch_size": height,
        "patch_width": None if width == height else width,
        "channels": facts.whole("num_channels", 3),
        "model_dim": facts.whole("hidden_size"),
        "num_layers": facts.whole("num_hidden_layers", below=DEEPEST),
        "num_heads": facts.whole("num_attention_heads"),
        "dropout": facts.number("hidden_dropout_prob", 0.0, high=1.0),
    }


def told_sizes(config: ViTConfig) -> dict[str, Any]:
    """The way back."""

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
    settings: Callable[[Facts], dict[str, Any]],
    facts: Callable[[ViTConfig], dict[str, Any]],
    lacks: Callable[[ViTConfig], list[str]],
) -> Family:
    """A `Family` of image encoders, bare and with a classifier.

    settings: config.json -> fields of `ViTConfig` but for pooler and mask_token; facts: the way
    back. lacks: why an encoder of ours cannot be one of these.
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
        facts=partial(_facts, facts),
        lacks=partial(_lacks, names, lacks),
        sees=True,
    )


def _bare(
    names: Names, settings: Callable[[Facts], dict[str, Any]], facts: Facts, found: Collection[str]
) -> ViTConfig:
    """With the parts that the file has and config.json does not tell of."""
    has_pooler = bool(names.pooler) and f"{names.pooler}.weight" in found
    pooler = "tanh" if has_pooler else "none"
    return ViTConfig(**{**settings(facts), "mask_token": MASK in found, "pooler": pooler})


def _classifier(
    names: Names, settings: Callable[[Facts], dict[str, Any]], facts: Facts, found: Collection[str]
) -> ViTClassifierConfig:
    facts.must_be("problem_type", "single_label_classification")
    vit = ViTConfig(**{**settings(facts), "mask_token": MASK in found})
    count = len(facts.labels())
    return ViTClassifierConfig(vit=vit, num_classes=count, pooling=names.pooling)


def _parts(names: Names, config: ViTConfig) -> Iterator[Part]:
    width, (rows, columns) = config.model_dim, config.grid
    yield Part("embeddings.cls_token", ("embedding.class_token",), shape=(1, 1, width))
    yield Part(
        "embeddings.position_embeddings",
        ("embedding.class_place", "embedding.positions.vectors"),
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


def _facts(facts: Callable[[ViTConfig], dict[str, Any]], config: Any) -> dict[str, Any]:
    if isinstance(config, ViTConfig):
        return facts(config)
    labels = label_facts([f"LABEL_{i}" for i in range(config.num_classes)])
    return {**facts(config.vit), **labels, "problem_type": "single_label_classification"}


def _lacks(names: Names, lacks: Callable[[ViTConfig], list[str]], config: Any) -> list[str]:
    vit = config if isinstance(config, ViTConfig) else config.vit
    wanted: Mapping[str, tuple[Any, ...]] = {
        "positions": ("learned",),
        "attention": ("scaled-dot",),
        "class_token": (True,),
        "registers": (0,),
        "pooler": ("none", "tanh") if names.pooler else ("none",),
    }
    reasons = needs(vit, wanted) + lacks(vit)
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


def _settings(facts: Facts) -> dict[str, Any]:
    width = facts.whole("hidden_size")
    facts.must_be("pooler_act", "tanh")
    facts.must_be("pooler_output_size", width)
    return {
        **size_facts(facts),
        "ffn_dim": facts.whole("intermediate_size"),
        "norm_eps": facts.number("layer_norm_eps", 1e-12),
        "activation": facts.choice("hidden_act", ACTIVATIONS, "gelu"),
    }


def _told(config: ViTConfig) -> dict[str, Any]:
    return {
        **told_sizes(config),
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
    facts=_told,
    lacks=_vit_lacks,
)
