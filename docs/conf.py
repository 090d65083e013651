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
import screens  # noqa: E402
from docutils import nodes  # noqa: E402

import headway  # noqa: E402

project = "Headway"
author = "The authors of Headway"
version = release = headway.__version__
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "mathml",
    "ranking",
    "tooltips",
]
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
html_static_path = ["_static", "pictures/cards"]
html_js_files = ["accessible.js", "copy.js", "tooltips.js"]
html_css_files = ["site.css", "tour.css", "home.css"]
html_search_scorer = str(DOCS / "_static" / "scorer.js")
THEME = DOCS.parent / "src/headway/inspection/page/assets/theme.css"
PALETTE = {
    "color-background-primary": "paper",
    "color-background-secondary": "wash",
    "color-background-border": "line",
    "color-foreground-primary": "ink",
    "color-foreground-secondary": "soft",
    "color-foreground-muted": "soft",
    "color-brand-primary": "accent",
    "color-brand-content": "accent",
    "color-brand-visited": "accent",
}
"""Colour of the theme -> colour of the inspection page, so that site and page look alike."""


def _palette(form: int) -> dict[str, str]:
    """The colours of the inspection page, 0: light, 1: dark, as variables of the theme."""
    block = THEME.read_text(encoding="utf-8").split(":root {")[1 + form].partition("}")[0]
    colours = dict(re.findall(r"--([\w-]+):\s*(#\w+)", block))
    return {name: colours[source] for name, source in PALETTE.items()}


html_theme_options = {
    "navigation_with_keys": True,
    "light_css_variables": _palette(0),
    "dark_css_variables": _palette(1),
}

HOME_LINKS = {
    "Start": "start/install",
    "Tour": "tour/index",
    "Tasks": "tasks/index",
    "How to": "howto/index",
    "Results": "results",
    "Reference": "reference/generated/commands",
}
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
    """Put drawings and both forms of a screenshot into their pages: they follow the dark mode."""
    if app.builder.format != "html":
        return
    for image in list(doctree.findall(nodes.image)):
        path, description = DOCS / image["uri"], image.get("alt", "")
        if path.parent in drawings.FOLDERS:
            html = drawings.inline(path.read_text(encoding="utf-8"), description)
        elif path.parent == screens.FOLDER:
            name = path.stem.removesuffix("-light")
            html = screens.both(name, "../" * page.count("/"), description)
        else:
            continue
        image.replace_self(nodes.raw("", html, format="html"))


def _mark_home(
    app: Any, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Give the home page a class of its own, and links instead of the tree of pages: home.css."""
    if page == app.config.root_doc:
        links = "".join(f'<a href="{to}.html">{name}</a>' for name, to in HOME_LINKS.items())
        search = '<form action="search.html"><input type="search" name="q" placeholder="Search"'
        search += ' aria-label="Search"></form>'
        nav = f'<nav class="home-nav" aria-label="Parts"><b>Headway</b>{links}{search}</nav>'
        context["body"] = f'<div class="home">{nav}{context["body"]}</div>'


def _without_object(app: Any, doctree: nodes.document) -> None:
    """Remove the lines "Bases: object" of autodoc, which are true of every class."""
    for paragraph in list(doctree.findall(nodes.paragraph)):
        if paragraph.astext() == "Bases: object":
            paragraph.parent.remove(paragraph)


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
    app.connect("doctree-read", _without_object)
    app.connect("doctree-resolved", _inline_drawings)
    app.connect("html-page-context", _mark_home)
    app.connect("autodoc-process-docstring", _plain_docstring)
    app.connect("autodoc-process-signature", _shorter_annotations)
    app.connect("build-finished", _write_index_for_models)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
