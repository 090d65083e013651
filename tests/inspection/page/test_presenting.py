"""Modes without controls, the preview of heads, and words in all views."""

import re

import pytest
from playwright.sync_api import expect

from headway.inspection.document import Document, Frame, Maps, Side
from headway.inspection.page import encode, write_page
from tests.fixtures.documents import encoder_frame, heads
from tests.fixtures.page_views import choose_head, chosen_head, eventually


def test_the_bare_mode_shows_only_the_drawing_and_plays(opened):
    page = opened("all", "bare&view=text&layer=0&head=0&query=13", wait=False)
    expect(page.locator(".token.pinned")).to_have_text("slept")
    for part in ("nav", "h1", ".controls", ".tools", ".saving", ".reading", ".keys"):
        expect(page.locator(part).first).to_be_hidden()
    expect(page.locator(".token.pinned")).to_have_text("[SEP]")
    eventually(page, lambda: "head=1" in page.url)  # after the last token, the next head
    assert "bare=true" in page.url


def test_the_bare_mode_is_still_for_readers_who_prefer_no_motion(opened):
    page = opened("all", "bare&view=text&query=3", motion="reduce", wait=False)
    pinned = page.locator(".token.pinned")
    before = pinned.inner_text()
    page.wait_for_timeout(2600)
    assert pinned.inner_text() == before


def test_the_presenter_mode_has_larger_type_and_no_controls(opened):
    page = opened("all", "view=matrix")
    size = "parseFloat(getComputedStyle(document.body).fontSize)"
    before = page.evaluate(size)
    page.keyboard.press("f")
    expect(page.locator("nav")).to_be_hidden()
    expect(page.locator(".body canvas").first).to_be_visible()
    eventually(page, lambda: page.evaluate(size) > 1.3 * before)
    page.keyboard.press("n")
    expect(page.locator("h2#view-title")).to_have_text("Lines")
    page.keyboard.press("f")
    expect(page.locator("nav")).to_be_visible()


def test_pointing_at_a_head_shows_it_until_the_pointer_leaves(opened):
    page = opened("all", "view=text&layer=0&head=0&query=5")
    sentence = page.locator(".sentence")
    expect(sentence).to_contain_text("attends to")
    before = sentence.inner_text()
    canvas = page.locator(".mini canvas")
    canvas.hover(position={"x": canvas.bounding_box()["width"] - 30, "y": 70})
    expect(sentence).not_to_have_text(before)
    page.mouse.move(700, 500)
    expect(sentence).to_have_text(before)
    assert "layer=0" in page.url


def test_a_click_on_the_grid_chooses_a_head_and_arrows_move(opened):
    page = opened("all", "view=matrix&layer=0&head=0")
    choose_head(page, 2, 3)
    eventually(page, lambda: chosen_head(page) == (2, 3))
    page.mouse.move(700, 500)
    for key in ("ArrowLeft", "ArrowUp"):
        page.keyboard.press(key)
    eventually(page, lambda: chosen_head(page) == (1, 2))


@pytest.mark.parametrize("view", ["matrix", "lines"])
def test_joined_words_are_sums_over_keys_in_every_view(opened, view):
    row = encoder_frame("", seed=1).maps[0].weights[0][0, 6]
    page = opened("all", f"view={view}&layer=0&head=0&query=6&words=on")
    token = page.locator("table.top tbody tr", has_text="lighthouse")
    expect(token).to_have_count(1)
    shown = float(token.locator(".figure").inner_text().split("\u00a0")[0]) / 100
    assert abs(shown - float(row[3] + row[4])) < 0.012
    page.get_by_label("Join tokens into words").uncheck()
    expect(page.locator(".sentence")).to_contain_text("counted")


def test_the_output_differs_from_the_prompt_and_line_breaks_are_marked(opened, tmp_path):
    tokens = ["Once", " upon", "\n", "\n", "a", " time"]
    side = Side(tokens=tokens, generated=2)
    maps = [
        Maps(
            name="decoder",
            queries="text",
            keys="text",
            layers=["1"],
            weights=heads(1, 2, 6, 6, causal=True),
            causal=True,
        )
    ]
    frame = Frame(label="", model={}, sides={"text": side}, maps=maps, answer="\n\na time")
    write_page(tmp_path / "a.html", encode(Document(title="Once\nupon", frames=[frame])))
    page = opened(tmp_path / "a.html", "view=text")
    expect(page.locator("h1")).to_have_text("Once↵upon")
    expect(page.locator(".answer .output")).to_have_text("↵↵a time")
    expect(page.locator(".token.output")).to_have_count(4)
    expect(page.locator(".token.pinned")).to_have_text(re.compile("a| time"))
