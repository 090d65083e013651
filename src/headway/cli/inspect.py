"""`headway inspect` and `headway ui`: what a model attends to, as a page, in a terminal, live."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from headway.cli.console import data, data_json, program, talk
from headway.cli.flags import ON_THIS_MACHINE, Loader, MachineFlags, Port, number
from headway.errors import UsageError
from headway.files import check_new_file

if TYPE_CHECKING:
    from headway.inspection.document import Document, Frame, Maps

WARNED = 26_000_000  # bytes of a page from which a smaller one is proposed
COLUMNS = 40  # keys of a map in a terminal


@Parameter(name="*")
@dataclass(frozen=True)
class PageFlags:
    """What the page holds."""

    layers: Annotated[
        list[int] | None,
        number("Only these, from 1.", consume_multiple=True),
    ] = None
    levels: Annotated[
        Literal[31, 63, 255],
        Parameter(help="Steps of a weight that are told apart: fewer, a smaller page."),
    ] = 255
    vectors: Annotated[
        bool, Parameter(help="Queries and keys too, to look inside a head: a larger page.")
    ] = True
    walk: Annotated[bool, Parameter(help="One computation step by step, with its numbers.")] = True
    importance: Annotated[
        bool, Parameter(help="Switch each head off in turn and say what is lost: takes longer.")
    ] = False


@Parameter(name="*")
@dataclass(frozen=True)
class HeadFlags:
    """Which map the terminal shows, and which head the walk goes through."""

    maps: Annotated[
        str | None, Parameter(name="--map", help="encoder, decoder or cross; the last otherwise.")
    ] = None
    layer: Annotated[int | None, number("From 1; the last otherwise.")] = None
    head: Annotated[int | None, number("From 1; the mean of all otherwise.")] = None
    place: Annotated[
        int | None,
        number("Of the token that the walk follows, from 1; the last otherwise."),
    ] = None


WHOLE, LAST = PageFlags(), HeadFlags()


def inspect(
    run: str,
    given: str,
    second: str | None = None,
    /,
    *,
    html: Path | None = None,
    term: bool = False,
    json: bool = False,
    target: str | None = None,
    language: str | None = None,
    compare: list[str] | None = None,
    page: PageFlags = WHOLE,
    shown: HeadFlags = LAST,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Look inside a model as it reads: headway inspect RUN "a sentence" --html out.html.

    The page is one file that opens anywhere and asks nobody for anything: all heads of all layers,
    as maps, lines, text, alignment or over the picture; what is inside a head; what the model would
    say at each layer; and a walk through one computation, number by number.

    Parameters
    ----------
    run
        A run folder or a model folder of any kind that attends.
    given
        A text, or the path of a picture (or sound) for a model that looks at pictures.
    second
        A second text, for models that read two.
    html
        The page to write.
    term
        Draw one map in the terminal; also what happens without any of the three.
    json
        Tokens, answer and all weights as one JSON object.
    target
        Look at the model while it writes this, not what it would write itself.
    language
        Of a captioner of several languages.
    compare
        Other models that read the same, to be laid side by side in the page.
    """
    if html is not None:
        check_new_file(html)
    place = machine.prepare()
    runs = [run, *(compare or [])]
    asked = {"second": second, "target": target, "language": language}
    document = _document(runs, given, asked, (page, shown), place)
    if html is not None:
        _write(html, document, page)
    if json:
        data_json(_as_dict(document))
    if term or not (html or json):
        for frame in document.frames:
            _draw(frame, shown)
        if html is None:
            talk.print(f"next      {program()} inspect {run} ... --html out.html", markup=False)


def _document(
    runs: Sequence[str],
    given: str,
    asked: dict[str, Any],
    how: tuple[PageFlags, HeadFlags],
    place: Loader,
) -> Document:
    """A frame for each model, and a walk through the first of them."""
    from headway.bundle import WRITTEN
    from headway.inspection.document import Document
    from headway.inspection.walk import walk
    from headway.inspection.watch import ANALYSES, SLOW, watch

    page, shown = how
    analyses = (*ANALYSES, *SLOW) if page.importance else ANALYSES
    bundles = [place.load(run) for run in runs]
    frames = [
        watch(
            *(bundle, given),
            **asked,
            vectors=page.vectors,
            analyses=analyses,
            label=run,
        )
        for run, bundle in zip(runs, bundles, strict=True)
    ]
    for bundle, frame in zip(bundles, frames, strict=True):
        if page.importance and not frame.importance:
            raise UsageError(f"a {bundle.kind} says nothing that its heads could be important for")
    document = Document(title=given[:80], frames=frames)
    named = _named(frames[0], shown).name
    if not page.walk:
        return document
    try:
        steps = walk(
            *(bundles[0], given),
            **asked,
            written=WRITTEN,
            map=named,
            layer=(shown.layer or 1) - 1,
            head=(shown.head or 1) - 1,
            place=None if shown.place is None else shown.place - 1,
        )
    except UsageError as error:  # what was watched stands, also where nobody can walk
        if shown != LAST:
            raise
        return replace(document, notes=[f"No walk: {error.what}."])
    return replace(document, walk=steps)


def _write(html: Path, document: Document, page: PageFlags) -> None:
    """The page, and before it how large it will be."""
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


def _as_dict(document: Document) -> dict[str, Any]:
    return {"frames": [_frame(frame) for frame in document.frames]}


def _frame(frame: Frame) -> dict[str, Any]:
    maps = [
        {
            **{"name": one.name, "measure": one.measure, "layers": list(one.layers)},
            **{"queries": one.queries, "keys": one.keys},
            "weights": [_rounded(weights) for weights in one.weights],
        }
        for one in frame.maps
    ]
    sides = {name: list(side.tokens) for name, side in frame.sides.items()}
    return {"model": dict(frame.model), "answer": frame.answer, "sides": sides, "maps": maps}


def _rounded(weights: Any) -> list[Any]:
    return [
        [[round(w, 6) for w in row] for row in head] for head in weights.double().cpu().tolist()
    ]


def _named(frame: Frame, shown: HeadFlags) -> Maps:
    """The map that is meant, the last unless named. UsageError for one, a layer, a head or a place
    that is not there."""
    own = [maps for maps in frame.maps if maps.measure == "attention"]
    found = [maps for maps in own if shown.maps in (None, maps.name)]
    if not found:
        names = ", ".join(maps.name for maps in own)
        raise UsageError(f"there is no map {shown.maps!r}", hint=f"--map: {names}")
    maps = found[-1]
    heads, places, _ = maps.weights[0].shape
    most = {"layer": len(maps.layers), "head": heads, "place": places}
    for name, count in most.items():
        asked = getattr(shown, name)
        if asked is not None and not 1 <= asked <= count:
            raise UsageError(f"--{name} {asked}: there are 1 to {count}")
    return maps


def _draw(frame: Frame, shown: HeadFlags) -> None:
    """One map of a frame, as shaded cells."""
    from headway.inspection.render import heat_map

    maps = _named(frame, shown)
    layer = len(maps.layers) if shown.layer is None else shown.layer
    weights = maps.weights[layer - 1]
    chosen = weights.mean(0) if shown.head is None else weights[shown.head - 1]
    rows, columns = frame.sides[maps.queries].tokens, frame.sides[maps.keys].tokens
    cut = chosen[:COLUMNS, :COLUMNS].tolist()
    which = "mean of its heads" if shown.head is None else f"head {shown.head}"
    data(f"{frame.label}: {maps.name}, layer {layer} of {len(maps.layers)}, {which}")
    if frame.answer:
        data(f"answer: {frame.answer}")
    data(heat_map(rows[:COLUMNS], columns[:COLUMNS], cut))
    if max(len(rows), len(columns)) > COLUMNS:
        data(f"({len(rows)} x {len(columns)}; the first {COLUMNS} of each are shown)")


def ui(
    run: str,
    given: str | None = None,
    /,
    *,
    port: Port = 8765,
    browser: bool = True,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Serve that page live: type a sentence or drop an image, and watch the model read it.

    Heads can be switched off, words changed, and each computation followed number by number. The
    server answers this machine alone (127.0.0.1), and stops with Ctrl-C.

    Parameters
    ----------
    run
        A run folder or a model folder of any kind that attends.
    given
        What the page shows first: a text, or the path of a picture.
    port
        0 takes a free one.
    browser
        Open the page.
    """
    try:
        from headway.serving import BundleViewer, serve, viewer_app
    except ImportError:
        raise UsageError(
            "the live page needs a server", hint="pip install 'headway[serve]'"
        ) from None

    place = machine.prepare()
    viewer = BundleViewer(place.load(run), Path(run).name)
    first = viewer.first() if given is None else viewer.open(given)

    def ready(address: str) -> None:
        talk.print(f"open      {address}   (Ctrl-C ends it)", markup=False)
        if browser:
            webbrowser.open(address)

    serve(viewer_app(viewer, first), port, ready)
