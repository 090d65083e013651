"""Drawings and charts: made by their code, readable, described, one for every section."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tests.fixtures.pages import DOCS, docs_module

IMAGE = re.compile(r"!\[([^\]]*)\]\((?:\.\./)?pictures/(?:tour/|charts/)?([\w-]+)\.(?:svg|png)\)")
CHAPTERS = ("attention", "blocks", "systems")


@pytest.fixture(scope="module")
def drawings():
    """The package docs/drawings."""
    with docs_module("drawings") as module:
        yield module


def pages():
    paths = [*(DOCS / "tour").glob("*.md"), DOCS / "results.md", DOCS / "speed.md"]
    return {path.stem: path.read_text(encoding="utf-8") for path in paths}


def all_drawings(drawings):
    return [(folder, name) for folder, names in drawings.DRAWINGS.items() for name in names]


def test_drawing_again_gives_the_same_bytes(drawings):
    paths = [path for folder in drawings.FOLDERS for path in folder.iterdir()]
    assert {(path.parent.name, path.stem) for path in paths} == set(all_drawings(drawings))
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert drawings.drawn(path.parent.name, path.stem) == text, (
            f"{path.name}: run python docs/drawings"
        )


def test_every_drawing_is_on_a_page_with_a_description(drawings):
    shown = {name: text for page in pages().values() for text, name in IMAGE.findall(page)}
    assert {name for _, name in all_drawings(drawings)} <= set(shown)
    for name, description in shown.items():
        assert len(description) >= 20, f"{name}: {description!r} does not describe it"


def test_every_section_of_the_tour_has_an_equation_a_drawing_and_a_file():
    for chapter in CHAPTERS:
        text = pages()[chapter]
        for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
            where = f"docs/tour/{chapter}.md: {section.partition(chr(10))[0]}"
            assert IMAGE.search(section), f"{where}: no drawing"
            assert "$$\n" in section or "| equation |" in section, f"{where}: no equation"
            assert re.search(r"\]\(\.\./\.\./(src|examples)/", section), f"{where}: no file"


def test_every_claim_has_a_figure_and_a_verdict():
    claims = re.split(r"^## ", pages()["claims"], flags=re.MULTILINE)[1:]
    assert [claim[:3] for claim in claims] == [f"({letter})" for letter in "abcdefghijkl"]
    for claim in claims:
        assert IMAGE.search(claim) and "**Experiment**" in claim, claim[:60]
        assert re.search(r"\*\*(Holds|Not reproduced|Neither shown)", claim), claim[:60]


def test_text_is_large_enough_and_inside_the_drawing(drawings):
    for folder, name in all_drawings(drawings):
        svg = drawings.drawn(folder, name)
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


def outside(svg):
    """The texts of a plot by matplotlib that reach beyond its sheet, by an estimate of widths."""
    root = ElementTree.fromstring(svg)
    width, height = (float(number) for number in root.get("viewBox").split()[2:])
    faults = []
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        if text.get("style") is None:  # a power of ten at an axis, in parts of two sizes
            continue
        size = float(re.search(r"([\d.]+)px", text.get("style"))[1])
        angle, x, y = map(
            float, re.search(r"rotate\((\S+) (\S+) (\S+)\)", text.get("transform")).groups()
        )
        long = 0.5 * size * len("".join(text.itertext()))
        style = text.get("style")
        before = long if "anchor: end" in style else long / 2 if "anchor: middle" in style else 0
        if round(angle) % 180 == 0:
            is_inside = (
                x - before >= -2 and x - before + long <= width + 2 and size / 2 <= y <= height
            )
        else:
            is_inside = (
                size / 2 <= x <= width and y + before <= height + 2 and y + before - long >= -2
            )
        if not is_inside:
            faults.append("".join(text.itertext()))
    return faults


def test_no_plot_has_text_that_is_clipped():
    plots = sorted((DOCS / "pictures").glob("*.svg"))
    assert plots
    for path in plots:
        assert not (faults := outside(path.read_text(encoding="utf-8"))), f"{path.name}: {faults}"


def test_clipped_text_of_a_plot_is_found():
    text = '<text style="font: 10px x; text-anchor: {}" x="{}" y="20" transform="rotate(0 {} 20)">'
    sheet = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 40">{}</svg>'
    for anchor, x, is_clipped in (("start", 40, False), ("start", 80, True), ("end", 30, True)):
        svg = sheet.format(text.format(anchor, x, x) + "ten letter</text>")
        assert bool(outside(svg)) == is_clipped, (anchor, x)


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
    for text in ("ink", "soft", "accent", "query", "key", "value"):
        assert contrast(colours[text], paper) >= 4.5, text


def test_a_drawing_in_a_page_has_its_description_and_no_second_title(drawings):
    html = drawings.inline(drawings.drawn("tour", "masks"), 'Four "masks" & rules')
    assert 'role="img" aria-label="Four &quot;masks&quot; &amp; rules"' in html
    assert "<title>" not in html and "causal</text>" in html


def test_a_figure_of_a_claim_without_its_table_is_an_error(drawings):
    assert drawings.claims.table("(c)", "BLEU")["bilinear"] == "17.96"
    with pytest.raises(ValueError, match=r"claim \(c\) has no table with a column 'accuracy'"):
        drawings.claims.table("(c)", "accuracy")
