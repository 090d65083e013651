"""`headway eval` of an image encoder: do pictures whose vectors are near show the same?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.console import data, data_json
from headway.errors import DataError

if TYPE_CHECKING:
    from headway.bundle import ImageEncoderBundle
    from headway.data.formats.images import LabelledImage
    from headway.shapes import Float, Tensor

CHUNK = 256  # pictures that are decoded at once


def evaluate_neighbours(
    bundle: ImageEncoderBundle,
    places: tuple[Path, Path | None],
    known: Path | None,
    json: bool,
) -> None:
    """How often the class of a picture is that of its 20 nearest, and what a linear classifier of
    the vectors reaches. places: the run, and pictures by class or None for those of the run.

    known: pictures whose classes are told; None: those that the source keeps for training.
    """
    import torch

    from headway.cli.pictures import source_of
    from headway.data.image_sources import read_images
    from headway.evaluation import linear_accuracy, neighbours_accuracy, spread

    if known is None or places[1] is None:
        given = source_of(*places)
        told, asked = given.train, given.valid
    else:
        asked = read_images([str(places[1])]).every
    if known is not None:
        told = read_images([str(known)]).every
    numbers = {label: i for i, label in enumerate(sorted({image.label for image in told}))}
    if len(numbers) < 2:
        raise DataError("pictures of two classes are needed", str(known or places[1] or places[0]))
    for image in asked:
        if image.label not in numbers:
            raise DataError(f"no known picture shows {image.label!r}", image.where)
    sides = [
        (_vectors(bundle, images), torch.tensor([numbers[image.label] for image in images]))
        for images in (told, asked)
    ]
    found = {
        "knn": neighbours_accuracy(*sides[0], *sides[1]),
        "linear": linear_accuracy(*sides[0], *sides[1]),
        "spread": spread(sides[1][0]),
    }
    if json:
        data_json({**found, "known": len(told), "pictures": len(asked)})
        return
    words = (f"{name} {value:.3f}" for name, value in found.items())
    data("   ".join([*words, f"{len(asked):,} pictures, {len(told):,} known"]))


def _vectors(bundle: ImageEncoderBundle, images: Sequence[LabelledImage]) -> Float[Tensor, "N D"]:
    import torch

    parts = [
        bundle.embed([image.pixels() for image in images[start : start + CHUNK]], normalise=False)
        for start in range(0, len(images), CHUNK)
    ]
    return torch.cat(parts).cpu()
