"""The page of the model server: one HTML document without requests to other servers."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from headway.inspection.page import page_top, theme

_ASSETS = files(__package__)


@cache
def start_page() -> bytes:
    """Return the page, whose forms follow from the models that the server lists."""
    script = b'\n"use strict";\n' + _ASSETS.joinpath("page.js").read_bytes()
    style = theme() + _ASSETS.joinpath("page.css").read_bytes()
    top = page_top(script, style, connect="'self'")
    return top + b"<script>" + script + b"</script>\n</body>\n</html>\n"
