"""Search results in the order of their relevance.

Sphinx's index says which pages have a word, but not how often, so that all pages that have it get
the same score and are listed by title. This extension counts: `frequency.js`, loaded by the page
of the search only, has the number of occurrences of each word on each page, and `scorer.js` adds
to the score how much of a page is about the words, and the part of the site.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from docutils import nodes

FILE = "frequency.js"
IN_HEADING = 6
"""A word of a heading counts as often as this number of words of the text."""


def counts(doctree: nodes.document, index: Any) -> Counter[str]:
    """The number of occurrences of each stem in a page; headings count more."""
    words: Counter[str] = Counter()
    for text in doctree.findall(nodes.Text):
        weight = IN_HEADING if isinstance(text.parent, nodes.title) else 1
        for word in index.lang.split(text.astext().lower()):
            if index.lang.word_filter(word):
                words[index.lang.stem(word).lower()] += weight
    return words


def _write(app: Any, error: Exception | None) -> None:
    """Write the counts above 1: a page that is not listed has the word once, if at all."""
    if error is not None or app.builder.name != "html":
        return
    names = sorted(app.env.found_docs)
    table: dict[str, dict[int, int]] = {}
    lengths = []
    for number, name in enumerate(names):
        of_page = counts(app.env.get_doctree(name), app.builder.indexer)
        lengths.append(of_page.total())
        for word, count in of_page.items():
            if count > 1:
                table.setdefault(word, {})[number] = count
    content = json.dumps({"pages": names, "lengths": lengths, "words": table})
    text = f"const FREQUENCY = {content};\n"
    (Path(app.outdir) / "_static" / FILE).write_text(text, encoding="utf-8")


def _load(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if page == "search":
        app.add_js_file(FILE)


def setup(app: Any) -> dict[str, bool]:
    app.connect("html-page-context", _load)
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
