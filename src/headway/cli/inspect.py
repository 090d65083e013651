"""`headway inspect` and `headway ui`: attention maps as a page, in a terminal and live."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from headway.base.errors import UsageError, index_from_one
from headway.base.files import check_new_file
from headway.base.settings import setting
from headway.base.shapes import Tensor
from headway.bundle import WRITTEN, Bundle
from headway.cli.flags import SEVERAL, as_flags
from headway.cli.inputs import check_no_file
from headway.cli.machine import LanguageFlags, MachineFlags
from headway.inspection.document import Document, Frame, Maps
from headway.inspection.experts import held_out_reads, with_held_out
from headway.inspection.page import encode, only_layers, page_size, write_page
from headway.inspection.render import heat_map
from headway.inspection.walk import walk
from headway.inspection.watch import OF_A_PAGE, SLOW, watch
from headway.runs.held_out_inputs import held_out_passages
from headway.terminal.console import data, data_json, program, say
from headway.terminal.progress import progress

WARNED = 26_000_000  # size of a page in bytes above which a smaller one is suggested
COLUMNS = 40  # queries and keys of a map that are shown in a terminal


@as_flags
class InspectFlags(LanguageFlags, MachineFlags):
    html: Path | None = setting(None, "New HTML file for the page.")
    term: bool = setting(
        False, "Draw one map in the terminal. This is the default without --html and --json."
    )
    json: bool = setting(
        False,
        "Print tokens, output and attention weights as one JSON object; --map, --layers, --layer "
        "and --head select some of the weights.",
    )
    target: str | None = setting(
        None, "Output text to inspect. If unset, the output that the model generates."
    )
    image: list[Path] | None = setting(
        None, "Images that the text is about, for a multimodal language model."
    )
    compare: list[str] | None = setting(
        None, "Further models for the same input, shown side by side in the page."
    )
    layers: Annotated[tuple[int, ...] | None, SEVERAL] = setting(
        None, "Layers to include, counted from 1. If unset, all."
    )
    levels: Literal[31, 63, 255] = setting(
        255, "Quantisation levels of an attention weight; fewer make a smaller page."
    )
    vectors: bool = setting(
        True, "Include queries and keys, to inspect each head; makes a larger page."
    )
    walk: bool = setting(True, "Include a walk: one computation step by step, with its values.")
    importance: bool = setting(
        False, "Head importance: how much the prediction loses without each head; takes longer."
    )
    maps: Annotated[str | None, Parameter(name="--map")] = setting(
        None, "Attention map: encoder, decoder or cross. If unset, the last one."
    )
    layer: int | None = setting(None, "Layer, counted from 1. If unset, the last one.")
    head: int | None = setting(None, "Head, counted from 1. If unset, the mean over all heads.")
    position: int | None = setting(
        None, "Position of the token that the walk explains, from 1. If unset, the last one."
    )

    @property
    def chooses(self) -> bool:
        """Whether a map, a layer, a head or a position is chosen."""
        return any(x is not None for x in (self.maps, self.layer, self.head, self.position))


def inspect(
    run: str,
    text_or_image: str,
    second: str | None = None,
    /,
    *,
    flags: InspectFlags = InspectFlags(),
) -> None:
    """Show the attention of a model: headway inspect RUN "a sentence" --html out.html.

    The page is one self-contained HTML file, which needs no server and no network. It shows all
    heads of all layers as maps, lines, text, alignment or over the image; the queries and keys of
    each head; the experts of a mixture of experts; the prediction at each layer (logit lens); and a
    walk through one computation.

    Parameters
    ----------
    run
        A run folder or a model folder of any model with attention.
    text_or_image
        A text; for a model of images, the path of an image or sound file.
    second
        A second text, for models of text pairs.
    """
    if flags.html is not None:
        check_new_file(flags.html)
    loader = flags.prepare()
    runs = [run, *(flags.compare or [])]
    options: dict[str, Any] = {"second": second, "target": flags.target, "language": flags.to}
    options["images"] = flags.image or ()
    bundles = [flags.source_of(loader.load(name)) for name in runs]
    if bundles[0].inputs.modality != "image":
        check_no_file(text_or_image, "write the text itself in quotes")
    document = _document(runs, bundles, text_or_image, options, flags)
    if flags.html is not None:
        _write(flags.html, document, flags)
    if flags.json:
        data_json(_as_dict(document, flags))
    if flags.term or not (flags.html or flags.json):
        for frame in document.frames:
            _draw(frame, flags)
        if flags.html is None:
            say(f"next      {program()} inspect {run} ... --html out.html")


def _document(
    runs: Sequence[str],
    bundles: Sequence[Bundle],
    text_or_image: str,
    options: dict[str, Any],
    flags: InspectFlags,
) -> Document:
    """A frame for each model, and a walk through the first of them."""
    analyses = (*OF_A_PAGE, *SLOW) if flags.importance else OF_A_PAGE
    with progress("inspecting") as report:
        frames = [
            with_held_out(
                watch(
                    bundle,
                    text_or_image,
                    **options,
                    vectors=flags.vectors,
                    analyses=analyses,
                    label=run,
                    report=_part(report, number, len(runs)),
                ),
                held_out_reads(bundle, held_out_passages(Path(run), bundle)),
            )
            for number, (run, bundle) in enumerate(zip(runs, bundles, strict=True))
        ]
    for bundle, frame in zip(bundles, frames, strict=True):
        if flags.importance and not frame.importance:
            raise UsageError(
                f"--importance: a {bundle.kind} makes no prediction that heads could matter for",
                hint="leave out --importance",
            )
    document = Document(title=text_or_image[:80], frames=frames)
    map_name = _named(frames[0], flags).name
    if not flags.walk:
        return document
    try:
        steps = walk(
            bundles[0].probe(text_or_image, **options, written=WRITTEN),
            map=map_name,
            layer=(flags.layer or 1) - 1,
            head=(flags.head or 1) - 1,
            position=None if flags.position is None else flags.position - 1,
        )
    except UsageError as error:  # the frames are useful without a walk
        if flags.chooses:
            raise
        return replace(document, notes=[f"No walk: {error.what}."])
    return replace(document, walk=steps)


def _part(report: Callable[[float], None], number: int, count: int) -> Callable[[float], None]:
    """Return the listener to the progress of one of `count` equal parts, counted from 0."""
    return lambda fraction: report((number + fraction) / count)


def _write(html: Path, document: Document, flags: InspectFlags) -> None:
    """Write the page, after a message about its size."""
    encoded = encode(document, levels=flags.levels, layers=flags.layers or ())
    size = page_size(encoded)
    say(f"page      {size / 1e6:.1f} MB, {_maps_in(document)} maps")
    if size > WARNED:
        say("smaller   --levels 31, --layers 5 6, --no-vectors")
    write_page(html, encoded)
    say(f"written   {html}: open it in a browser")


def _maps_in(document: Document) -> int:
    return sum(len(w) for frame in document.frames for maps in frame.maps for w in maps.weights)


def _as_dict(document: Document, flags: InspectFlags) -> dict[str, object]:
    return {"frames": [_frame(frame, flags) for frame in document.frames]}


def _frame(frame: Frame, flags: InspectFlags) -> dict[str, object]:
    """A frame as plain values, with the chosen maps, layers and heads; if none is chosen, all."""
    _named(frame, flags)  # the checks of the choice
    layers = flags.layers if flags.layer is None else [flags.layer]
    head = slice(None) if flags.head is None else slice(flags.head - 1, flags.head)
    all_maps = [
        {
            **{"name": maps.name, "measure": maps.measure, "layers": list(maps.layers)},
            **{"queries": maps.queries, "keys": maps.keys},
            "weights": [_rounded(weights[head]) for weights in maps.weights],
        }
        for maps in (only_layers(frame, layers) if layers else frame).maps
        if flags.maps in (None, maps.name)
        # a rollout is of all heads together
        and (flags.head is None or maps.measure != "rollout")
    ]
    sides = {name: list(side.tokens) for name, side in frame.sides.items()}
    return {"model": dict(frame.model), "answer": frame.answer, "sides": sides, "maps": all_maps}


def _rounded(weights: Tensor) -> list[list[list[float]]]:
    return [
        [[round(w, 6) for w in row] for row in head] for head in weights.double().cpu().tolist()
    ]


def _named(frame: Frame, flags: InspectFlags) -> Maps:
    """The attention map named by `--map`, or the last one.

    UsageError if the frame has no such map, layer, head or position.
    """
    attention = [maps for maps in frame.maps if maps.measure == "attention"]
    chosen = [maps for maps in attention if flags.maps in (None, maps.name)]
    if not chosen:
        names = ", ".join(maps.name for maps in attention)
        raise UsageError(f"--map {flags.maps}: the model has no such map", hint=f"one of: {names}")
    maps = chosen[-1]
    heads, positions, _ = maps.weights[0].shape
    most = {"layer": len(maps.layers), "head": heads, "position": positions}
    for name, count in most.items():
        number = getattr(flags, name)
        if number is not None:
            index_from_one(f"--{name}", number, count)
    return maps


def _draw(frame: Frame, flags: InspectFlags) -> None:
    """Print one attention map of a frame as shaded cells."""
    maps = _named(frame, flags)
    layer = len(maps.layers) if flags.layer is None else flags.layer
    weights = maps.weights[layer - 1]
    chosen = weights.mean(0) if flags.head is None else weights[flags.head - 1]
    rows, columns = frame.sides[maps.queries].tokens, frame.sides[maps.keys].tokens
    cut = chosen[:COLUMNS, :COLUMNS].tolist()
    head = "mean of its heads" if flags.head is None else f"head {flags.head}"
    data(f"{frame.label}: {maps.name}, layer {layer} of {len(maps.layers)}, {head}")
    if frame.answer:
        data(f"prediction: {frame.answer}")
    data(heat_map(rows[:COLUMNS], columns[:COLUMNS], cut))
    if max(len(rows), len(columns)) > COLUMNS:
        data(f"({len(rows)} x {len(columns)}; the first {COLUMNS} of each are shown)")
