"""The page in a cell of a notebook: a frame around the one file, which asks nobody for anything."""

from __future__ import annotations

import html
from dataclasses import dataclass

from headway.inspection.page.encoding import Encoded
from headway.inspection.page.writer import page_pieces


@dataclass(frozen=True)
class Widget:
    """Put it last in a cell and it is shown. height: in pixels.

    The frame may run its own script and save files, and nothing else: it cannot reach the notebook.
    """

    encoded: Encoded
    height: int = 720

    def _repr_html_(self) -> str:
        page = b"".join(page_pieces(self.encoded)).decode()
        return (
            '<iframe title="Headway: inside a model" sandbox="allow-scripts allow-downloads"'
            f' style="width:100%;height:{int(self.height)}px;border:0"'
            f' srcdoc="{html.escape(page)}"></iframe>'
        )
