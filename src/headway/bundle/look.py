"""Where in a picture an encoder looks."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from headway.attention import record_attention
from headway.data.image_reader import ImageReader
from headway.data.images import PIXELS_LIMIT, Pixels, as_pixels, resized, with_channels
from headway.errors import DataError, UsageError
from headway.models import ViT
from headway.shapes import Float, Tensor


@dataclass(frozen=True)
class Looked:
    """pixels: the picture as the model saw it, height x width x channels. weights: of each head,
    what [CLS] gives to each patch; what it gives to itself is missing from 1."""

    pixels: Pixels
    weights: Float[Tensor, "H Y X"]


@torch.inference_mode()
def looked_at(
    vit: ViT, reader: ImageReader, picture: object, layer: int, size: int | None
) -> Looked:
    """[CLS]'s row of the attention of block `layer`, from 1. Caron et al. 2021, figure 1.

    size: None for the part and the size that the model reads; else the whole picture is seen, its
    shorter side so many pixels, and places are read between those that were learned. UsageError for
    a model without [CLS].
    """
    if not vit.config.class_token:
        raise UsageError("this model has no [CLS], whose attention would be shown")
    pixels = as_pixels(picture, "the picture")
    seen = reader.sized(pixels) if size is None else _whole(pixels, size, vit, reader)
    images = reader.normalised(torch.from_numpy(seen.transpose(2, 0, 1).copy())[None])
    name = f"encoder.blocks.{layer - 1}.attention"
    with record_attention(vit, (name,)) as maps:
        vit.encode(images.to(next(vit.parameters()).device))
    weights = maps[name][0][0, :, 0, vit.embedding.beside :].cpu()  # B H T S -> H P
    grid = vit.embedding.patches.grid(*seen.shape[:2])
    return Looked(seen, weights.reshape(len(weights), *grid))


def _whole(pixels: Pixels, size: int, vit: ViT, reader: ImageReader) -> Pixels:
    """The whole picture, in whole patches."""
    shorter = min(pixels.shape[:2])
    sides = zip(pixels.shape[:2], vit.config.patch, strict=True)
    y, x = (max(1, round(side * size / shorter / patch)) * patch for side, patch in sides)
    if y * x > PIXELS_LIMIT:
        raise DataError(f"a picture of {x:,} x {y:,} pixels is too large to be looked at")
    return with_channels(resized(pixels, y, x, reader.resampling), reader.channels)
