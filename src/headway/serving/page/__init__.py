"""The page of the model server: one HTML document without requests to other servers."""

from functools import cache
from importlib.resources import files

from headway.inspection.page import page_top, theme
from headway.inspection.page.bundling import bundle

_ASSETS = files(__package__)


@cache
def start_page() -> bytes:
    """Return the page, whose forms follow from the models that the server lists."""
    scripts = (entry for entry in _ASSETS.iterdir() if entry.name.endswith(".js"))
    modules = {entry.name.removesuffix(".js"): entry.read_text("utf-8") for entry in scripts}
    script = b"\n" + bundle(dict(sorted(modules.items()))).encode()
    style = theme() + _ASSETS.joinpath("page.css").read_bytes()
    top = page_top(script, style, connect="'self'")
    return top + b"<script>" + script + b"</script>\n</body>\n</html>\n"
