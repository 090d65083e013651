"""What a bundle gives to code that looks inside a model: one input, its answer, its logits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.blocks import Decoder, DecoderOnly, Encoder
from headway.bundle.forward_pass import Reading
from headway.data.image_reader import ImageReader
from headway.data.images import Pixels, as_pixels
from headway.decoding import Candidate
from headway.models import GPT, Captioner, Translator, ViT
from headway.shapes import Float, Tensor


@dataclass(frozen=True, kw_only=True)
class Unembedding:
    """How the vectors of a stack of blocks become logits of tokens.

    logits(h), of vectors h before the stack's last norm, is the model's own output if h leaves the
    last block. Elhage et al. 2021.
    """

    stack: Encoder | Decoder | DecoderOnly
    logits: Callable[[Float[Tensor, "B T D"]], Float[Tensor, "B T V"]]


@dataclass(frozen=True, kw_only=True)
class Readout:
    """How predictions are read from the model's output, and what each logit means.

    Row i of `logits(output)` holds the logits for position `positions[i]` of a side; column c is
    the class, token or position that `names([c])` names. A single column is a number, not a class.
    equation: how the logits are computed from the vectors of the last layer, in plain Unicode;
    function: the function that computes them. unembedding: of a model that predicts tokens and
    consists of blocks.
    """

    side: str
    positions: Sequence[int]
    logits: Callable[[Tensor], Float[Tensor, "P V"]]
    names: Callable[[Sequence[int]], list[str]]
    equation: str
    function: Callable[..., Any]
    unembedding: Unembedding | None = None


@dataclass(frozen=True, kw_only=True)
class ImagePatches:
    """The image that the model reads. grid: rows and columns of patches, which cover the first
    `reach` rows and columns of pixels. beside: the number of tokens before the patches ([CLS],
    registers)."""

    pixels: Pixels
    grid: tuple[int, int]
    reach: tuple[int, int]
    beside: int


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One input of a model, opened for inspection.

    kind: that of the bundle. reading: the forward pass, to be run as often as needed. answer: the
    model's answer as text; empty if the model gives vectors only, and then `readout` is None.
    tokenizers: of the sides that are text. images: of the sides that are images.
    """

    kind: str
    reading: Reading
    answer: str
    readout: Readout | None
    tokenizers: Mapping[str, Any] = field(default_factory=dict)
    images: Mapping[str, ImagePatches] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SearchTrace:
    """A beam search for one input. candidates: every continuation that was scored, in order;
    first: the token that the output begins with; best: the tokens of the best hypothesis, without
    `first`; end: what follows them, nothing if the hypothesis was cut at its maximum length;
    names: the texts of tokens."""

    candidates: Sequence[Candidate]
    first: int
    best: tuple[int, ...]
    end: tuple[int, ...]
    names: Callable[[Sequence[int]], list[str]]


def class_names(labels: Sequence[str]) -> Callable[[Sequence[int]], list[str]]:
    """`Readout.names` of a fixed list of classes."""
    return lambda ids: [labels[i] for i in ids]


def next_token_readout(
    model: GPT | Translator | Captioner,
    side: str,
    positions: Sequence[int],
    size: int,
    names: Callable[[Sequence[int]], list[str]],
) -> Readout:
    """Of a model that writes: row t of its output predicts positions[t]. size: of the vocabulary
    without what pads it to a round number."""
    decoder, unembedding = model.decoder, None
    if isinstance(decoder, Decoder | DecoderOnly):
        unembedding = Unembedding(
            stack=decoder, logits=lambda hidden: model.output(decoder.norm(hidden))
        )
    return Readout(
        side=side,
        positions=positions,
        logits=lambda output: output[0, :, :size],
        names=names,
        equation="z = x W_outᵀ",
        function=type(model).forward,
        unembedding=unembedding,
    )


def image_patches(vit: ViT, reader: ImageReader, image: Any) -> ImagePatches:
    """The encoder's patches of the pixels that `reader` makes of an image."""
    return patches_of(vit, reader.sized(as_pixels(image, "the picture")))


def patches_of(vit: ViT, pixels: Pixels) -> ImagePatches:
    """The encoder's patches of an image of that size."""
    patches = vit.embedding.patches
    rows, columns = patches.grid(*pixels.shape[:2])
    return ImagePatches(
        pixels=pixels,
        grid=(rows, columns),
        reach=(rows * patches.height, columns * patches.width),
        beside=vit.embedding.beside,
    )
