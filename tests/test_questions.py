"""docs/questions.md points at code that exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROWS = re.findall(
    r"^\| (.+?\?) .*\| `(src/[\w/]+\.py)` `([\w.]+)` \|$",
    (ROOT / "docs/questions.md").read_text(),
    re.MULTILINE,
)
LONGEST = 90  # lines that are read in about a minute


def named(tree: ast.Module, name: str) -> ast.AST:
    """Return the function or class of this dotted name."""
    node: ast.AST = tree
    for part in name.split("."):
        node = next(n for n in ast.iter_child_nodes(node) if getattr(n, "name", None) == part)
    return node


def test_there_are_at_least_ten_questions():
    assert len(ROWS) >= 10


@pytest.mark.parametrize(("question", "file", "name"), ROWS, ids=[row[0][:40] for row in ROWS])
def test_the_answer_is_at_its_stated_location_and_short(question, file, name):
    node = named(ast.parse((ROOT / file).read_text()), name)
    assert node.end_lineno - node.lineno < LONGEST, question
