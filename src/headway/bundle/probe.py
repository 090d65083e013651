"""The probe: what a bundle provides for the inspection of one input, its prediction and logits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.base.shapes import Float, Tensor
from headway.blocks import Decoder, DecoderOnly, Encoder
from headway.bundle.forward_pass import ForwardPass
from headway.data.image_reader import ImageReader
from headway.data.images import Pixels, to_pixels
from headway.decoding import Candidate
from headway.models import GPT, Captioner, Transcriber, Translator, ViT


@dataclass(frozen=True, kw_only=True)
class Unembedding:
    """Maps the hidden vectors of a stack of blocks to logits of tokens (logit lens).

    logits(h) takes vectors before the last norm of the stack; for the output of the last block it
    is the model's own output. Elhage et al. 2021.
    """

    stack: Encoder | Decoder | DecoderOnly
    logits: Callable[[Float[Tensor, "B T D"]], Float[Tensor, "B T V"]]


@dataclass(frozen=True, kw_only=True)
class Readout:
    """Extracts predictions from the model's output, and names each logit.

    Row i of `logits(output)` holds the logits for position `positions[i]` of `side`; column c is
    the class, token or position named `names([c])`. A single column is a number (regression), not a
    class. equation: how the logits are computed from the vectors of the last layer, in Unicode.
    function: the function that computes them. unembedding: for models that consist of blocks and
    predict tokens.
    """

    side: str
    positions: Sequence[int]
    logits: Callable[[Tensor], Float[Tensor, "P V"]]
    names: Callable[[Sequence[int]], list[str]]
    equation: str
    function: Callable[..., object]
    unembedding: Unembedding | None = None


@dataclass(frozen=True, kw_only=True)
class ImagePatches:
    """The preprocessed input image. grid: rows and columns of patches, which cover the first
    `reach` rows and columns of pixels. num_prefix_tokens: the number of tokens before the patches
    ([CLS] and registers)."""

    pixels: Pixels
    grid: tuple[int, int]
    reach: tuple[int, int]
    num_prefix_tokens: int


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One input of a model, prepared for inspection.

    kind: of the bundle. reading: the forward pass. answer: the prediction as text; if the model
    produces vectors only, it is empty and `readout` is None. tokenizers: of the sides that are
    text. images: of the sides that are images. generated: side -> position of the first token that
    the model generated; absent for a side that is all input.
    """

    kind: str
    reading: ForwardPass
    answer: str
    readout: Readout | None
    tokenizers: Mapping[str, Any] = field(default_factory=dict)
    images: Mapping[str, ImagePatches] = field(default_factory=dict)
    generated: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SearchTrace:
    """A recorded beam search for one input.

    candidates: every continuation that was scored, in order. first: the first token of the output.
    best: the tokens of the best hypothesis, without `first`. end: the tokens after them; empty if
    the hypothesis was cut at its maximum length. names: returns the texts of tokens.
    """

    candidates: Sequence[Candidate]
    first: int
    best: tuple[int, ...]
    end: tuple[int, ...]
    names: Callable[[Sequence[int]], list[str]]


def class_names(labels: Sequence[str]) -> Callable[[Sequence[int]], list[str]]:
    """Return `Readout.names` for a fixed list of classes."""
    return lambda ids: [labels[i] for i in ids]


def next_token_readout(
    model: GPT | Translator | Captioner | Transcriber,
    side: str,
    positions: Sequence[int],
    size: int,
    names: Callable[[Sequence[int]], list[str]],
) -> Readout:
    """Return the readout of a model that generates text.

    Row t of the output predicts the token at positions[t]. size: of the vocabulary without padding.
    """
    decoder, unembedding = model.decoder, None
    if isinstance(decoder, Decoder | DecoderOnly):
        read = model.logits if isinstance(model, GPT) else model.output
        unembedding = Unembedding(stack=decoder, logits=lambda hidden: read(decoder.norm(hidden)))
    return Readout(
        side=side,
        positions=positions,
        logits=lambda output: output[0, :, :size],
        names=names,
        equation="z = x W_outᵀ",
        function=type(model).forward,
        unembedding=unembedding,
    )


def image_patches(vit: ViT, reader: ImageReader, image: object) -> ImagePatches:
    """Preprocess an image with `reader` and return its patches."""
    return patches_of(vit, reader.sized(to_pixels(image, "the image", reader.conversion)))


def patches_of(vit: ViT, pixels: Pixels) -> ImagePatches:
    """Return the patches of preprocessed pixels."""
    patches = vit.embedding.patches
    rows, columns = patches.grid(*pixels.shape[:2])
    return ImagePatches(
        pixels=pixels,
        grid=(rows, columns),
        reach=(rows * patches.height, columns * patches.width),
        num_prefix_tokens=vit.embedding.num_prefix_tokens,
    )
