"""CLIP and SigLIP in Hugging Face folders: an image encoder and a text encoder in one space.

Both have two pre-norm encoders. CLIP has [CLS] and a norm after the embedding of images, a causal
text encoder, and two projections. SigLIP, and SigLIP 2 for images of one size, collect an image
vector by a learned query, and have a bias of the logits.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from headway.interop.config_fields import Fields, Key, Values, choice, number, whole
from headway.interop.hf_config import ACTIVATIONS, HFConfig, Ignored
from headway.interop.ignored_keys import CONFIG
from headway.interop.vit_kind import DEEPEST, sides
from headway.interop.weight_names import Architecture, Family, Part, layers, needs, prefixed
from headway.models import ImageTextConfig, TextTowerConfig, ViTConfig

TEXT, VISION = "text_config", "vision_config"
_IGNORED = {**CONFIG, "projection_dim": Ignored("config.json has the width of the shared space")}
"""The keys of a section of config.json that need not be read."""
_BLOCK = {
    "self_attn.q_proj": "attention.query",
    "self_attn.k_proj": "attention.key",
    "self_attn.v_proj": "attention.value",
    "self_attn.out_proj": "attention.output",
    "layer_norm1": "around_attention.norm",
    "layer_norm2": "around_feedforward.norm",
    "mlp.fc1": "feedforward.expand",
    "mlp.fc2": "feedforward.contract",
}
"""The layers of a block of either encoder, theirs -> ours."""


def _encoder(width: int, heads: int, activation: str, eps: float) -> tuple[Key, ...]:
    """Return the keys of either encoder with their defaults."""
    return (
        whole("hidden_size", "model_dim", width),
        whole("intermediate_size", "ffn_dim", 4 * width),
        whole("num_hidden_layers", "num_layers", 12, below=DEEPEST),
        whole("num_attention_heads", "num_heads", heads),
        number("layer_norm_eps", "norm_eps", eps),
        choice("hidden_act", "activation", {**ACTIVATIONS, "quick_gelu": "quick-gelu"}, activation),
    )


def _image(patch_size: int) -> tuple[Key, ...]:
    """Return the keys of the images. patch_size: its default."""
    return (
        *sides("image_size", "image_size", "image_width", 224),
        *sides("patch_size", "patch_size", "patch_width", patch_size),
        whole("num_channels", "channels", 3),
    )


def _text(length: int, vocabulary: int) -> tuple[Key, ...]:
    """Return the keys of the texts with their defaults."""
    return (
        whole("vocab_size", "vocabulary", vocabulary),
        whole("max_position_embeddings", "max_length", length),
    )


def _section(hf_config: HFConfig, name: str) -> HFConfig:
    """Return a section of config.json, with the values of old files that replace it."""
    values = hf_config.values.get(name, {})
    replaced = hf_config.values.get(f"{name}_dict", {})
    for key, section in ((name, values), (f"{name}_dict", replaced)):
        if not isinstance(section, dict):
            raise hf_config.refusal(key, section, "an object (names and values)")
    return HFConfig({**values, **replaced}, f"{hf_config.where}, {name}")


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """A family of pairs of encoders.

    stem: prefix of the class name. vision, text: the tables of the sections of config.json. fixed:
    the settings of ours, besides encoders and widths, that have one value in this family.
    text_projection: the projection of texts. scale: the shape of the temperature.
    """

    model_type: str
    stem: str
    vision: Fields
    text: Fields
    fixed: Mapping[str, object]
    text_projection: str
    scale: tuple[int, ...]

    def family(self) -> Family[ImageTextConfig]:
        return Family(
            model_type=self.model_type,
            prefix="",
            heads="",
            ignored=r"(text|vision)_model\.embeddings\.position_ids",
            architectures=(
                Architecture(
                    names=(f"{self.stem}Model",),
                    kind=ImageTextConfig,
                    config=self._config,
                    parts=self._parts,
                ),
            ),
            to_hf_config=self._to_hf_config,
            lacks=self._lacks,
            sees=True,
        )

    def _config(self, hf_config: HFConfig, keys: Collection[str]) -> ImageTextConfig:
        text_section, vision_section = (_section(hf_config, name) for name in (TEXT, VISION))
        vit = ViTConfig(**self.vision.read(vision_section))
        text = TextTowerConfig(**self.text.read(text_section))
        if self.fixed["image_projection"]:
            shared = hf_config.whole("projection_dim", 512)
        else:
            shared = text_section.whole("projection_size", text.model_dim)
        for section in (text_section, vision_section):
            section.check_all_read(_IGNORED)
        fixed: Values = dict(self.fixed)
        return ImageTextConfig(vit=vit, text=text, shared_dim=shared, **fixed)

    def _to_hf_config(self, config: ImageTextConfig) -> Values:
        text, vision = self.text.write(config.text), self.vision.write(config.vit)
        whole_file: Values = {}
        if config.image_projection:
            whole_file["projection_dim"] = config.shared_dim
            for section in (text, vision):
                section["projection_dim"] = config.shared_dim
        else:
            text["projection_size"] = config.shared_dim
        return {
            **whole_file,
            TEXT: {**text, "model_type": f"{self.model_type}_text_model"},
            VISION: {**vision, "model_type": f"{self.model_type}_vision_model"},
        }

    def _lacks(self, config: ImageTextConfig) -> list[str]:
        reasons = needs(config, {name: (value,) for name, value in self.fixed.items()})
        reasons += [f"vit.{reason}" for reason in self.vision.lacks(config.vit)]
        return reasons + [f"text.{reason}" for reason in self.text.lacks(config.text)]

    def _parts(self, config: ImageTextConfig) -> Iterator[Part]:
        yield Part("logit_scale", ("scale",), shape=self.scale)
        if config.match == "sigmoid":
            yield Part("logit_bias", ("bias",))
        yield from prefixed(_text_parts(config.text), "text_model.", "text.")
        yield from layers({self.text_projection: "text_projection"}, biases=config.text_bias)
        yield from prefixed(_vision_parts(config.vit), "vision_model.", "vit.")
        if config.image_projection:
            yield from layers({"visual_projection": "image_projection"}, biases=False)
        if config.image_pooling == "attention":
            pooler = _pooler_parts(config.vit.model_dim)
            yield from prefixed(pooler, "vision_model.head.", "image_pooler.")


def _blocks(count: int) -> Iterator[Part]:
    for n in range(count):
        yield from layers(_BLOCK, f"encoder.layers.{n}.", f"encoder.blocks.{n}.")


def _text_parts(config: TextTowerConfig) -> Iterator[Part]:
    yield Part("embeddings.token_embedding.weight", ("embedding.tokens.weight",))
    yield Part("embeddings.position_embedding.weight", ("embedding.positions.table.vectors",))
    yield from _blocks(config.num_layers)
    yield from layers({"final_layer_norm": "encoder.norm"})


def _vision_parts(config: ViTConfig) -> Iterator[Part]:
    width = config.model_dim
    positions: tuple[str, ...] = ("embedding.positions.vectors",)
    if config.class_token:
        yield Part("embeddings.class_embedding", ("embedding.class_token",), shape=(width,))
        positions = ("embedding.class_position", *positions)
    yield Part("embeddings.position_embedding.weight", positions)
    yield Part(
        "embeddings.patch_embedding.weight",
        ("embedding.patches.project.weight",),
        shape=(width, config.channels, *config.patch),
    )
    if config.patch_bias:
        yield Part("embeddings.patch_embedding.bias", ("embedding.patches.project.bias",))
    if config.embedding_norm:
        yield from layers({"pre_layrnorm": "embedding.norm"})  # their spelling
    yield from _blocks(config.num_layers)
    yield from layers({"post_layernorm": "encoder.norm"})


def _pooler_parts(width: int) -> Iterator[Part]:
    yield Part("probe", ("query",), shape=(1, 1, width))
    for kind in ("weight", "bias"):
        projections = tuple(f"attention.{name}.{kind}" for name in ("query", "key", "value"))
        yield Part(f"attention.in_proj_{kind}", projections)
    yield from layers(
        {
            "attention.out_proj": "attention.output",
            "layernorm": "norm",
            "mlp.fc1": "feedforward.expand",
            "mlp.fc2": "feedforward.contract",
        }
    )


_IMAGES: Mapping[str, object] = {
    "positions": "learned",
    "attention": "scaled-dot",
    "distillation_token": False,
    "registers": 0,
    "key_bias": True,
    "final_norm": "tokens",
    "mask_token": False,
    "layer_scale": None,
    "dropout": 0.0,
}
"""The settings of an image encoder that have one value in both families."""
CLIP = _Kind(
    model_type="clip",
    stem="CLIP",
    vision=Fields(
        keys=(*_image(32), *_encoder(768, 12, "quick_gelu", 1e-5)),
        fixed={**_IMAGES, "class_token": True, "patch_bias": False, "embedding_norm": True},
    ),
    text=Fields(
        keys=(*_text(77, 49_408), *_encoder(512, 8, "quick_gelu", 1e-5)), fixed={"causal": True}
    ),
    fixed={
        "image_pooling": "first",
        "image_projection": True,
        "text_bias": False,
        "match": "softmax",
    },
    text_projection="text_projection",
    scale=(),
).family()
SIGLIP = _Kind(
    model_type="siglip",
    stem="Siglip",
    vision=Fields(
        keys=(*_image(16), *_encoder(768, 12, "gelu_pytorch_tanh", 1e-6)),
        fixed={**_IMAGES, "class_token": False, "patch_bias": True, "embedding_norm": False},
        expected={"vision_use_head": True},
    ),
    text=Fields(
        keys=(*_text(64, 32_000), *_encoder(768, 12, "gelu_pytorch_tanh", 1e-6)),
        fixed={"causal": False},
    ),
    fixed={
        "image_pooling": "attention",
        "image_projection": False,
        "text_bias": True,
        "match": "sigmoid",
    },
    text_projection="text_model.head",
    scale=(1,),
).family()
FAMILIES = (CLIP, SIGLIP)
