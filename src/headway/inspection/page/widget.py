"""The page in a cell of a notebook, as a widget: page and Python share what is selected."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import anywidget
import traitlets

from headway.base.errors import UsageError, did_you_mean
from headway.base.shapes import Float, Tensor
from headway.inspection.document import Document, Maps
from headway.inspection.page.encoding import encode
from headway.inspection.page.notebook import frame_html
from headway.inspection.page.writer import page_text

SELECTION: Mapping[str, tuple[type, ...]] = {
    "view": (str,),
    "frame": (int,),
    "map": (str,),
    "measure": (str,),
    "layer": (int, type(None)),
    "head": (int, type(None)),
    "query": (int, type(None)),
    "key": (int, type(None)),
    "query_token": (str, type(None)),
    "key_token": (str, type(None)),
}
"""Name of a part of the selection -> its types."""


class PageWidget(anywidget.AnyWidget):
    """The page of a document in a notebook; selecting in the page sets `selection`, and vice versa.

        page = show(bundle, "red heart")
        page                                         # a cell: the page; click on a token
        page.selection["query_token"], page.weights  # another cell
        page.selection = {"layer": 1, "head": 0}     # the page shows that head

    selection: view, frame, map, measure, layer, head (-1: the mean over the heads), query and key
    (positions; key -1: none), query_token and key_token; {} before the page is shown. Some of these
    names may be set; the page then selects the nearest that exists and completes the others. Tokens
    follow from positions and are ignored. height: in pixels.

    Raises UsageError for an unknown name in the selection or a value of a wrong type.
    """

    _esm = (files("headway.inspection.page") / "widget.js").read_text("utf-8")
    page = traitlets.Unicode().tag(sync=True)
    height = traitlets.Int().tag(sync=True)
    selection = traitlets.Dict().tag(sync=True)

    def __init__(self, document: Document, height: int = 720) -> None:
        self.document = document
        super().__init__(page=page_text(encode(document)), height=height)

    @traitlets.validate("selection")
    def _check(self, proposal: Mapping[str, Any]) -> dict[str, object]:
        selection: dict[str, object] = proposal["value"]
        for name, value in selection.items():
            if name not in SELECTION:
                raise UsageError(
                    f"a selection has no {name!r}{did_you_mean(name, SELECTION)}",
                    hint=f"the names are {', '.join(SELECTION)}",
                )
            if not isinstance(value, SELECTION[name]) or isinstance(value, bool):
                expected = " or ".join(
                    "None" if kind is type(None) else kind.__name__ for kind in SELECTION[name]
                )
                raise UsageError(f"selection[{name!r}] must be {expected}, but is {value!r}")
        return selection

    @property
    def weights(self) -> Float[Tensor, " S"]:
        """The weights with which the selected query attends to each key.

        UsageError if nothing is selected yet, or if the selected input has no maps.
        """
        maps, query = self._selected_maps(), self.selection.get("query")
        if maps is None or query is None:
            raise UsageError(
                "no attention map is selected yet",
                hint="show the page in a cell first, and select a token in it",
            )
        weights: Tensor = maps.weights[self.selection["layer"]][:, query]  # H S
        head: int = self.selection["head"]
        chosen: Tensor = weights.mean(0) if head < 0 else weights[head]
        return chosen

    def _selected_maps(self) -> Maps | None:
        if not self.selection:
            return None
        frame = self.document.frames[self.selection["frame"]]
        same_name = [maps for maps in frame.maps if maps.name == self.selection["map"]]
        measure = self.selection["measure"]
        return next((maps for maps in same_name if maps.measure == measure), None)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Add the page without a widget, for pages made of notebooks that have no Python."""
        data, metadata = super()._repr_mimebundle_(**options) or ({}, {})
        return {**(data or {}), "text/html": frame_html(self.page, self.height)}, metadata
