"""`headway look`: which parts of a picture a model looks at."""

from __future__ import annotations

from pathlib import Path

from headway.cli.console import talk
from headway.cli.flags import ON_THIS_MACHINE, MachineFlags
from headway.errors import UsageError
from headway.files import check_new_file


def look(
    run: str,
    picture: Path,
    /,
    *,
    output: Path = Path("attention.png"),
    layer: int | None = None,
    size: int | None = None,
    share: float = 0.0,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Show what [CLS] attends to in an image, head by head: headway look RUN photo.jpg.

    A picture for each head, bright where its attention is. Heads of DINO outline objects without
    having seen a label.

    Parameters
    ----------
    run
        A run folder or a model folder of an image encoder, or a classifier of pictures.
    picture
        A file.
    output
        .png, .svg or .pdf.
    layer
        Which block's attention, from 0; without it, the last one's.
    size
        So many pixels on the shorter side, for finer maps than the model was trained with; the
        whole picture is seen then.
    share
        A line around the patches that hold so much of the attention; 0.6 is usual.
    """
    from headway.bundle import ImageEncoding
    from headway.inspection.image_attention import look_with_heads
    from headway.inspection.image_overlays import overlays

    check_new_file(output)
    if not 0 <= share < 1:
        raise UsageError(f"--share {share:g}: must be at least 0 and below 1")
    if not picture.is_file():
        raise UsageError("no such file", str(picture), "check the path")
    place = machine.prepare()
    bundle = place.load(run)
    if not isinstance(bundle, ImageEncoding):
        raise UsageError(f"{run} holds a {bundle.kind}, which does not look at pictures alone")
    seen = look_with_heads(bundle, picture, layer=layer, size=size)
    depth = bundle.vit.config.num_layers
    title = f"block {depth - 1 if layer is None else layer} of 0 to {depth - 1}, {picture.name}"
    overlays(output, seen, title=title, outlined=share or None)
    talk.print(f"drawn     {output}", markup=False)
