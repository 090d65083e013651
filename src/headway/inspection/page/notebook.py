"""The page in a cell of a notebook: an inline frame with the whole page."""

import html
from dataclasses import dataclass

from headway.base.errors import UsageError
from headway.inspection.page.encoding import Encoded
from headway.inspection.page.writer import page_text


def frame_html(page: str, height: int) -> str:
    """Return a frame with the page. It runs the page's script and saves files, and nothing else."""
    return (
        '<iframe title="Headway: inside a model" sandbox="allow-scripts allow-downloads"'
        f' style="width:100%;height:{int(height)}px;border:0"'
        f' srcdoc="{html.escape(page)}"></iframe>'
    )


@dataclass(frozen=True)
class NotebookPage:
    """A page that a notebook shows if it is the last value of a cell. height: in pixels.

    It is used where anywidget is not installed: `PageWidget` shares what is selected as well.
    """

    encoded: Encoded
    height: int = 720

    def _repr_html_(self) -> str:
        return frame_html(page_text(self.encoded), self.height)

    @property
    def selection(self) -> dict[str, object]:
        """UsageError: only a widget knows what is selected."""
        raise UsageError(
            "this page cannot tell Python what is selected in it, because anywidget is not "
            "installed",
            hint="pip install 'headway[notebooks]', then call show() again",
        )
