"""Attention to the patches of an image: of each word of a caption or of an answer, or of each head
of an encoder."""

from dataclasses import dataclass

import torch
from torch import nn

from headway.attention import Kernel, record_attention
from headway.base.errors import DataError, UsageError
from headway.base.shapes import Float, Tensor
from headway.bundle import Bundle, ImageEncoding, ImagePatches, attention_of, patches_of
from headway.data.image_reader import ImageReader
from headway.data.images import PIXELS_LIMIT, Pixels, resized, to_pixels, with_channels
from headway.inspection.ablation import layers_of
from headway.models import ViT


@dataclass(frozen=True)
class Looks:
    """Attention maps over the patches of an image.

    maps[i, r, c]: attention weight of names[i], a word or a head, for the patch in row r, column c;
    what is missing to 1 falls on tokens that are not patches ([CLS], registers). pixels: the image
    as the model encodes it; the patches cover its first `reach` rows and columns of pixels.
    """

    names: list[str]
    maps: Float[Tensor, "N r c"]
    pixels: Pixels
    reach: tuple[int, int]


def look(
    bundle: Bundle,
    image: object,
    text: str | None = None,
    *,
    language: str | None = None,
    layer: int | None = None,
) -> Looks:
    """Return the cross-attention of each word of a caption to the image: the mean over the heads of
    one decoder block and over the tokens of a word. The end of the caption is a word too.

    text: the caption; if None, the one that the model generates. layer: decoder block, counted from
    0; if None, the last. Xu et al. 2015, figure 3. Raises UsageError for a model that does not
    caption images, for a block that does not exist, or for weights that do not sum to 1.
    """
    if bundle.inputs.modality != "image" or not bundle.inputs.target:
        raise UsageError(
            f"a {bundle.kind} does not generate captions", hint="use a captioning model"
        )
    crosses = layers_of(bundle.model)["cross"]
    if layer is not None and not 0 <= layer < len(crosses):
        raise UsageError(
            f"the decoder has no layer {layer}: its layers are 0 to {len(crosses) - 1}"
        )
    name = crosses[-1 if layer is None else layer]
    _check_shares(bundle.model, name)
    probe = bundle.probe(image, target=text, language=language)
    attention = attention_of(probe.reading, (name,))
    weights = attention.maps[name].mean(0)  # H T S -> T S
    queries, keys = probe.reading.axes["cross"]
    groups = [list(positions) for positions in probe.reading.words[queries]]
    names = ["".join(attention.target[i] for i in group).strip() for group in groups]
    by_word = torch.stack([weights[group].mean(0) for group in groups])
    return _looks(probe.images[keys], names, by_word)


def look_of_answer(
    bundle: Bundle, image: object, question: str, *, layer: int | None = None
) -> Looks:
    """Return the attention of each word of the answer to a question about an image: the mean over
    the heads of one decoder block and over the tokens of a word.

    The weights of a token are those with which the model predicted it, that is, of the position
    before it. layer: decoder block, counted from 0; if None, the last. Raises UsageError for a
    model that reads no images, for a block that does not exist, and if there is no answer.
    """
    probe = bundle.probe(question, images=[image])
    blocks = layers_of(probe.reading.model)["decoder"]
    if layer is not None and not 0 <= layer < len(blocks):
        raise UsageError(f"the decoder has no layer {layer}: its layers are 0 to {len(blocks) - 1}")
    name = blocks[-1 if layer is None else layer]
    _check_shares(probe.reading.model, name)
    side = probe.reading.axes["decoder"][0]
    if side not in probe.generated:
        raise UsageError("the model answers with no word, so that no attention can be shown")
    weights = attention_of(probe.reading, (name,)).maps[name].mean(0)  # H T S -> T S
    # the first word has no space before it, so it is one word with the mark of the answer's turn
    written = (
        [i for i in word if i >= probe.generated[side]] for word in probe.reading.words[side]
    )
    groups = [word for word in written if word]
    tokens = probe.reading.tokens[side]
    names = ["".join(tokens[i] for i in group).strip() for group in groups]
    by_word = torch.stack([weights[[i - 1 for i in group]].mean(0) for group in groups])
    return _looks(probe.images[side], names, by_word)


@torch.inference_mode()
def image_attention_of_heads(
    bundle: ImageEncoding,
    image: object,
    *,
    layer: int | None = None,
    size: int | None = None,
) -> Looks:
    """Return the attention of [CLS] to the patches, for each head of one block. Caron et al. 2021,
    figure 1.

    A model whose image vector a learned query collects (SigLIP) has the attention of this query
    instead. layer: encoder block, counted from 0; if None, the last. size: length of the shorter
    side in pixels, for the whole image with interpolated positions; if None, the image is cropped
    and resized as for predictions. Raises UsageError for a model with neither [CLS] nor a learned
    query, for a block that does not exist, or for weights that do not sum to 1.
    """
    vit, reader = bundle.vit, bundle.reader
    if bundle.query_attention is None:
        model: nn.Module = vit
        name = _attention_of_class_token(vit, layer)
    else:
        model, name = bundle.model, bundle.query_attention
        if layer is not None:
            raise UsageError(
                "the learned query of this model attends after the last block, and has no layers",
                hint="leave out the layer",
            )
    _check_shares(model, name)
    pixels = to_pixels(image, "the image", reader.conversion)
    sized = reader.sized(pixels) if size is None else _whole(pixels, size, vit, reader)
    images = reader.normalised(torch.from_numpy(sized.transpose(2, 0, 1).copy())[None])
    with record_attention(model, (name,)) as maps:
        bundle.encode(images.to(bundle.device))
    weights = maps[name][0][0, :, 0].cpu()  # B H T S -> H S
    names = [f"head {i + 1}" for i in range(len(weights))]
    return _looks(patches_of(vit, sized), names, weights)


def _attention_of_class_token(vit: ViT, layer: int | None) -> str:
    """Return the name of the attention layer of a block. Raises UsageError if there is none."""
    if not vit.config.class_token:
        raise UsageError(
            "the model has no class token, whose attention would be shown",
            hint="use an image encoder with class_token=True",
        )
    depth = vit.config.num_layers
    if layer is not None and not 0 <= layer < depth:
        raise UsageError(f"the encoder has no layer {layer}: its layers are 0 to {depth - 1}")
    return f"encoder.blocks.{depth - 1 if layer is None else layer}.attention"


def _looks(patches: ImagePatches, names: list[str], weights: Float[Tensor, "N S"]) -> Looks:
    first, (rows, columns) = patches.num_prefix_tokens, patches.grid
    maps = weights[:, first : first + rows * columns].reshape(-1, rows, columns)
    return Looks(names, maps, patches.pixels, patches.reach)


def _check_shares(model: nn.Module, name: str) -> None:
    kernel = model.get_submodule(f"{name}.kernel")
    if not isinstance(kernel, Kernel) or not kernel.normalised:
        raise UsageError(
            "the attention weights of this model do not sum to 1, so that they cannot be shown",
            hint="use a model whose attention score has a softmax",
        )


def _whole(pixels: Pixels, size: int, vit: ViT, reader: ImageReader) -> Pixels:
    """Resize the whole image to whole patches."""
    shorter = min(pixels.shape[:2])
    sides = zip(pixels.shape[:2], vit.config.patch, strict=True)
    y, x = (max(1, round(side * size / shorter / patch)) * patch for side, patch in sides)
    if y * x > PIXELS_LIMIT:
        raise DataError(
            f"the image would have {x:,} x {y:,} pixels, more than the limit of {PIXELS_LIMIT:,}; "
            "choose a smaller size"
        )
    return with_channels(resized(pixels, y, x, reader.resampling), reader.channels)
