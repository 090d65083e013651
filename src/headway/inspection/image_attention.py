"""Where in a picture a captioner looks for each word, and an encoder with each head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from headway.attention import Kernel, record_attention
from headway.bundle import Bundle, ImageEncoding, ImagePatches, attention_of, patches_of
from headway.data.image_reader import ImageReader
from headway.data.images import PIXELS_LIMIT, Pixels, as_pixels, resized, with_channels
from headway.errors import DataError, UsageError
from headway.inspection.ablation import layers_of
from headway.models import ViT
from headway.shapes import Float, Tensor


@dataclass(frozen=True)
class Looks:
    """maps[i, r, c]: share of the attention of names[i], a word or a head, that falls on the patch
    in row r, column c; what is missing to 1 falls on what stands beside the patches ([CLS],
    registers). pixels: the picture as the model sees it; the patches cover its first `reach` rows
    and columns of pixels."""

    names: list[str]
    maps: Float[Tensor, "N r c"]
    pixels: Pixels
    reach: tuple[int, int]


def look(
    bundle: Bundle,
    image: Any,
    text: str | None = None,
    *,
    language: str | None = None,
    layer: int | None = None,
) -> Looks:
    """Cross-attention while `text` (given, or the model's own caption) is written: the mean over
    heads of one decoder block (from 0; None: the last), and over the pieces of a word. The end of
    the caption is a word too.

    Xu et al. 2015, figure 3. UsageError for a model that writes nothing about images, for a block
    that is not there, or for attention whose weights are no shares.
    """
    if bundle.inputs.modality != "image" or not bundle.inputs.target:
        raise UsageError(f"a {bundle.kind} writes no text about an image", hint="a captioner does")
    crosses = layers_of(bundle.model)["cross"]
    if layer is not None and not 0 <= layer < len(crosses):
        raise UsageError(f"layer {layer}: the decoder has blocks 0 to {len(crosses) - 1}")
    name = crosses[-1 if layer is None else layer]
    _check_shares(bundle.model, name)
    probe = bundle.probe(image, target=text, language=language)
    found = attention_of(probe.reading, (name,))
    weights = found.maps[name].mean(0)  # H T S -> T S
    queries, keys = probe.reading.axes["cross"]
    groups = [list(places) for places in probe.reading.words[queries]]
    names = ["".join(found.target[i] for i in places).strip() for places in groups]
    together = torch.stack([weights[places].mean(0) for places in groups])
    return _looks(probe.images[keys], names, together)


@torch.inference_mode()
def look_with_heads(
    bundle: ImageEncoding,
    picture: Any,
    *,
    layer: int | None = None,
    size: int | None = None,
) -> Looks:
    """What [CLS] attends to, with each head of one block (from 0; None: the last). Caron et al.
    2021, figure 1.

    size: None for the part and the size of the picture that the model reads; else all of it is
    seen, its shorter side so many pixels, and places are read between those that were learned.
    UsageError for a model without [CLS], a block that is not there, or attention whose weights are
    no shares.
    """
    vit, reader = bundle.vit, bundle.reader
    if not vit.config.class_token:
        raise UsageError("this model has no [CLS], whose attention would be shown")
    depth = vit.config.num_layers
    if layer is not None and not 0 <= layer < depth:
        raise UsageError(f"layer {layer}: the encoder has blocks 0 to {depth - 1}")
    name = f"encoder.blocks.{depth - 1 if layer is None else layer}.attention"
    _check_shares(vit, name)
    pixels = as_pixels(picture, "the picture")
    seen = reader.sized(pixels) if size is None else _whole(pixels, size, vit, reader)
    images = reader.normalised(torch.from_numpy(seen.transpose(2, 0, 1).copy())[None])
    with record_attention(vit, (name,)) as maps:
        vit.encode(images.to(bundle.device))
    weights = maps[name][0][0, :, 0].cpu()  # B H T S -> H S
    names = [f"head {i + 1}" for i in range(len(weights))]
    return _looks(patches_of(vit, seen), names, weights)


def _looks(patches: ImagePatches, names: list[str], weights: Float[Tensor, "N S"]) -> Looks:
    maps = weights[:, patches.beside :].reshape(-1, *patches.grid)
    return Looks(names, maps, patches.pixels, patches.reach)


def _check_shares(model: nn.Module, name: str) -> None:
    kernel = model.get_submodule(f"{name}.kernel")
    if not isinstance(kernel, Kernel) or not kernel.normalised:
        raise UsageError(
            "this model's attention has no shares to show",
            hint="only attention whose weights sum to 1 says how much of each patch is looked at",
        )


def _whole(pixels: Pixels, size: int, vit: ViT, reader: ImageReader) -> Pixels:
    """The whole picture, in whole patches."""
    shorter = min(pixels.shape[:2])
    sides = zip(pixels.shape[:2], vit.config.patch, strict=True)
    y, x = (max(1, round(side * size / shorter / patch)) * patch for side, patch in sides)
    if y * x > PIXELS_LIMIT:
        raise DataError(f"a picture of {x:,} x {y:,} pixels is too large to be looked at")
    return with_channels(resized(pixels, y, x, reader.resampling), reader.channels)
