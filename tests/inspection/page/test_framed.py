"""The page in a sandboxed frame of another page, as the tour of the site shows it."""

import pytest
from playwright.sync_api import expect

from tests.fixtures.page_views import eventually

SANDBOX = "allow-scripts allow-downloads allow-popups allow-popups-to-escape-sandbox"


@pytest.fixture
def framed(tabs, pages, tmp_path):
    """framed(state, width) -> the frame of a page that was opened from a file."""
    page = tabs.new("")
    tabs.errors.clear()

    def open_frame(state, width):
        page.set_viewport_size({"width": width, "height": 800})
        outer = tmp_path / "outer.html"
        outer.write_text(
            f'<!doctype html><title>t</title><iframe title="A model" sandbox="{SANDBOX}" '
            f'src="{pages["all"].as_uri()}#{state}" style="width:{width - 40}px;height:640px">'
        )
        page.goto(outer.as_uri())
        frame = page.frames[1]
        frame.wait_for_selector("h2#view-title")
        return frame

    yield open_frame
    page.close()
    assert not tabs.errors


@pytest.mark.parametrize("view", ["alignment&frame=3", "image&frame=5", "matrix", "grid", "walk"])
def test_a_framed_page_runs_without_access_to_its_outer_page(framed, view):
    frame = framed(f"view={view}", 390)
    expect(frame.locator("nav [aria-current]")).to_have_count(1)
    eventually(frame.page, lambda: frame.evaluate("document.documentElement.scrollWidth") <= 350)
    assert frame.evaluate("try { parent.document.title } catch { 'denied' }") == "denied"


def test_a_framed_page_shows_its_view_first_and_keeps_the_caution_behind_its_mark(framed):
    frame = framed("view=alignment&frame=3", 1400)
    expect(frame.locator(".lead")).to_be_hidden()
    frame.locator(".caution summary").click()
    expect(frame.locator(".caution p")).to_be_visible()
    expect(frame.locator(".caution p")).to_contain_text("attention is not an explanation")


def test_a_page_of_its_own_opens_the_caution_by_keyboard(opened):
    page = opened("all", "view=alignment&frame=3")
    caution = page.locator(".caution p")
    expect(page.locator(".lead")).to_be_visible()
    expect(caution).to_be_hidden()
    page.locator(".caution summary").focus()
    page.keyboard.press("Enter")
    expect(caution).to_be_visible()
