"""`headway inspect` and `headway ui`: attention maps as a page, in a terminal and live."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from headway.base.errors import UsageError, index_from_one
from headway.base.files import check_new_file
from headway.cli.console import data, data_json, program, talk
from headway.cli.flags import (
    ON_THIS_MACHINE,
    UNNAMED,
    LanguageFlags,
    MachineFlags,
    Port,
    number,
)
from headway.cli.inputs import check_no_file
from headway.cli.progress import progress

if TYPE_CHECKING:
    from headway.bundle import Bundle
    from headway.inspection.document import Document, Frame, Maps

WARNED = 26_000_000  # size of a page in bytes above which a smaller one is suggested
COLUMNS = 40  # queries and keys of a map that are shown in a terminal


@Parameter(name="*")
@dataclass(frozen=True)
class PageFlags:
    """The contents of the page."""

    layers: Annotated[
        list[int] | None,
        number("Layers to include, counted from 1. If unset, all.", consume_multiple=True),
    ] = None
    levels: Annotated[
        Literal[31, 63, 255],
        Parameter(help="Quantisation levels of an attention weight; fewer make a smaller page."),
    ] = 255
    vectors: Annotated[
        bool, Parameter(help="Include queries and keys, to inspect each head; makes a larger page.")
    ] = True
    walk: Annotated[
        bool, Parameter(help="Include a walk: one computation step by step, with its values.")
    ] = True
    importance: Annotated[
        bool,
        Parameter(
            help="Head importance: how much the prediction loses without each head; takes longer."
        ),
    ] = False


@Parameter(name="*")
@dataclass(frozen=True)
class HeadFlags:
    """The map that the terminal shows, the maps in JSON, and the head that the walk explains."""

    maps: Annotated[
        str | None,
        Parameter(
            name="--map", help="Attention map: encoder, decoder or cross. If unset, the last one."
        ),
    ] = None
    layer: Annotated[int | None, number("Layer, counted from 1. If unset, the last one.")] = None
    head: Annotated[
        int | None, number("Head, counted from 1. If unset, the mean over all heads.")
    ] = None
    position: Annotated[
        int | None,
        number("Position of the token that the walk explains, from 1. If unset, the last one."),
    ] = None


WHOLE, LAST = PageFlags(), HeadFlags()


def inspect(
    run: str,
    text_or_image: str,
    second: str | None = None,
    /,
    *,
    html: Path | None = None,
    term: bool = False,
    json: bool = False,
    target: str | None = None,
    compare: list[str] | None = None,
    languages: LanguageFlags = UNNAMED,
    page: PageFlags = WHOLE,
    shown: HeadFlags = LAST,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Show the attention of a model: headway inspect RUN "a sentence" --html out.html.

    The page is one self-contained HTML file, which needs no server and no network. It shows all
    heads of all layers as maps, lines, text, alignment or over the image; the queries and keys of
    each head; the prediction at each layer (logit lens); and a walk through one computation.

    Parameters
    ----------
    run
        A run folder or a model folder of any model with attention.
    text_or_image
        A text; for a model of images, the path of an image or sound file.
    second
        A second text, for models of text pairs.
    html
        New HTML file for the page.
    term
        Draw one map in the terminal. This is the default without --html and --json.
    json
        Print tokens, output and attention weights as one JSON object; --map, --layers, --layer and
        --head select some of the weights.
    target
        Output text to inspect. If unset, the output that the model generates.
    compare
        Further models for the same input, shown side by side in the page.
    """
    if html is not None:
        check_new_file(html)
    loader = machine.prepare()
    runs = [run, *(compare or [])]
    options = {"second": second, "target": target, "language": languages.to}
    bundles = [languages.source_of(loader.load(name)) for name in runs]
    if bundles[0].inputs.modality != "image":
        check_no_file(text_or_image, "write the text itself in quotes")
    document = _document(runs, bundles, text_or_image, options, (page, shown))
    if html is not None:
        _write(html, document, page)
    if json:
        data_json(_as_dict(document, page, shown))
    if term or not (html or json):
        for frame in document.frames:
            _draw(frame, shown)
        if html is None:
            talk.print(f"next      {program()} inspect {run} ... --html out.html", markup=False)


def _document(
    runs: Sequence[str],
    bundles: Sequence[Bundle],
    text_or_image: str,
    options: dict[str, Any],
    flags: tuple[PageFlags, HeadFlags],
) -> Document:
    """A frame for each model, and a walk through the first of them."""
    from headway.bundle import WRITTEN
    from headway.inspection.document import Document
    from headway.inspection.walk import walk
    from headway.inspection.watch import ANALYSES, SLOW, watch

    page, shown = flags
    analyses = (*ANALYSES, *SLOW) if page.importance else ANALYSES
    with progress("inspecting") as report:
        frames = [
            watch(
                bundle,
                text_or_image,
                **options,
                vectors=page.vectors,
                analyses=analyses,
                label=run,
                report=_part(report, number, len(runs)),
            )
            for number, (run, bundle) in enumerate(zip(runs, bundles, strict=True))
        ]
    for bundle, frame in zip(bundles, frames, strict=True):
        if page.importance and not frame.importance:
            raise UsageError(
                f"--importance: a {bundle.kind} makes no prediction that heads could matter for",
                hint="leave out --importance",
            )
    document = Document(title=text_or_image[:80], frames=frames)
    map_name = _named(frames[0], shown).name
    if not page.walk:
        return document
    try:
        steps = walk(
            bundles[0],
            text_or_image,
            **options,
            written=WRITTEN,
            map=map_name,
            layer=(shown.layer or 1) - 1,
            head=(shown.head or 1) - 1,
            position=None if shown.position is None else shown.position - 1,
        )
    except UsageError as error:  # the frames are useful without a walk
        if shown != LAST:
            raise
        return replace(document, notes=[f"No walk: {error.what}."])
    return replace(document, walk=steps)


def _part(report: Callable[[float], None], number: int, count: int) -> Callable[[float], None]:
    """Return the listener to the progress of one of `count` equal parts, counted from 0."""
    return lambda fraction: report((number + fraction) / count)


def _write(html: Path, document: Document, page: PageFlags) -> None:
    """Write the page, after a message about its size."""
    from headway.inspection.page import encode, page_size, write_page

    encoded = encode(document, levels=page.levels, layers=page.layers or ())
    size = page_size(encoded)
    talk.print(f"page      {size / 1e6:.1f} MB, {_maps_in(document)} maps", markup=False)
    if size > WARNED:
        talk.print("smaller   --levels 31, --layers 5 6, --no-vectors", markup=False)
    write_page(html, encoded)
    talk.print(f"written   {html}: open it in a browser", markup=False)


def _maps_in(document: Document) -> int:
    return sum(len(w) for frame in document.frames for maps in frame.maps for w in maps.weights)


def _as_dict(document: Document, page: PageFlags, shown: HeadFlags) -> dict[str, Any]:
    return {"frames": [_frame(frame, page, shown) for frame in document.frames]}


def _frame(frame: Frame, page: PageFlags, shown: HeadFlags) -> dict[str, Any]:
    """A frame as plain values, with the chosen maps, layers and heads; if none is chosen, all."""
    from headway.inspection.page import only_layers

    _named(frame, shown)  # the checks of the choice
    layers = page.layers if shown.layer is None else [shown.layer]
    head = slice(None) if shown.head is None else slice(shown.head - 1, shown.head)
    all_maps = [
        {
            **{"name": maps.name, "measure": maps.measure, "layers": list(maps.layers)},
            **{"queries": maps.queries, "keys": maps.keys},
            "weights": [_rounded(weights[head]) for weights in maps.weights],
        }
        for maps in (only_layers(frame, layers) if layers else frame).maps
        if shown.maps in (None, maps.name)
        # a rollout is of all heads together
        and (shown.head is None or maps.measure != "rollout")
    ]
    sides = {name: list(side.tokens) for name, side in frame.sides.items()}
    return {"model": dict(frame.model), "answer": frame.answer, "sides": sides, "maps": all_maps}


def _rounded(weights: Any) -> list[Any]:
    return [
        [[round(w, 6) for w in row] for row in head] for head in weights.double().cpu().tolist()
    ]


def _named(frame: Frame, shown: HeadFlags) -> Maps:
    """The attention map named by `shown.maps`, or the last one.

    UsageError if the frame has no such map, layer, head or position.
    """
    attention = [maps for maps in frame.maps if maps.measure == "attention"]
    chosen = [maps for maps in attention if shown.maps in (None, maps.name)]
    if not chosen:
        names = ", ".join(maps.name for maps in attention)
        raise UsageError(f"--map {shown.maps}: the model has no such map", hint=f"one of: {names}")
    maps = chosen[-1]
    heads, positions, _ = maps.weights[0].shape
    most = {"layer": len(maps.layers), "head": heads, "position": positions}
    for name, count in most.items():
        number = getattr(shown, name)
        if number is not None:
            index_from_one(f"--{name}", number, count)
    return maps


def _draw(frame: Frame, shown: HeadFlags) -> None:
    """Print one attention map of a frame as shaded cells."""
    from headway.inspection.render import heat_map

    maps = _named(frame, shown)
    layer = len(maps.layers) if shown.layer is None else shown.layer
    weights = maps.weights[layer - 1]
    chosen = weights.mean(0) if shown.head is None else weights[shown.head - 1]
    rows, columns = frame.sides[maps.queries].tokens, frame.sides[maps.keys].tokens
    cut = chosen[:COLUMNS, :COLUMNS].tolist()
    head = "mean of its heads" if shown.head is None else f"head {shown.head}"
    data(f"{frame.label}: {maps.name}, layer {layer} of {len(maps.layers)}, {head}")
    if frame.answer:
        data(f"prediction: {frame.answer}")
    data(heat_map(rows[:COLUMNS], columns[:COLUMNS], cut))
    if max(len(rows), len(columns)) > COLUMNS:
        data(f"({len(rows)} x {len(columns)}; the first {COLUMNS} of each are shown)")


def ui(
    run: str,
    text_or_image: str | None = None,
    /,
    *,
    port: Port = 8765,
    browser: bool = True,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Serve the page of `headway inspect` live: type a text or drop an image.

    Heads can be switched off, words changed, and each computation followed step by step. The
    server can be reached from this machine only (127.0.0.1); Ctrl-C stops it.

    Parameters
    ----------
    run
        A run folder or a model folder of any model with attention.
    text_or_image
        First input of the page: a text, or the path of an image.
    port
        Port of the server; 0 selects a free port.
    browser
        Open the page in the browser.
    """
    try:
        from headway.serving import BundleViewer, serve, viewer_app
    except ImportError:
        raise UsageError(
            "the live page needs the package extra 'serve'", hint="pip install 'headway[serve]'"
        ) from None

    viewer = BundleViewer(machine.prepare().load(run), Path(run).name)
    if text_or_image is not None and not viewer.takes_images:
        check_no_file(text_or_image, "write the text itself in quotes")
    first = viewer.first() if text_or_image is None else viewer.open(text_or_image)

    def ready(address: str) -> None:
        talk.print(f"open      {address}   (Ctrl-C stops the server)", markup=False)
        if browser:
            webbrowser.open(address)

    serve(viewer_app(viewer, first), port, ready)
