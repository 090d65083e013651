"""Where in a picture a captioner looks for each word."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from headway.attention import Kernel
from headway.bundle import CaptionerBundle
from headway.bundle.vision import Picture
from headway.data.images import Pixels, as_pixels
from headway.errors import UsageError
from headway.shapes import Float, Tensor


@dataclass(frozen=True)
class Looks:
    """maps[w, r, c]: share of word w's attention that falls on the patch in row r, column c; what
    is missing to 1 falls on what stands beside the patches ([CLS], registers). pixels: the picture
    as the model sees it; the patches cover its first `reach` rows and columns of pixels."""

    words: list[str]
    maps: Float[Tensor, "W r c"]
    pixels: Pixels
    reach: tuple[int, int]


def look(
    bundle: CaptionerBundle,
    picture: Picture,
    text: str | None = None,
    *,
    language: str | None = None,
    layer: int | None = None,
) -> Looks:
    """Cross-attention while `text` (given, or the model's own caption) is written: the mean over
    heads of one decoder block (from 0; None: the last), and over the pieces of a word. The end of
    the caption is a word too.

    Xu et al. 2015, figure 3. UsageError for a block that is not there, or for attention whose
    weights are no shares.
    """
    depth = len(bundle.model.decoder.blocks)
    if layer is not None and not 0 <= layer < depth:
        raise UsageError(f"layer {layer}: the decoder has blocks 0 to {depth - 1}")
    name = f"decoder.blocks.{depth - 1 if layer is None else layer}.cross"
    kernel = bundle.model.get_submodule(f"{name}.kernel")
    if not isinstance(kernel, Kernel) or not kernel.normalised:
        raise UsageError(
            f"attention={bundle.config.gpt.attention} has no shares to show",
            hint="only attention whose weights sum to 1 says how much of each patch is looked at",
        )
    pixels = bundle.reader.images.sized(as_pixels(picture, "the picture"))
    found = bundle.attention(picture, text, language=language, layers=(name,))
    weights = found.maps[name].mean(0)  # H T S -> T S
    patches = bundle.model.vit.embedding.patches
    rows, columns = patches.grid(*pixels.shape[:2])
    beside = bundle.model.vit.embedding.beside
    shares = weights[:, beside:].reshape(-1, rows, columns)
    groups = _words(found.target)
    return Looks(
        ["".join(found.target[i] for i in places).strip() for places in groups],
        torch.stack([shares[places].mean(0) for places in groups]),
        pixels,
        (rows * patches.height, columns * patches.width),
    )


def _words(pieces: list[str]) -> list[list[int]]:
    """The places of each word's pieces. A word begins with a space; the last piece, the end of the
    text, is one of its own."""
    groups: list[list[int]] = []
    for place, piece in enumerate(pieces):
        if not groups or piece.startswith(" ") or place == len(pieces) - 1:
            groups.append([place])
        else:
            groups[-1].append(place)
    return groups
