"""The terms of the field as Headway uses them: one source for the page and for docs/glossary.md.

python -c "from headway.inspection.glossary import write; write()"
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Term:
    """One entry.

    also: other names and spellings, compared without regard to case. sentence: the definition.
    equation: the equation or shape, empty if there is none. file: path of the file in the
    repository that implements the idea. paper: author, year and section, empty if there is none.
    """

    term: str
    also: Sequence[str]
    sentence: str
    equation: str
    file: str
    paper: str


def terms() -> list[Term]:
    """Return all terms in alphabetical order, read from `page/assets/glossary.json`."""
    source = files("headway.inspection.page") / "assets" / "glossary.json"
    return [Term(**entry) for entry in json.loads(source.read_text("utf-8"))]


def sentences() -> dict[str, str]:
    """Return the sentence of each name of a term, all names in lower case."""
    return {name.casefold(): term.sentence for term in terms() for name in (term.term, *term.also)}


def markdown() -> str:
    """Return the text of docs/glossary.md, one heading a term."""
    return _HEAD + "\n".join(_entry(term) for term in terms())


def write(path: Path = Path("docs/glossary.md")) -> None:
    """Write `markdown()` to a file."""
    path.write_text(markdown(), "utf-8")


_HEAD = """# Glossary

The terms of the field as Headway uses them, in alphabetical order. Each entry has one sentence, the
equation or shape, the file that implements the idea, and the paper that it comes from. Shapes use
the letters of [`shapes.py`](../src/headway/base/shapes.py): B sequences, T queries, S keys,
H heads, D model width, V vocabulary.

This file is generated from `src/headway/inspection/page/assets/glossary.json`: change that, then
run this in the root of the repository:

    python -c "from headway.inspection.glossary import write; write()"

"""


def _entry(term: Term) -> str:
    lines = [f"## {term.term}", "", term.sentence, ""]
    if term.also:
        lines.append(f"- Also: {', '.join(term.also)}")
    if term.equation:
        lines.append(f"- Equation or shape: `{term.equation}`")
    lines.append(f"- File: [`{term.file}`](../{term.file})")
    if term.paper:
        lines.append(f"- Paper: {term.paper}")
    return "\n".join([*lines, ""])
