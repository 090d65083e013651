"""The page in a cell of a notebook: an inline frame with the whole page."""

from __future__ import annotations

import html
from dataclasses import dataclass

from headway.inspection.page.encoding import Encoded
from headway.inspection.page.writer import page_parts


@dataclass(frozen=True)
class Widget:
    """A page that a notebook shows if it is the last value of a cell. height: in pixels.

    The frame is sandboxed: it can run its script and save files, but has no access to the notebook.
    """

    encoded: Encoded
    height: int = 720

    def _repr_html_(self) -> str:
        page = b"".join(page_parts(self.encoded)).decode()
        return (
            '<iframe title="Headway: inside a model" sandbox="allow-scripts allow-downloads"'
            f' style="width:100%;height:{int(self.height)}px;border:0"'
            f' srcdoc="{html.escape(page)}"></iframe>'
        )
