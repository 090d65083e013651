"""README.md and the home page state how many lines of Python there are; the numbers are right."""

from __future__ import annotations

import re

import pytest

from tests.fixtures.pages import ROOT

SOURCES = ROOT / "src" / "headway"
FOR_STUDENTS = ("attention", "blocks", "models", "decoding")
"""The packages that a student reads."""

TOLERANCE = 0.1


def lines_of(*folders: str) -> int:
    """Return the number of lines of the Python files below these folders of src/headway."""
    paths = [path for folder in folders for path in (SOURCES / folder).rglob("*.py")]
    return sum(path.read_text(encoding="utf-8").count("\n") for path in paths)


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
@pytest.mark.parametrize(
    ("sentence", "folders"),
    [
        (r"[Aa] student reads ([\d,]+) lines", FOR_STUDENTS),
        (r"whole package has ([\d,]+) lines", (".",)),
    ],
)
def test_a_page_states_the_number_of_lines_within_ten_percent(page, sentence, folders):
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    (stated,) = re.findall(sentence, text)
    counted = lines_of(*folders)
    assert abs(int(stated.replace(",", "")) - counted) <= TOLERANCE * counted, (
        f"{page} says {stated} lines, counted are {counted:,}: correct the page"
    )
