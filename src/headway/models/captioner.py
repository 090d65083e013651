"""Captioner: P(y_1 ... y_T | image) = product over t of P(y_t | y_1 ... y_(t-1), encoder(image)).

A Vision Transformer encodes the image once; a decoder generates the caption word by word and
attends, at each word, to the vectors of the patches.

>>> import torch
>>> from headway.models import Captioner, CaptionerConfig, GPTConfig, ViTConfig
>>> size = {"model_dim": 8, "num_heads": 2, "ffn_dim": 16, "num_layers": 1}
>>> vit = ViTConfig(image_size=4, patch_size=2, channels=1, **size)
>>> model = Captioner(CaptionerConfig(vit=vit, gpt=GPTConfig(vocabulary=10, **size))).eval()
>>> image = torch.arange(16.0).view(1, 1, 4, 4)  # B C Y X: four patches
>>> model.encode(image).shape  # the memory: [CLS] and four patches
torch.Size([1, 5, 8])
>>> words = torch.tensor([[1, 5, 6]])  # <s> and two words of the caption
>>> logits = model(image, words)  # B T V: the prediction after each of them
>>> logits.shape
torch.Size([1, 3, 10])
>>> (logits != model(-image, words)).any(-1)  # every prediction depends on the image
tensor([[True, True, True]])
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from headway.attention import Mask, MultiHeadAttention
from headway.base.settings import section
from headway.base.shapes import Float, Int, Tensor
from headway.blocks import Decoder, DecoderBlock, DecoderState
from headway.models import kernels_and_positions
from headway.models.contracts import init_normal
from headway.models.gpt import (
    GPT,
    gpt_attention,
    gpt_embeddings,
    gpt_feedforward,
    gpt_norm,
    gpt_positions,
    gpt_residual,
)
from headway.models.gpt_config import GPTConfig
from headway.models.vit import ViT, ViTConfig

STD = 0.02
SUBLAYERS = 3
_RESIDUAL_OUTPUTS = ("attention.output.weight", "cross.output.weight", "contract.weight")


def _size(vit: str, **gpt: object) -> dict[str, object]:
    """Return a size of a captioner from the name of a ViT size and the settings of a GPT."""
    encoder = {f"vit.{key}": value for key, value in ViTConfig.sizes[vit].items()}
    return {**encoder, **{f"gpt.{key}": value for key, value in gpt.items()}}


@dataclass(frozen=True, kw_only=True)
class CaptionerConfig:
    """Architecture of a `Captioner`: its encoder and its decoder. The named sizes are in `sizes`.

    base: ViT-Base and GPT-2 small, as in the captioners of Hugging Face. mini, tiny: for small
    images on a CPU.
    """

    vit: ViTConfig = section(ViTConfig)
    gpt: GPTConfig = section(GPTConfig)

    family: ClassVar[str] = "captioner"
    sizes: ClassVar[dict[str, dict[str, object]]] = {
        "mini": _size("mini", model_dim=64, num_heads=4, ffn_dim=256, num_layers=2),
        "tiny": _size(
            "tiny",
            model_dim=128,
            num_heads=4,
            ffn_dim=512,
            num_layers=4,
        ),
        "base": _size(
            "b",
            model_dim=768,
            num_heads=12,
            ffn_dim=3072,
            num_layers=12,
        ),
    }

    def __post_init__(self) -> None:
        if self.vit.pooler != "none":
            raise ValueError(
                "a captioner uses the vectors of all patches, not a pooled one: set vit.pooler=none"
            )
        others = [name for name in self.gpt.options if not name.startswith("embedding_")]
        if others:
            raise ValueError(
                "the decoder of a captioner has the blocks of GPT or Llama with cross-attention, "
                f"not {', '.join(others)}"
            )


class Captioner(nn.Module):
    """P(y_t | y_<t, image) = softmax(W decoder(y_<t, encoder(image))).

    Xu et al. 2015 (Show, Attend and Tell) with Transformers as encoder and decoder. The encoder is
    a `ViT` whose memory has one vector for [CLS], each register and each patch. The decoder is a
    `GPT` with cross-attention between the self-attention and the feed-forward layer of each block.
    The image may be a photograph or another grid of numbers, such as the spectrogram of a sound.
    """

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__()
        self.config = config
        self.vit = ViT(config.vit)
        self.embedding = gpt_embeddings(config.gpt)
        self.decoder = _decoder(config)
        self.output = nn.Linear(config.gpt.model_dim, config.gpt.vocabulary, bias=False)
        self.tie_weights()
        if not self.output.weight.is_meta:
            self.init_weights()

    def tie_weights(self) -> None:
        """Make the shared matrix one parameter; call it again after replacing parameters."""
        if self.config.gpt.tie_output:
            self.output.weight = self.embedding.tokens.weight

    def init_weights(self) -> None:
        """Initialise the encoder as a ViT and the decoder as a GPT, with N(0, 0.02^2).

        In a pre-norm decoder the last matrix of each of the 3 L sublayers is scaled by
        1 / sqrt(3 L).
        """
        self.vit.init_weights()
        for part in (self.embedding, self.decoder, self.output):
            init_normal(part, STD)
        if self.config.gpt.norm == "pre":
            std = STD / (SUBLAYERS * self.config.gpt.num_layers) ** 0.5
            for name, weight in self.decoder.named_parameters():
                if name.endswith(_RESIDUAL_OUTPUTS):
                    nn.init.normal_(weight, std=std)

    @property
    def max_length(self) -> int | None:
        """The maximum number of tokens, including the first one; None if there is no limit."""
        return self.embedding.positions.max_length

    def encode(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B S E"]:
        """Return the memory: the vectors of [CLS], the registers and the patches."""
        return self.vit.encode(images)

    def decode(
        self, target_in: Int[Tensor, "B T"], memory: Float[Tensor, "B S E"]
    ) -> Float[Tensor, "B T D"]:
        """Return the hidden vectors that predict the next token after each token of target_in."""
        return self.decoder(self.embedding(target_in), memory, Mask())

    def forward(
        self, images: Float[Tensor, "B C Y X"], target_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of the next token after each token of target_in (teacher forcing)."""
        return self.output(self.decode(target_in, self.encode(images)))

    def start(self, images: Float[Tensor, "B C Y X"]) -> DecoderState:
        """Encode the images once and return the decode state before the first token.

        Beams made by `state.reorder` share the keys and values of their image.
        """
        return self.decoder.start(self.encode(images), None)

    def step(
        self, tokens: Int[Tensor, "N T"], state: DecoderState
    ) -> tuple[Float[Tensor, "N T V"], DecoderState]:
        hidden = self.decoder.step(self.embedding(tokens, state.past), state)
        return self.output(hidden), state


@torch.no_grad()
def initialise_decoder(model: Captioner, start: GPT, vocabulary: int, first: int) -> None:
    """Initialise the decoder with the parameters of a language model, in place.

    Cross-attention, which the language model does not have, keeps its values. vocabulary: the
    number of tokens of the language model; the embeddings of further tokens become that of the
    token `first`, which starts a text. Raises ValueError if a parameter is missing in the decoder
    or has another shape there.
    """
    parameters = model.state_dict()
    for name, value in start.state_dict().items():
        if name not in parameters:
            raise ValueError(
                f"the decoder has no parameter {name}, which the language model has: "
                "use the same architecture"
            )
        parameter = parameters[name]
        is_table = name in ("embedding.tokens.weight", "output.weight")
        rows = vocabulary if is_table else len(value)
        if parameter[:rows].shape != value[:rows].shape or not (is_table or len(parameter) == rows):
            raise ValueError(
                f"{name} of the language model has shape {tuple(value.shape)}, but that of the "
                f"decoder has {tuple(parameter.shape)}: use the same architecture"
            )
        parameter[:rows].copy_(value[:rows])
        if is_table:
            parameter[rows:] = value[first]


def _decoder(config: CaptionerConfig) -> Decoder:
    gpt = config.gpt
    positions = gpt_positions(gpt)
    blocks = [
        DecoderBlock(
            gpt_attention(gpt, positions), _cross(config), gpt_feedforward(gpt), gpt_residual(gpt)
        )
        for _ in range(gpt.num_layers)
    ]
    return Decoder(blocks, gpt_norm(gpt) if gpt.norm == "pre" else nn.Identity())


def _cross(config: CaptionerConfig) -> MultiHeadAttention:
    """Make cross-attention: queries from the text, keys and values from the image."""
    gpt = config.gpt
    return MultiHeadAttention(
        gpt.model_dim,
        gpt.num_heads,
        kernel=kernels_and_positions.kernel(gpt.attention, gpt.num_heads, gpt.head_width, None),
        source_dim=config.vit.model_dim,
        head_dim=gpt.head_width,
        bias=gpt.bias,
    )
