"""How families of image encoders in Hugging Face folders differ: names, settings, heads."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from headway.interop.config_fields import Fields, Key, Values, probability, whole
from headway.interop.hf_config import HFConfig, hf_labels
from headway.interop.weight_names import Architecture, Family, Part, layers, needs, prefixed
from headway.models import ViTClassifierConfig, ViTConfig
from headway.models.vit_classifier import HeadPooling

DEEPEST = 1000
MASK = "embeddings.mask_token"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A family of image encoders: the names of the parts of a `ViT`, theirs -> ours.

    stem: prefix of the class names. fields: the table of config.json, except pooler and mask_token.
    inside: yields the tensors of a block for a configuration. mask: number of dimensions of the
    mask token. pooler: the layer on [CLS]; "" if there is none. pooling: the input of a
    classifier's head; None if transformers has no classifiers of this family. lacks: returns the
    settings that the table of fields cannot check. taught: whether there are classifiers with a
    second head, on the distillation token. patches, blocks, norm: the names of the projection of
    patches, of the list of blocks and of the last norm.
    """

    model_type: str
    stem: str
    fields: Fields
    inside: Callable[[ViTConfig], Iterator[Part]]
    mask: int
    pooler: str
    pooling: HeadPooling | None
    lacks: Callable[[ViTConfig], list[str]]
    taught: bool = False
    patches: str = "embeddings.patch_embeddings.projection"
    blocks: str = "encoder.layer"
    norm: str = "layernorm"

    def family(self) -> Family[ViTConfig | ViTClassifierConfig]:
        return Family(
            model_type=self.model_type,
            prefix=f"{self.model_type}.",
            heads=r"(cls_|distillation_)?classifier[.].*",
            ignored=r"embeddings\.position_ids|.*\.relative_position_index",
            architectures=(
                Architecture(
                    names=(f"{self.stem}Model",),
                    kind=ViTConfig,
                    config=self._bare,
                    parts=self._parts,
                    bare=True,
                ),
                *((self._with_head("", self.pooling),) if self.pooling else ()),
                *((self._with_head("WithTeacher", "distilled"),) if self.taught else ()),
            ),
            to_hf_config=self._to_hf_config,
            lacks=self._lacks,
            sees=True,
        )

    def _with_head(self, end: str, pooling: HeadPooling) -> Architecture[ViTClassifierConfig]:
        """Return the class of the classifiers with this pooling. end: of the name of the class."""
        return Architecture(
            names=(f"{self.stem}ForImageClassification{end}",),
            kind=ViTClassifierConfig,
            config=partial(self._classifier, pooling),
            parts=self._classifier_parts,
            fits=lambda config: config.pooling == pooling,
            unused=r"pooler\.dense\..*",  # of a file that also has the pooler
        )

    def _bare(self, hf_config: HFConfig, keys: Collection[str]) -> ViTConfig:
        """Return the configuration, with pooler and mask token if the file has them."""
        has_pooler = bool(self.pooler) and f"{self.pooler}.weight" in keys
        fields = self.fields.read(hf_config) | {"pooler": "tanh" if has_pooler else "none"}
        return ViTConfig(**fields, mask_token=MASK in keys)

    def _classifier(
        self, pooling: HeadPooling, hf_config: HFConfig, keys: Collection[str]
    ) -> ViTClassifierConfig:
        hf_config.must_be("problem_type", "single_label_classification")
        vit = ViTConfig(**self.fields.read(hf_config), mask_token=MASK in keys)
        count = len(hf_config.labels())
        return ViTClassifierConfig(vit=vit, num_classes=count, pooling=pooling)

    def _parts(self, config: ViTConfig) -> Iterator[Part]:
        width, (rows, columns) = config.model_dim, config.grid
        tokens = {"cls": "class"}
        if config.distillation_token:
            tokens["distillation"] = "distillation"
        for theirs, ours in tokens.items():
            name = f"embeddings.{theirs}_token"
            yield Part(name, (f"embedding.{ours}_token",), shape=(1, 1, width))
        if config.positions == "learned":
            before = tuple(f"embedding.{ours}_position" for ours in tokens.values())
            yield Part(
                "embeddings.position_embeddings",
                (*before, "embedding.positions.vectors"),
                shape=(1, len(tokens) + rows * columns, width),
            )
        if config.registers:
            registers = (1, config.registers, width)
            yield Part("embeddings.register_tokens", ("embedding.registers",), shape=registers)
        if config.mask_token:
            shape = (1,) * (self.mask - 1) + (width,)
            yield Part(MASK, ("embedding.mask_token",), shape=shape)
        yield Part(
            f"{self.patches}.weight",
            ("embedding.patches.project.weight",),
            shape=(width, config.channels, *config.patch),
        )
        yield Part(f"{self.patches}.bias", ("embedding.patches.project.bias",))
        for n in range(config.num_layers):
            inside = self.inside(config)
            yield from prefixed(inside, f"{self.blocks}.{n}.", f"encoder.blocks.{n}.")
        if config.final_norm == "mean":
            yield from layers({"pooler.layernorm": "mean_norm"})
        else:
            yield from layers({self.norm: "encoder.norm"})
        if config.pooler != "none":
            yield from layers({self.pooler: "pooler.project"})

    def _classifier_parts(self, config: ViTClassifierConfig) -> Iterator[Part]:
        yield from prefixed(self._parts(config.vit), ours="vit.")
        if config.pooling == "distilled":
            heads = {"cls_classifier": "head", "distillation_classifier": "distilled_head"}
        else:
            heads = {"classifier": "head"}
        yield from layers(heads)

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
            poolings = (self.pooling, *(("distilled",) if self.taught else ()))
            reasons += needs(config, {"pooling": poolings})
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


FIELDS = Fields(
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
        "distillation_token": False,
        "registers": 0,
        "patch_bias": True,
        "key_bias": True,
        "final_norm": "tokens",
        "embedding_norm": False,
    },
    expected={"qkv_bias": True},
    constant={"attention_probs_dropout_prob": 0.0, "qkv_bias": True},
)
ATTENTION = {
    "attention.attention.query": "attention.query",
    "attention.attention.key": "attention.key",
    "attention.attention.value": "attention.value",
    "attention.output.dense": "attention.output",
}
"""The attention layers of a block, theirs -> ours, in both families."""


AROUND = {
    "layernorm_before": "around_attention.norm",
    "layernorm_after": "around_feedforward.norm",
    "intermediate.dense": "feedforward.expand",
    "output.dense": "feedforward.contract",
}
"""The other layers of a block, theirs -> ours, in ViT, DeiT and BEiT."""


def layer_scale(theirs: str, default: float) -> Key:
    """The gain after each sublayer at the start of training."""
    return Key(
        theirs,
        "layer_scale",
        lambda file, _: file.number(theirs, default, low=1e-30),
        attrgetter("layer_scale"),
    )


def without_layer_scale(config: ViTConfig) -> list[str]:
    """Return why a family with LayerScale cannot represent a configuration without."""
    return ["layer_scale=None (must be a number)"] if config.layer_scale is None else []
