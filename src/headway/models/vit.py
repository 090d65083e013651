"""Encoders of images: the Vision Transformer (lecture 3.8), as DINO and DINOv2 use it too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import nn

from headway.attention import Mask, MultiHeadAttention
from headway.blocks import (
    Encoder,
    EncoderBlock,
    FeedForward,
    GatedFeedForward,
    ImageEmbedding,
    LayerNorm,
    LearnedGrid,
    NoGrid,
    Patches,
    Pooler,
    PreNorm,
    Residual,
    ScaledPreNorm,
    SinusoidalGrid,
)
from headway.blocks.feedforward import ACTIVATIONS
from headway.models import kernels_and_positions
from headway.models.contracts import init_weights
from headway.settings import HEADS, LAYERS, PIXELS, WIDTH, setting
from headway.shapes import Bool, Float, Tensor

Value = int | float | str | bool | None


def _vit(layers: int, width: int, heads: int, **others: Value) -> dict[str, Value]:
    """A size as ViT has it, for photographs of 224 x 224 in patches of 16 x 16."""
    shape = {"num_layers": layers, "model_dim": width, "num_heads": heads, "ffn_dim": 4 * width}
    photograph: dict[str, Value] = {"image_size": 224, "patch_size": 16, "channels": 3}
    return {**photograph, **shape, **others}


_DINOV2: dict[str, Value] = {
    "image_size": 518,
    "patch_size": 14,
    "layer_scale": 1.0,
    "mask_token": True,
}


@dataclass(frozen=True, kw_only=True)
class ViTConfig:
    """Shape of a `ViT`. The named sizes are in `sizes`.

    b, l: Dosovitskiy et al. 2021, table 1. ti, s: Touvron et al. 2021 (DeiT). dinov2-*: Oquab et
    al. 2023. tiny, mini: for small pictures on a CPU.
    """

    image_size: int = setting(
        32, "height of the images, in pixels; other sizes may be given", gt=0, le=PIXELS
    )
    image_width: int | None = setting(None, "their width; none: as their height", gt=0, le=PIXELS)
    patch_size: int = setting(4, "height of a patch", gt=0, le=PIXELS)
    patch_width: int | None = setting(
        None, "width of a patch; none: as its height", gt=0, le=PIXELS
    )
    channels: int = setting(3, "numbers in a pixel: 1 grey, 3 colour", gt=0, le=PIXELS)
    model_dim: int = setting(128, "width of every layer's input and output", gt=0, le=WIDTH)
    num_heads: int = setting(4, "attention heads", gt=0, le=HEADS)
    ffn_dim: int = setting(512, "inner width of the feed-forward layers", gt=0, le=WIDTH)
    num_layers: int = setting(6, "encoder blocks", gt=0, le=LAYERS)
    dropout: float = setting(0.0, "share of activations dropped while training", ge=0, lt=1)
    norm_eps: float = setting(1e-6, "added to the variance under a norm's root", gt=0)
    activation: Literal["relu", "gelu", "gelu-tanh", "silu", "swiglu"] = setting(
        "gelu", "nonlinearity of the feed-forward layers; swiglu: a gated one"
    )
    positions: Literal["learned", "sinusoidal", "none"] = setting(
        "learned", "how a patch knows its place: trained vectors, or sines of row and column"
    )
    attention: Literal["scaled-dot", "dot", "bilinear", "additive", "linear", "linear-elu"] = (
        setting("scaled-dot", "the score of every attention")
    )
    class_token: bool = setting(True, "has a token that reads the whole image, [CLS]")
    registers: int = setting(0, "tokens beside it that nobody reads", ge=0, le=PIXELS)
    mask_token: bool = setting(False, "has a token that stands where a patch is hidden")
    layer_scale: float | None = setting(
        None, "what the gains after each sublayer begin at; none: there are none", gt=0
    )
    pooler: Literal["tanh", "none"] = setting(
        "none", "activation of a layer that makes an image's vector of [CLS]; none: no such layer"
    )

    family: ClassVar[str] = "vit"
    sizes: ClassVar[dict[str, dict[str, Value]]] = {
        "mini": {"model_dim": 64, "num_heads": 4, "ffn_dim": 128, "num_layers": 4},
        "tiny": {},
        "ti": _vit(12, 192, 3),
        "s": _vit(12, 384, 6),
        "b": _vit(12, 768, 12),
        "l": _vit(24, 1024, 16),
        "dinov2-s": _vit(12, 384, 6, **_DINOV2),
        "dinov2-b": _vit(12, 768, 12, **_DINOV2),
        "dinov2-l": _vit(24, 1024, 16, **_DINOV2),
        "dinov2-g": {
            **_vit(40, 1536, 24, **_DINOV2),
            "ffn_dim": 4096,
            "activation": "swiglu",
        },
    }

    @property
    def image(self) -> tuple[int, int]:
        """Height and width of the images, in pixels."""
        return self.image_size, self.image_width or self.image_size

    @property
    def patch(self) -> tuple[int, int]:
        """Height and width of a patch."""
        return self.patch_size, self.patch_width or self.patch_size

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        (y, x), (height, width) = self.image, self.patch
        return y // height, x // width

    def __post_init__(self) -> None:
        model_dim, num_heads = self.model_dim, self.num_heads
        if model_dim % num_heads:
            raise ValueError(f"{model_dim=} must be a multiple of {num_heads=}")
        if 0 in self.grid:
            (y, x), (height, width) = self.image, self.patch
            raise ValueError(f"an image of {y} x {x} holds no patch of {height} x {width}")
        if self.positions == "sinusoidal" and model_dim % 4:
            raise ValueError(f"{model_dim=} must be a multiple of 4 for positions=sinusoidal")
        if self.pooler != "none" and not self.class_token:
            raise ValueError("a pooler reads [CLS]: class_token must be true")


class ViT(nn.Module):
    """Patches and a class token through encoder blocks, norms before the sublayers; a pooler on
    [CLS] where the configuration asks for one.

    Dosovitskiy et al. 2021, equations 1 to 4; Caron et al. 2021 (DINO); Oquab et al. 2023 (DINOv2,
    whose sublayers are scaled).
    """

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = _embedding(config)
        blocks = [_block(config) for _ in range(config.num_layers)]
        self.encoder = Encoder(blocks, LayerNorm(config.model_dim, config.norm_eps))
        self.pooler = Pooler(config.model_dim, torch.tanh) if config.pooler == "tanh" else None
        if self.embedding.patches.project.weight.device.type != "meta":
            self.init_weights()

    def init_weights(self) -> None:
        """Xavier-uniform matrices, zero biases, patches of variance 1; as ViT's released code."""
        init_weights(self)
        self.embedding.patches.init_weights()  # after the matrix in it was set as all others

    def encode(
        self, images: Float[Tensor, "B C Y X"], hidden: Bool[Tensor, "B P"] | None = None
    ) -> Float[Tensor, "B T D"]:
        """A vector of [CLS], of each register and of each patch, row by row.

        images: pixels as the model's reader normalises them, of any size that holds a patch.
        hidden: True where a patch is not to be seen.
        """
        embedded = self.embedding(images, hidden)
        found: Tensor = self.encoder(embedded, Mask())
        return found

    def of_patches(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B P D"]:
        """The vectors of the patches alone."""
        return hidden[:, self.embedding.beside :]

    def of_class(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B D"]:
        """The vector of [CLS]. ValueError for a model without one."""
        if not self.config.class_token:
            raise ValueError("this model has no class token: take the mean of its patches")
        return hidden[:, 0]

    def pool(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B D"]:
        """One vector for each image, from [CLS]'s. ValueError for a model without a pooler."""
        if self.pooler is None:
            raise ValueError("this model has no pooler")
        pooled: Tensor = self.pooler(hidden)
        return pooled

    def forward(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B T D"]:
        """`encode`."""
        return self.encode(images)


@torch.no_grad()
def start_vit(start: ViT, config: ViTConfig) -> ViT:
    """A model of its own, of shape `config`, with the values of `start`.

    Places of another grid are read between those of `start` (`LearnedGrid`); a pooler comes along
    where `config` has one. ValueError where the two do not fit.
    """
    model = ViT(config)
    values = start.state_dict()
    own, places = model.state_dict(), start.embedding.positions
    if isinstance(places, LearnedGrid):
        values["embedding.positions.vectors"] = places.of(*config.grid)
    for name, value in own.items():
        if name not in values or values[name].shape != value.shape:
            raise ValueError(f"{name} of the model to start from is not {tuple(value.shape)}")
    model.load_state_dict({name: values[name] for name in own})
    return model


def _embedding(config: ViTConfig) -> ImageEmbedding:
    width = config.model_dim
    if config.positions == "learned":
        positions: LearnedGrid | SinusoidalGrid | NoGrid = LearnedGrid(*config.grid, width)
    else:
        positions = SinusoidalGrid(width) if config.positions == "sinusoidal" else NoGrid()
    return ImageEmbedding(
        Patches(config.channels, *config.patch, width),
        positions,
        class_token=config.class_token,
        registers=config.registers,
        mask_token=config.mask_token,
        dropout=config.dropout,
    )


def _block(config: ViTConfig) -> EncoderBlock:
    width, heads = config.model_dim, config.num_heads
    kernel = kernels_and_positions.kernel(config.attention, heads, width // heads, None)
    feedforward: nn.Module
    if config.activation == "swiglu":
        feedforward = GatedFeedForward(width, config.ffn_dim, bias=True)
    else:
        feedforward = FeedForward(width, config.ffn_dim, ACTIVATIONS[config.activation])

    def residual() -> Residual:
        norm = LayerNorm(width, config.norm_eps)
        if config.layer_scale is None:
            return PreNorm(norm, config.dropout)
        return ScaledPreNorm(norm, width, config.layer_scale, config.dropout)

    return EncoderBlock(MultiHeadAttention(width, heads, kernel=kernel), feedforward, residual)
