"""The drawings of the tour: made by their code, readable, described, and one for every section."""

from __future__ import annotations

import re

import pytest

from tests.fixtures.pages import DOCS, docs_module

IMAGE = re.compile(r"!\[([^\]]*)\]\(\.\./pictures/(?:tour/)?([\w-]+)\.(?:svg|png)\)")
CHAPTERS = ("attention", "blocks", "systems")


@pytest.fixture(scope="module")
def drawings():
    """The package docs/drawings."""
    with docs_module("drawings") as module:
        yield module


def pages():
    return {path.stem: path.read_text(encoding="utf-8") for path in (DOCS / "tour").glob("*.md")}


def test_drawing_again_gives_the_same_bytes(drawings):
    files = {path.stem: path.read_text(encoding="utf-8") for path in drawings.FOLDER.iterdir()}
    assert set(files) == set(drawings.DRAWINGS)
    for name, text in files.items():
        assert drawings.drawn(name) == text, f"{name}: run python docs/drawings"


def test_every_drawing_is_on_a_page_with_a_description(drawings):
    shown = {name: text for page in pages().values() for text, name in IMAGE.findall(page)}
    assert set(drawings.DRAWINGS) <= set(shown)
    for name, description in shown.items():
        assert len(description) >= 20, f"{name}: {description!r} does not describe it"


def test_every_section_of_the_tour_has_an_equation_a_drawing_and_a_file():
    for chapter in CHAPTERS:
        text = pages()[chapter]
        for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
            where = f"docs/tour/{chapter}.md: {section.partition(chr(10))[0]}"
            assert IMAGE.search(section), f"{where}: no drawing"
            assert "```text\n" in section or "| equation |" in section, f"{where}: no equation"
            assert re.search(r"\]\(\.\./\.\./(src|examples)/", section), f"{where}: no file"


def test_every_claim_has_a_figure_and_a_verdict():
    claims = re.split(r"^## ", pages()["claims"], flags=re.MULTILINE)[1:]
    assert [claim[:3] for claim in claims] == [f"({letter})" for letter in "abcdefgh"]
    for claim in claims:
        assert IMAGE.search(claim) and "**Experiment**" in claim, claim[:60]
        assert re.search(r"\*\*(Holds|Not reproduced|Neither shown)", claim), claim[:60]


def test_text_is_large_enough_and_inside_the_drawing(drawings):
    for name in drawings.DRAWINGS:
        svg = drawings.drawn(name)
        width, height = map(float, re.search(r'viewBox="0 0 (\S+) (\S+)"', svg).groups())
        assert width <= 400, f"{name} is {width} wide, more than a phone shows"
        for x, y, kind, words in re.findall(
            r'<text x="(\S+)" y="(\S+)"(?: class="([^"]*)")?>([^<]*)</text>', svg
        ):
            half = len(words) * (6.6 if "mono" in kind else 5.6 if "small" in kind else 6.6) / 2
            left = float(x) - (0 if "start" in kind else 2 * half if "end" in kind else half)
            inside = left >= -2 and left + 2 * half <= width + 2 and 8 <= float(y) <= height
            assert inside, f"{name}: {words!r} reaches beyond the drawing"
        sizes = re.findall(r"font(?:-size)?:(\d+)px", svg)
        assert sizes and min(map(int, sizes)) >= 12


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first, second):
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("form, paper", [(0, "#ffffff"), (1, "#131416")])
def test_text_has_contrast_in_light_and_dark(drawings, form, paper):
    colours = {name: forms[form] for name, forms in drawings.kit.COLOURS.items()}
    for fill in ("plain", "attention", "feedforward", "norm", "embedding", "output", "state"):
        assert contrast(colours["ink"], colours[fill]) >= 4.5, fill
    for text in ("ink", "soft", "accent"):
        assert contrast(colours[text], paper) >= 4.5, text


def test_a_drawing_in_a_page_has_its_description_and_no_second_title(drawings):
    html = drawings.inline(drawings.drawn("masks"), 'Four "masks" & rules')
    assert 'role="img" aria-label="Four &quot;masks&quot; &amp; rules"' in html
    assert "<title>" not in html and "causal</text>" in html


def test_a_figure_of_a_claim_without_its_table_is_an_error(drawings):
    assert drawings.claims.table("(c)", "BLEU")["bilinear"] == "17.96"
    with pytest.raises(ValueError, match=r"claim \(c\) has no table with a column 'accuracy'"):
        drawings.claims.table("(c)", "accuracy")
