"""Equations as MathML, which browsers draw themselves: the site loads nothing from a network.

Queries, keys and values have the colours of the drawings: `\\textcolor{query}{Q}` in an equation,
and the variables q, k and v in Python code.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

COLOURED = re.compile(r'mathcolor="(query|key|value)"')
SEPARATOR = re.compile(r"(?<!\\)[{}]|\\q?quad\b")
VARIABLE = re.compile(r'<span class="n">([qkvQKV])</span>')
NAMES = {"q": "query", "k": "key", "v": "value"}


def mathml(equation: str, display: str) -> str:
    """An equation in LaTeX as MathML; the colours of the site become its classes."""
    return COLOURED.sub(r'class="\1"', convert(equation, display=display))


def parts(equation: str) -> list[str]:
    """The parts of a line of equations, which `\\quad` and `\\qquad` separate outside of braces.

    Browsers do not break an equation into lines, so each part is an equation of its own.
    """
    found, depth, start = [], 0, 0
    for match in SEPARATOR.finditer(equation):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0 and match[0].endswith("quad"):
            found.append(equation[start : match.start()].strip())
            start = match.end()
    return [*found, equation[start:].strip()]


def coloured(html: str) -> str:
    """Highlighted code whose variables q, k and v have the classes of query, key and value."""
    return VARIABLE.sub(
        lambda match: f'<span class="n {NAMES[match[1].lower()]}">{match[1]}</span>', html
    )


def _inline(writer: Any, node: Any) -> None:
    writer.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def _block(writer: Any, node: Any) -> None:
    equations = "".join(mathml(part, "block") for part in parts(node.astext()))
    writer.body.append(f'<div class="math">{equations}</div>')
    raise nodes.SkipNode


def _colour_code(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    if page.startswith("tour/"):
        context["body"] = coloured(context["body"])


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.connect("html-page-context", _colour_code)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
