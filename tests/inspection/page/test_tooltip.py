"""A label that is a term of the glossary shows its definition, by pointer and by keyboard."""

import re

import pytest
from playwright.sync_api import expect

from headway.inspection.glossary import sentences
from tests.fixtures.accessibility import findings
from tests.fixtures.page_views import eventually


@pytest.fixture
def page(opened):
    return opened("all", "view=matrix&layer=1")


def test_hovering_over_a_term_shows_its_sentence_until_the_pointer_leaves(page):
    tooltip = page.get_by_role("tooltip")
    expect(tooltip).to_be_hidden()
    page.locator(".chosen .term", has_text="Head").hover()
    expect(tooltip).to_have_text(sentences()["attention head"])
    term = page.locator(".chosen .term", has_text="Head")

    def is_below():
        box, label = tooltip.bounding_box(), term.bounding_box()
        return 0 <= box["y"] - label["y"] - label["height"] < 10

    eventually(page, is_below)
    tooltip.hover()
    page.wait_for_timeout(500)
    expect(tooltip).to_be_visible()
    page.mouse.move(600, 700)
    expect(tooltip).to_be_hidden()


def test_a_term_that_has_the_focus_is_described_by_its_sentence_and_escape_closes_it(page):
    tooltip = page.get_by_role("tooltip")
    page.locator("nav button", has_text="Text").focus()
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "rollout":
            break
    expect(tooltip).to_have_text(sentences()["rollout"])
    focused = page.locator("*:focus")
    expect(focused).to_have_attribute("aria-describedby", tooltip.get_attribute("id"))
    assert not findings(page)
    page.keyboard.press("Escape")
    expect(tooltip).to_be_hidden()
    expect(focused).not_to_have_attribute("aria-describedby", re.compile(""))


def test_a_term_in_the_head_of_a_table_can_be_focused(page):
    term = page.locator("table.top th .term", has_text="Token")
    term.focus()
    expect(page.get_by_role("tooltip")).to_have_text(sentences()["token"])


def is_inside(box):
    return box["x"] >= 0 and box["x"] + box["width"] <= 390


def test_a_tooltip_stays_inside_a_narrow_page(opened):
    page = opened("all", "view=matrix", width=390)
    terms = page.locator(".controls [data-term]:visible, .measures [data-term]:visible").all()
    assert len(terms) >= 5
    for term in terms:
        term.hover()
        page.wait_for_timeout(450)
        expect(page.get_by_role("tooltip")).to_be_visible()
        eventually(page, lambda: is_inside(page.get_by_role("tooltip").bounding_box()))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_pressed_view_is_shown_whole_and_no_definition_covers_it(opened):
    """The row of views scrolls under a pointer that does not move, and a bold name is wider."""
    page = opened("all", "view=matrix", width=390)
    page.wait_for_timeout(100)
    row = page.locator("nav")
    for name in ("Lines", "Inside a head", "Walkthrough"):
        pressed = row.get_by_role("button", name=name, exact=True)
        pressed.click()
        expect(pressed).to_have_attribute("aria-current", "page")
        page.wait_for_timeout(450)
        expect(page.get_by_role("tooltip")).to_be_hidden()
        frame, box = row.bounding_box(), pressed.bounding_box()
        assert box["x"] + box["width"] <= frame["x"] + frame["width"] + 0.5


def test_a_token_is_not_a_label(opened):
    """Tokens such as "key" are data: only labels of the page are marked."""
    page = opened("hostile", "view=text")
    assert page.locator(".tokens [data-term], tbody [data-term]").count() == 0
