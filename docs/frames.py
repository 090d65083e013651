"""The block `{live}` of the tour: an inspection page in a frame, with what to look for.

    ```{live} translator
    :state: view=alignment&head=-1
    :height: 520

    Choose a word of the translation: its lines lead to the English words it attends to.
    ```

With `:head: MAPS, KIND` it opens on the head that is most of a kind (`decoder, previous token`),
and `{head}` in the text becomes the name of that head.

With `:bare: PICTURE` the frame shows the page without controls, playing by itself, and no commands;
a site without live pages has the picture of that name in docs/pictures/cards in its place.

The frame is loaded when a reader scrolls to it. It is sandboxed: the page runs its script and can
save files, but cannot reach the site. Below it are a link to the page and the commands that made
it. Building fails if a page is missing, unless the setting `live_pages` is off (`make docs
LIVE=no`); the block then says so.
"""

from __future__ import annotations

import shutil
from html import escape
from pathlib import Path
from typing import Any, ClassVar

import live
import screens
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

OUTPUT = "live"
"""The folder of the pages below the folder of the site."""
WITHOUT = "This copy of the site was built without its live pages. These commands make this one:"


class Live(SphinxDirective):
    """The argument names a page of `live.PAGES`; the content says what to choose and to see."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {
        "state": directives.unchanged,
        "height": directives.positive_int,
        "bare": directives.unchanged_required,
        "head": directives.unchanged_required,
    }

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        if name not in live.PAGES:
            raise self.error(f"there is no live page {name!r}; docs/live.py has {[*live.PAGES]}")
        if not self.content:
            raise self.error(f"the live page {name!r} needs a sentence: what to choose and to see")
        if chosen := self.options.get("head"):
            self._open_on(name, *chosen.split(", "))
        caption = nodes.container(classes=["live-caption"])
        caption += self.parse_content_to_nodes()
        block = nodes.container(classes=["live"])
        block += caption
        up = "../" * self.env.docname.count("/")
        if picture := self.options.get("bare"):
            html = self._bare(name, up) if self.config.live_pages else screens.both(picture, up)
        else:
            html = self._frame(name, up) if self.config.live_pages else _without(name)
        block += nodes.raw("", html, format="html")
        return [block]

    def _open_on(self, name: str, maps: str, kind: str) -> None:
        """Let the page open on the head that is most of a kind, and name it in the text."""
        spoken = "one head"  # of a page that is not made
        if self.config.live_pages:
            layer, head = live.head_of(live.page_path(name), maps, kind)
            spoken = f"head {head + 1} of layer {layer + 1}"
            state = f"{self.options.get('state', '')}&map={maps}&layer={layer}&head={head}"
            self.options["state"] = state.removeprefix("&")
        self.content.data[:] = [line.replace("{head}", spoken) for line in self.content.data]

    def _iframe(self, name: str, address: str) -> str:
        self.env.note_dependency(str(live.page_path(name)))
        return (
            f'<iframe class="live-frame" src="{escape(address)}" loading="lazy"'
            f' title="{escape(live.PAGES[name].title)}"'
            ' sandbox="allow-scripts allow-downloads allow-popups allow-popups-to-escape-sandbox"'
            f' style="height: {self.options.get("height", 640)}px"></iframe>\n'
        )

    def _frame(self, name: str, up: str) -> str:
        """The frame, the link to its page, and the commands."""
        state = self.options.get("state", "")
        address = f"{up}{OUTPUT}/{name}.html" + (f"#{state}" if state else "")
        size = live.page_path(name).stat().st_size / 1e6
        return (
            self._iframe(name, address)
            + f'<p class="live-below"><a href="{escape(address)}">Open this page alone</a>'
            f" ({size:.1f} MB, no network)</p>\n"
            f"<details><summary>The commands that made it</summary>{_commands(name)}</details>"
        )

    def _bare(self, name: str, up: str) -> str:
        """The frame of a page that plays by itself, and the link to the page."""
        address = f"{up}{OUTPUT}/{name}.html"
        state = self.options.get("state", "")
        return (
            self._iframe(name, f"{address}#bare&{state}")
            + f'<p class="live-below"><a href="{escape(f"{address}#{state}")}">'
            "Open the whole page</a></p>\n"
        )


def _without(name: str) -> str:
    return (
        f'<p class="live-missing"><strong>{escape(live.PAGES[name].title)}.</strong> '
        f"{WITHOUT}</p>{_commands(name)}"
    )


def _commands(name: str) -> str:
    commands = live.commands_of(name)
    lines = "\n".join((*commands["train"], *commands["inspect"]))
    return f'<pre class="live-commands">{escape(lines)}</pre>'


def check(app: Any) -> None:
    """Raise ExtensionError if a page is missing or was made by other code."""
    if app.config.live_pages and (missing := live.missing()):
        raise ExtensionError(
            f"the live pages {', '.join(missing)} are not made, or were made by other code than "
            "that of this folder: run python docs/live.py, which trains their models in minutes "
            "(make docs does it), or build without them: make docs LIVE=no"
        )


def copy_pages(app: Any, error: Exception | None) -> None:
    """Copy the pages into the finished site."""
    if error is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir) / OUTPUT
    shutil.rmtree(folder, ignore_errors=True)
    if app.config.live_pages:
        folder.mkdir(parents=True)
        for name in live.PAGES:
            shutil.copyfile(live.page_path(name), folder / f"{name}.html")


def setup(app: Any) -> None:
    app.add_config_value("live_pages", True, "env", bool)
    app.add_directive("live", Live)
    app.connect("builder-inited", check)
    app.connect("build-finished", copy_pages)
