"""Terms of the glossary in the text: their first occurrence on a page shows the definition.

The term becomes a link to its entry; `tooltips.js` shows the sentence of the entry while the
pointer is over it or the keyboard focus on it. Without scripts the link remains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html import escape
from typing import Any

from docutils import nodes

from headway.inspection.glossary import Term, terms

PARTS = ("tour/", "tasks/", "start/", "howto/", "explanation/", "exercises", "teaching", "speed")
PARTS += ("results", "quantisation", "translation", "plan")
"""The beginnings of the names of the pages whose terms are marked."""
SKIPPED = (nodes.literal, nodes.reference, nodes.math, nodes.raw, nodes.title, nodes.term)


@cache
def names() -> dict[str, Term]:
    """Each name of a term in lower case, and its plural, -> the term.

    Single letters and symbols are left out: they have other meanings in a text.
    """
    found: dict[str, Term] = {}
    for term in terms():
        for name in (term.term, *term.also):
            if len(name) > 2:
                found[name.casefold()] = term
                found.setdefault(f"{name.casefold()}s", term)
    return found


@cache
def _pattern() -> re.Pattern[str]:
    longest_first = sorted(names(), key=len, reverse=True)
    return re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, longest_first))})(?![\w-]|\.\w)", re.I)


def parts(text: str, seen: set[str]) -> Iterator[tuple[str, Term | None]]:
    """The text in parts; a part that is the first occurrence of a term comes with the term.

    seen: the terms that occurred before on the page; new ones are added.
    """
    last = 0
    for match in _pattern().finditer(text):
        term = names()[match[0].casefold()]
        if term.term in seen:
            continue
        seen.add(term.term)
        yield text[last : match.start()], None
        yield match[0], term
        last = match.end()
    yield text[last:], None


def _link(shown: str, term: Term, up: str) -> nodes.raw:
    anchor = re.sub(r"[^\w\- ]", "", term.term.lower()).replace(" ", "-")
    html = (
        f'<a class="term" href="{up}glossary.html#{anchor}" '
        f'data-definition="{escape(term.sentence)}">{escape(shown)}</a>'
    )
    return nodes.raw("", html, format="html")


def _is_in_html(text: nodes.Text) -> bool:
    """Whether a tag was opened directly before a text, such as that of a link to the source."""
    place = text.parent.index(text)
    before = text.parent[place - 1] if place else None
    return isinstance(before, nodes.raw) and not before.astext().startswith("</")


def mark(doctree: nodes.document, page: str) -> None:
    """Replace the first occurrence of each term in the paragraphs of a page by its link."""
    up, seen = "../" * page.count("/"), set[str]()
    for paragraph in list(doctree.findall(nodes.paragraph)):
        for text in list(paragraph.findall(nodes.Text)):
            above = text.parent
            while above is not paragraph and not isinstance(above, SKIPPED):
                above = above.parent
            if above is not paragraph or _is_in_html(text):
                continue
            pieces = [
                nodes.Text(piece) if term is None else _link(piece, term, up)
                for piece, term in parts(text.astext(), seen)
                if piece
            ]
            if any(isinstance(piece, nodes.raw) for piece in pieces):
                text.parent.replace(text, pieces)


def _mark_page(app: Any, doctree: nodes.document, page: str) -> None:
    if app.builder.format == "html" and page.startswith(PARTS):
        mark(doctree, page)


def setup(app: Any) -> dict[str, bool]:
    app.connect("doctree-resolved", _mark_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
