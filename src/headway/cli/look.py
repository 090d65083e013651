"""`headway look`: attention maps of an image encoder, over the image."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from headway.base.errors import UsageError, index_from_one
from headway.base.files import check_new_file
from headway.cli.console import talk
from headway.cli.flags import ON_THIS_MACHINE, OUTPUT, MachineFlags


def look(
    run: str,
    image: Path,
    /,
    *,
    output: Annotated[Path, OUTPUT] = Path("attention.png"),
    layer: int | None = None,
    size: int | None = None,
    outline: float = 0.0,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Show the attention of [CLS] over an image, head by head: headway look RUN photo.jpg.

    One attention map for each head; brighter patches have larger weights. Heads of a DINO model
    outline objects although it was trained without labels.

    Parameters
    ----------
    run
        A run folder or a model folder of an image encoder or an image classifier.
    image
        An image file.
    output
        New file for the plot: .png, .svg or .pdf.
    layer
        Block whose attention is shown, counted from 1. If unset, the last one.
    size
        Length of the shorter side in pixels, for finer maps than in training; the whole image is
        used, without a crop. If unset, the preprocessing of training.
    outline
        Fraction of the attention whose patches are outlined, such as 0.6; 0 draws no outline.
    """
    from headway.bundle import ImageEncoding
    from headway.inspection.image_attention import image_attention_of_heads
    from headway.inspection.image_overlays import overlays

    check_new_file(output)
    if not 0 <= outline < 1:
        raise UsageError(f"--outline {outline:g}: must be at least 0 and below 1")
    if not image.is_file():
        raise UsageError("no such file", str(image), "check the path")
    bundle = machine.prepare().load(run)
    if not isinstance(bundle, ImageEncoding):
        raise UsageError(
            f"{run} is a {bundle.kind}, not an image encoder or an image classifier",
            hint="headway inspect shows the attention of any model",
        )
    depth = bundle.vit.config.num_layers
    index = depth - 1 if layer is None else index_from_one("--layer", layer, depth)
    attention = image_attention_of_heads(bundle, image, layer=index, size=size)
    title = f"block {index + 1} of {depth}, {image.name}"
    overlays(output, attention, title=title, outlined=outline or None)
    talk.print(f"drawn     {output}", markup=False)
