"""Captioners: an encoder of pictures under a decoder of text (lecture 3.10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from headway.attention import Mask, MultiHeadAttention
from headway.blocks import Decoder, DecoderBlock, DecoderState
from headway.models import kernels_and_positions
from headway.models.contracts import init_normal
from headway.models.gpt import (
    GPT,
    GPTConfig,
    gpt_attention,
    gpt_embeddings,
    gpt_feedforward,
    gpt_norm,
    gpt_positions,
    gpt_residual,
)
from headway.models.vit import ViT, ViTConfig
from headway.settings import section
from headway.shapes import Float, Int, Tensor

STD = 0.02
SUBLAYERS = 3
_INTO_THE_STREAM = ("attention.output.weight", "cross.output.weight", "contract.weight")


def _size(vit: str, **gpt: Any) -> dict[str, Any]:
    """A ViT of that size, and a GPT."""
    sees = {f"vit.{key}": value for key, value in ViTConfig.sizes[vit].items()}
    return {**sees, **{f"gpt.{key}": value for key, value in gpt.items()}}


@dataclass(frozen=True, kw_only=True)
class CaptionerConfig:
    """Shape of a `Captioner`: the encoder's and the decoder's. The named sizes are in `sizes`.

    base: ViT-Base under GPT-2 small, which is what Hugging Face's captioners are. mini, tiny: for
    small pictures on a CPU.
    """

    vit: ViTConfig = section(ViTConfig)
    gpt: GPTConfig = section(GPTConfig)

    family: ClassVar[str] = "captioner"
    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "mini": _size("mini", model_dim=64, num_heads=4, ffn_dim=256, num_layers=2),
        "tiny": _size(
            "tiny",
            **{"model_dim": 128, "num_heads": 4, "ffn_dim": 512, "num_layers": 4},
        ),
        "base": _size(
            "b",
            **{"model_dim": 768, "num_heads": 12, "ffn_dim": 3072, "num_layers": 12},
        ),
    }

    def __post_init__(self) -> None:
        if self.vit.pooler != "none":
            raise ValueError("a captioner reads every vector of the picture: vit.pooler=none")


class Captioner(nn.Module):
    """P(y_t | y_<t, picture): an encoder looks at the picture once, a decoder looks across at its
    patches while it writes, word by word.

    Xu et al. 2015 (Show, Attend and Tell) with a Transformer on either side. The encoder is a `ViT`
    and gives a vector for [CLS], each register and each patch; the decoder is a `GPT` with
    cross-attention between self-attention and feed-forward layer of every block. Nothing in it
    knows of photographs: any picture of numbers will do, the spectrogram of a sound too.
    """

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__()
        self.config = config
        self.vit = ViT(config.vit)
        self.embedding = gpt_embeddings(config.gpt)
        self.decoder = _decoder(config)
        self.output = nn.Linear(config.gpt.model_dim, config.gpt.vocabulary, bias=False)
        self.tie_weights()
        if self.output.weight.device.type != "meta":
            self.init_weights()

    def tie_weights(self) -> None:
        """Make the shared matrix one parameter; again after the parameters were replaced."""
        if self.config.gpt.tie_output:
            self.output.weight = self.embedding.tokens.weight

    def init_weights(self) -> None:
        """The encoder as a ViT, the decoder as a GPT: N(0, 0.02^2), and what a pre-norm block adds
        to the stream smaller by 1 / sqrt(3 L), of three sublayers as it is here."""
        self.vit.init_weights()
        for part in (self.embedding, self.decoder, self.output):
            init_normal(part, STD)
        if self.config.gpt.norm == "pre":
            std = STD / (SUBLAYERS * self.config.gpt.num_layers) ** 0.5
            for name, weight in self.decoder.named_parameters():
                if name.endswith(_INTO_THE_STREAM):
                    nn.init.normal_(weight, std=std)

    @property
    def max_length(self) -> int | None:
        """The most tokens, the first one included; None for any number."""
        return self.embedding.positions.max_length

    def encode(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B S E"]:
        """Memory: what the decoder looks at."""
        return self.vit.encode(images)

    def decode(
        self, read: Int[Tensor, "B T"], memory: Float[Tensor, "B S E"]
    ) -> Float[Tensor, "B T D"]:
        """The vectors from which the next token after each of `read` is predicted."""
        hidden: Tensor = self.decoder(self.embedding(read), memory, Mask())
        return hidden

    def forward(
        self, images: Float[Tensor, "B C Y X"], read: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Logits of the next token after each of `read` (teacher forcing)."""
        logits: Tensor = self.output(self.decode(read, self.encode(images)))
        return logits

    def start(self, images: Float[Tensor, "B C Y X"]) -> DecoderState:
        """Look once; beams made by `state.reorder` share the picture's keys and values."""
        return self.decoder.start(self.encode(images), None)

    def step(
        self, tokens: Int[Tensor, "N T"], state: DecoderState
    ) -> tuple[Float[Tensor, "N T V"], DecoderState]:
        """`state`: what `start` gave, or this method the last time."""
        hidden = self.decoder.step(self.embedding(tokens, state.lengths), state)
        return self.output(hidden), state


@torch.no_grad()
def start_writing(model: Captioner, start: GPT, pieces: int, first: int) -> None:
    """Give the decoder the values of `start` (in place); cross-attention keeps its own.

    pieces: the first so many rows of the embedding are the language model's; what is new begins as
    the token `first`, after which texts begin. ValueError where the two do not fit.
    """
    own = model.state_dict()
    for name, value in start.state_dict().items():
        if name not in own:
            raise ValueError(f"the decoder has no {name}, which is to be taken over")
        grows = name in ("embedding.tokens.weight", "output.weight")
        rows = pieces if grows else len(value)
        if own[name][:rows].shape != value[:rows].shape or not (grows or len(own[name]) == rows):
            raise ValueError(f"{name}: {tuple(value.shape)} into {tuple(own[name].shape)}")
        own[name][:rows].copy_(value[:rows])
        if grows:
            own[name][rows:] = value[first]


def _decoder(config: CaptionerConfig) -> Decoder:
    gpt = config.gpt
    within = gpt_positions(gpt)
    blocks = [
        DecoderBlock(
            gpt_attention(gpt, within), _cross(config), gpt_feedforward(gpt), gpt_residual(gpt)
        )
        for _ in range(gpt.num_layers)
    ]
    return Decoder(blocks, gpt_norm(gpt) if gpt.norm == "pre" else nn.Identity())


def _cross(config: CaptionerConfig) -> MultiHeadAttention:
    """Queries from the text, keys and values from the picture, by the decoder's score."""
    gpt = config.gpt
    return MultiHeadAttention(
        *(gpt.model_dim, gpt.num_heads),
        kernel=kernels_and_positions.kernel(gpt.attention, gpt.num_heads, gpt.head_width, None),
        source_dim=config.vit.model_dim,
        head_dim=gpt.head_width,
        bias=gpt.bias,
    )
