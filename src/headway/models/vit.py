"""Vision Transformer: h = encoder([c; E patch_1; ...; E patch_P] + positions).

An image is cut into patches, which are encoded like the words of a text. The class token c, [CLS],
attends to all patches; its output is the vector of the image. DINO to DINOv3, DeiT and BEiT use
this encoder too.

>>> import torch
>>> from headway.models import ViT, ViTConfig
>>> config = ViTConfig(
...     image_size=4, patch_size=2, channels=1, model_dim=8, num_heads=2, ffn_dim=16, num_layers=1
... )
>>> model = ViT(config).eval()
>>> image = torch.arange(16.0).view(1, 1, 4, 4)  # B C Y X: four patches of 2 x 2 pixels
>>> hidden = model(image)
>>> hidden.shape  # B T D: [CLS] and four patches
torch.Size([1, 5, 8])
>>> changed = image.clone()
>>> changed[0, 0, 3, 3] = 0.0  # one pixel, in the last patch
>>> torch.equal(model.class_vector(hidden), model.class_vector(model(changed)))  # [CLS] attends
False
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import nn

from headway.attention import Mask, MultiHeadAttention, RelativeGrid, RotaryGrid
from headway.base.settings import HEADS, LAYERS, PIXELS, WIDTH, count, fraction, setting
from headway.base.shapes import Bool, Float, Tensor
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

Value = int | float | str | bool | None


def _vit(layers: int, width: int, heads: int, **changes: Value) -> dict[str, Value]:
    """Return a size of ViT, for photographs of 224 x 224 pixels in patches of 16 x 16."""
    shape = {"num_layers": layers, "model_dim": width, "num_heads": heads, "ffn_dim": 4 * width}
    photograph: dict[str, Value] = {"image_size": 224, "patch_size": 16, "channels": 3}
    return {**photograph, **shape, **changes}


_DINOV2: dict[str, Value] = {
    "image_size": 518,
    "patch_size": 14,
    "layer_scale": 1.0,
    "mask_token": True,
}


@dataclass(frozen=True, kw_only=True)
class ViTConfig:
    """Architecture of a `ViT`. The named sizes are in `sizes`.

    b, l: Dosovitskiy et al. 2021, table 1. ti, s: Touvron et al. 2021 (DeiT). dinov2-*: Oquab et
    al. 2023. tiny, mini: for small images on a CPU.
    """

    image_size: int = count(
        32, "image height in pixels; a trained model accepts other sizes", PIXELS
    )
    image_width: int | None = count(
        None, "image width in pixels; if unset, the image height", PIXELS
    )
    patch_size: int = count(4, "patch height in pixels", PIXELS)
    patch_width: int | None = count(
        None, "patch width in pixels; if unset, the patch height", PIXELS
    )
    channels: int = count(3, "channels of a pixel: 1 for grey, 3 for colour", PIXELS)
    model_dim: int = count(128, "model width: size of the vectors between layers", WIDTH)
    num_heads: int = count(4, "number of attention heads", HEADS)
    ffn_dim: int = count(512, "inner dimension of the feed-forward layers", WIDTH)
    num_layers: int = count(6, "number of encoder layers", LAYERS)
    dropout: float = fraction(0.0, "dropout probability of activations")
    norm_eps: float = setting(1e-6, "epsilon of the norms, added to the variance", gt=0)
    activation: Literal["relu", "gelu", "gelu-tanh", "quick-gelu", "silu", "swiglu"] = setting(
        "gelu", "activation function of the feed-forward layers; swiglu adds a gate"
    )
    positions: Literal["learned", "sinusoidal", "relative", "rotary", "none"] = setting(
        "learned",
        "position encoding of patches: learned vectors, sines of row and column, learned biases of "
        "the scores by distance in rows and columns, or rotary positions of row and column",
    )
    attention: Literal["scaled-dot", "dot", "bilinear", "additive", "linear", "linear-elu"] = (
        setting("scaled-dot", "attention score of all layers")
    )
    class_token: bool = setting(True, "class token [CLS], whose output represents the image")
    distillation_token: bool = setting(
        False, "distillation token after [CLS], whose output predicts what a teacher predicts"
    )
    registers: int = count(
        0, "number of register tokens, whose outputs are not used", PIXELS, least=0
    )
    mask_token: bool = setting(False, "mask token, which replaces masked patches")
    patch_bias: bool = setting(True, "bias of the projection of patches")
    key_bias: bool = setting(True, "bias of the projections of keys")
    final_norm: Literal["tokens", "mean"] = setting(
        "tokens", "norm after the last block: of each token, or of the mean of the patches"
    )
    embedding_norm: bool = setting(False, "layer norm between the embedding and the first block")
    layer_scale: float | None = setting(
        None, "LayerScale: initial gain after each sublayer; if unset, no gains", gt=0
    )
    pooler: Literal["tanh", "none"] = setting(
        "none",
        "activation of the pooler, a layer that turns [CLS] into the image vector, or none",
    )

    family: ClassVar[str] = "vit"
    sizes: ClassVar[dict[str, dict[str, Value]]] = {
        "mini": {"model_dim": 64, "num_heads": 4, "ffn_dim": 128, "num_layers": 4},
        "tiny": {"model_dim": 128, "num_heads": 4, "ffn_dim": 512, "num_layers": 6},
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
        """The height and width of the images in pixels."""
        return self.image_size, self.image_width or self.image_size

    @property
    def patch(self) -> tuple[int, int]:
        """The height and width of a patch in pixels."""
        return self.patch_size, self.patch_width or self.patch_size

    @property
    def grid(self) -> tuple[int, int]:
        """The numbers of rows and columns of patches."""
        (y, x), (height, width) = self.image, self.patch
        return y // height, x // width

    @property
    def num_prefix_tokens(self) -> int:
        """The number of tokens before the patches: class and distillation token, registers."""
        return self.class_token + self.distillation_token + self.registers

    def __post_init__(self) -> None:
        model_dim, num_heads = self.model_dim, self.num_heads
        if model_dim % num_heads:
            raise ValueError(f"{model_dim=} must be a multiple of {num_heads=}")
        if 0 in self.grid:
            (y, x), (height, width) = self.image, self.patch
            raise ValueError(
                f"an image of {y} x {x} pixels is smaller than a patch of {height} x {width}"
            )
        if self.positions == "sinusoidal" and model_dim % 4:
            raise ValueError(f"{model_dim=} must be a multiple of 4 for positions=sinusoidal")
        if self.distillation_token and not self.class_token:
            raise ValueError("distillation_token=true needs [CLS]: set class_token=true")
        if self.positions == "relative" and (
            not self.class_token or self.distillation_token or self.registers
        ):
            raise ValueError(
                "positions=relative needs [CLS] and no other tokens before the patches: set "
                "class_token=true, distillation_token=false and registers=0"
            )
        if self.positions == "rotary" and model_dim // num_heads % 4:
            raise ValueError(
                f"{model_dim=} / {num_heads=} must be a multiple of 4 for positions=rotary"
            )
        if self.pooler != "none" and not self.class_token:
            raise ValueError("the pooler needs [CLS]: set class_token=true or pooler=none")


class ViT(nn.Module):
    """Image embedding, pre-norm encoder, and a pooler on [CLS] if `config` has one.

    Dosovitskiy et al. 2021, equations 1 to 4; Caron et al. 2021 (DINO); Oquab et al. 2023 (DINOv2,
    with LayerScale); Touvron et al. 2021 (DeiT, with a distillation token); Bao et al. 2022 (BEiT,
    with relative positions and a norm of the mean); Siméoni et al. 2025 (DINOv3, with rotary
    positions).
    """

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = _embedding(config)
        rotary = None
        if config.positions == "rotary":
            width = config.model_dim // config.num_heads
            rotary = RotaryGrid(*config.grid, config.num_prefix_tokens, width)
        blocks = [_block(config, rotary) for _ in range(config.num_layers)]
        norm, of_mean = LayerNorm(config.model_dim, config.norm_eps), config.final_norm == "mean"
        self.encoder = Encoder(blocks, nn.Identity() if of_mean else norm)
        self.mean_norm = norm if of_mean else nn.Identity()
        self.pooler = Pooler(config.model_dim, torch.tanh) if config.pooler == "tanh" else None
        if not self.embedding.patches.project.weight.is_meta:
            self.init_weights()

    def init_weights(self) -> None:
        """Initialise with Xavier-uniform matrices and zero biases, and patch tokens of variance 1.

        As the released code of ViT.
        """
        init_weights(self)
        self.embedding.patches.init_weights()  # replaces the values of `init_weights`

    def encode(
        self, images: Float[Tensor, "B C Y X"], hidden: Bool[Tensor, "B P"] | None = None
    ) -> Float[Tensor, "B T D"]:
        """Return the vectors of [CLS], of each register and of each patch, row by row.

        images: pixels as the model's image reader normalises them, at least as large as a patch.
        hidden: True where the mask token replaces a patch.
        """
        embedded = self.embedding(images, hidden)
        return self.encoder(embedded, Mask())

    def patch_vectors(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B P D"]:
        """Return the vectors of the patches only."""
        return hidden[:, self.embedding.num_prefix_tokens :]

    def class_vector(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B D"]:
        """Return the vector of [CLS]. ValueError for a model without class token."""
        if not self.config.class_token:
            raise ValueError("this model has no class token: use the mean of its patches")
        return hidden[:, 0]

    def mean_vector(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B D"]:
        """Return the mean of the vectors of the patches, normalised if `final_norm` is its norm."""
        mean: Tensor = self.mean_norm(self.patch_vectors(hidden).mean(1))
        return mean

    def pool(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B D"]:
        """Return one vector for each image, from [CLS]. ValueError for a model without a pooler."""
        if self.pooler is None:
            raise ValueError(
                "this model has no pooler: use the vector of [CLS] or the mean instead"
            )
        return self.pooler(hidden)

    def forward(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B T D"]:
        """Return `encode(images)`."""
        return self.encode(images)


@torch.no_grad()
def initialise_vit(start: ViT, config: ViTConfig) -> ViT:
    """Return a new model of architecture `config`, initialised with the parameters of `start`.

    Learned positions are interpolated if the grid is another (`LearnedGrid`); the pooler is copied
    if `config` has one. Raises ValueError if a parameter of the new model is missing in `start` or
    has another shape there.
    """
    model = ViT(config)
    initial = start.state_dict()
    positions = start.embedding.positions
    if isinstance(positions, LearnedGrid):
        initial["embedding.positions.vectors"] = positions.of(*config.grid)
    parameters = model.state_dict()
    for name, parameter in parameters.items():
        shape = tuple(initial[name].shape) if name in initial else None
        if shape != tuple(parameter.shape):
            raise ValueError(
                f"cannot initialise {name} of shape {tuple(parameter.shape)}: "
                + (f"it has shape {shape}" if shape else "it is missing")
                + " in the pre-trained model"
            )
    model.load_state_dict({name: initial[name] for name in parameters})
    return model


def _embedding(config: ViTConfig) -> ImageEmbedding:
    width = config.model_dim
    if config.positions == "learned":
        positions: LearnedGrid | SinusoidalGrid | NoGrid = LearnedGrid(*config.grid, width)
    else:
        positions = SinusoidalGrid(width) if config.positions == "sinusoidal" else NoGrid()
    return ImageEmbedding(
        Patches(config.channels, *config.patch, width, config.patch_bias),
        positions,
        class_token=config.class_token,
        distillation_token=config.distillation_token,
        registers=config.registers,
        mask_token=config.mask_token,
        norm=LayerNorm(width, config.norm_eps) if config.embedding_norm else None,
        dropout=config.dropout,
    )


def vit_feedforward(config: ViTConfig) -> nn.Module:
    """Make a feed-forward layer of the kind that `config` names."""
    if config.activation == "swiglu":
        return GatedFeedForward(config.model_dim, config.ffn_dim, bias=True)
    return FeedForward(config.model_dim, config.ffn_dim, ACTIVATIONS[config.activation])


def _block(config: ViTConfig, rotary: RotaryGrid | None) -> EncoderBlock:
    width, heads = config.model_dim, config.num_heads
    kernel = kernels_and_positions.kernel(config.attention, heads, width // heads, None)

    def residual() -> Residual:
        norm = LayerNorm(width, config.norm_eps)
        if config.layer_scale is None:
            return PreNorm(norm, config.dropout)
        return ScaledPreNorm(norm, width, config.layer_scale, config.dropout)

    relative = config.positions == "relative"
    positions = RelativeGrid(*config.grid, heads) if relative else rotary
    attention = MultiHeadAttention(width, heads, kernel=kernel, positions=positions)
    if not config.key_bias:
        attention.key = nn.Linear(width, width, bias=False)
    return EncoderBlock(attention, vit_feedforward(config), residual)
