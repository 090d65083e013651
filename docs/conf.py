"""Configuration of the documentation site; `make docs` builds it into build/docs."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

import packages  # noqa: E402
from sphinx.errors import ConfigError  # noqa: E402

if missing := packages.problem(packages.BUILDING, "the site"):
    raise ConfigError(missing)

import drawings  # noqa: E402
import frames  # noqa: E402
import generate  # noqa: E402
from docutils import nodes  # noqa: E402

import headway  # noqa: E402

project = "Headway"
author = "The authors of Headway"
version = release = headway.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "mathml"]
exclude_patterns = ["pictures", "drawings"]
smartquotes = False  # --flag is no dash
highlight_language = "text"
# An annotation may name a class that several modules have.
suppress_warnings = ["myst.header", "ref.python"]

myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
# Notebooks are stored without outputs. They run once, and again if they change; `make docs LIVE=no`
# shows them without outputs.
nb_execution_mode = "cache"
nb_execution_cache_path = str(DOCS.parent / "build" / "notebooks")
nb_execution_in_temp = True
nb_execution_timeout = 3600
nb_execution_raise_on_error = True
nb_execution_show_tb = True
# A widget is shown as the page that it has: there is no Python behind the site.
nb_mime_priority_overrides = [("html", "text/html", 0)]
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # they would be loaded from a network
html_math_renderer = "mathml"
toc_object_entries = False
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
# torch for a CPU has no Triton; the kernels are documented without it, too.
autodoc_mock_imports = [] if find_spec("triton") else ["triton"]
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"Headway {release}"
html_show_copyright = False
html_copy_source = False
html_show_sphinx = False
html_static_path = ["_static"]
html_js_files = ["accessible.js"]
html_css_files = ["tour.css"]
html_theme_options = {"navigation_with_keys": True}

SOURCE_LINK = re.compile(r"\[([^\]]+)\]\((?:\.\./)+src/headway/([\w/]+)\.py\)")


def _link_sources(app: Any, page: str, source: list[str]) -> None:
    """Let links to files of the source lead to their highlighted pages of the site."""
    up = "../" * page.count("/")

    def link(match: re.Match[str]) -> str:
        text, path = match[1].replace("`", ""), match[2].removesuffix("/__init__")
        return f'<a href="{up}_modules/headway/{path}.html"><code>{text}</code></a>'

    modules = generate.module_paths()
    source[0] = SOURCE_LINK.sub(
        lambda match: link(match) if match[2] in modules else match[0], source[0]
    )


def _plain_docstring(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Docstrings are plain text, not reStructuredText."""
    lines[:] = generate.restructured(lines)


def _shorter_annotations(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, result: Any
) -> tuple[str | None, Any]:
    """Write shapes as in the source: Float[Tensor, 'B T D']."""

    def short(text: str | None) -> str | None:
        return None if text is None else re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", text)

    return short(signature), short(result)


def _inline_drawings(app: Any, doctree: nodes.document, page: str) -> None:
    """Put the drawings of the tour into their pages, so that they follow the dark mode."""
    if app.builder.format != "html":
        return
    for image in list(doctree.findall(nodes.image)):
        path = DOCS / image["uri"]
        if path.parent == drawings.FOLDER:
            svg = drawings.inline(path.read_text(encoding="utf-8"), image.get("alt", ""))
            image.replace_self(nodes.raw("", svg, format="html"))


def _write_index_for_models(app: Any, error: Exception | None) -> None:
    if error is None and app.builder.name == "html":
        text = generate.llms_text(DOCS)
        (Path(app.outdir) / "llms.txt").write_text(text, encoding="utf-8")


def _check_notebooks(app: Any, config: Any) -> None:
    if config.nb_execution_mode != "off" and (
        missing := packages.problem(packages.RUNNING, "running the notebooks")
    ):
        raise ConfigError(f"{missing}; without outputs: make docs LIVE=no")


def setup(app: Any) -> dict[str, bool]:
    app.connect("config-inited", _check_notebooks)
    generate.write(DOCS)
    frames.setup(app)
    app.connect("source-read", _link_sources)
    app.connect("doctree-resolved", _inline_drawings)
    app.connect("autodoc-process-docstring", _plain_docstring)
    app.connect("autodoc-process-signature", _shorter_annotations)
    app.connect("build-finished", _write_index_for_models)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
