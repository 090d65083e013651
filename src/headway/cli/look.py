"""`headway look`: attention maps of an image encoder, over the image."""

from pathlib import Path
from typing import Annotated

from headway.base.errors import UsageError, index_from_one
from headway.base.files import check_new_file
from headway.base.settings import PIXELS, count, fraction, setting
from headway.bundle import ImageEncoding
from headway.cli.flags import OUTPUT, as_flags
from headway.cli.machine import MachineFlags
from headway.inspection.image_attention import image_attention_of_heads, look_of_answer
from headway.inspection.image_overlays import overlays
from headway.terminal.console import say


@as_flags
class LookFlags(MachineFlags):
    output: Annotated[Path, OUTPUT] = setting(
        Path("attention.png"), "New file for the plot: .png, .svg or .pdf."
    )
    layer: int | None = setting(
        None, "Block whose attention is shown, counted from 1. If unset, the last one."
    )
    size: int | None = count(
        None,
        "Length of the shorter side in pixels, for finer maps than in training; the whole image "
        "is used, without a crop. If unset, the preprocessing of training.",
        PIXELS,
    )
    question: str | None = setting(
        None,
        "Question to a multimodal language model: one map for each word of its answer.",
    )
    outline: float = fraction(
        0.0,
        "Fraction of the attention whose patches are outlined, such as 0.6; 0 draws no outline.",
    )


def look(run: str, image: Path, /, *, flags: LookFlags = LookFlags()) -> None:
    """Show the attention of [CLS] over an image, head by head: headway look RUN photo.jpg.

    One attention map for each head; brighter patches have larger weights. Heads of a DINO model
    outline objects although it was trained without labels. For SigLIP, which has no [CLS], the
    attention is that of the learned query that collects the vector of the image. With --question, a
    multimodal language model answers, and each word of the answer has a map.

    Parameters
    ----------
    run
        A run folder or a model folder of an image encoder, an image classifier or a multimodal
        language model.
    image
        An image file.
    """
    check_new_file(flags.output)
    if not image.is_file():
        raise UsageError("no such file", str(image), "check the path")
    bundle = flags.prepare().load(run)
    if flags.question is not None:
        index = None if flags.layer is None else flags.layer - 1
        looks = look_of_answer(bundle, image, flags.question, layer=index)
        overlays(flags.output, looks, title=f"{flags.question} {' '.join(looks.names)}")
        say(f"drawn     {flags.output}")
        return
    if not isinstance(bundle, ImageEncoding):
        raise UsageError(
            f"{run} is a {bundle.kind}, not an image encoder or an image classifier",
            hint="headway inspect shows the attention of any model",
        )
    depth = bundle.vit.config.num_layers
    index = None if flags.layer is None else index_from_one("--layer", flags.layer, depth)
    attention = image_attention_of_heads(bundle, image, layer=index, size=flags.size)
    block = f"block {depth if index is None else index + 1} of {depth}"
    title = f"{block if bundle.query_attention is None else 'learned query'}, {image.name}"
    overlays(flags.output, attention, title=title, outlined=flags.outline or None)
    say(f"drawn     {flags.output}")
