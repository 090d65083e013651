"""Everything can be done from the keyboard, and is announced as text."""

import re

import pytest
from playwright.sync_api import expect

from tests.fixtures.page_views import chosen_head, eventually


def focus(page, view):
    target = (
        page.locator(".body .tokens").first
        if view == "text"
        else page.locator(".body canvas").first
    )
    target.focus()
    expect(target).to_be_focused()
    return target


@pytest.mark.turns(3)
@pytest.mark.parametrize("view", ["text", "matrix", "lines", "head", "grid", "compare"])
def test_brackets_change_the_layer_and_comma_and_full_stop_the_head(opened, view):
    page = opened("all", f"view={view}&layer=0&head=0")
    focus(page, view)
    for key in ("]", "]", "[", ".", ".", ","):
        page.keyboard.press(key)
    eventually(page, lambda: chosen_head(page) == (1, 1))
    for _ in range(9):
        page.keyboard.press("]")
        page.keyboard.press(",")
    eventually(page, lambda: chosen_head(page) == (3, -1))


def test_arrows_move_the_cross_of_the_matrix(opened):
    page = opened("all", "view=matrix&query=2&key=2")
    focus(page, "matrix")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
    tip = page.locator(".body .tip").first
    expect(tip).to_contain_text("light\u2069” → “\u2068##house")
    page.keyboard.press("End")
    expect(tip).to_contain_text("→ “\u2068[SEP]")
    page.keyboard.press("Home")
    expect(tip).to_contain_text("→ “\u2068[CLS]")
    page.keyboard.press("Enter")
    expect(page.locator("h2#view-title")).to_have_text("Text")


def test_arrows_move_through_the_text(opened):
    page = opened("all", "view=text&query=5")
    focus(page, "text")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".token.pinned")).to_have_text("counted")
    page.keyboard.press("Home")
    expect(page.locator(".token.pinned")).to_have_text("[CLS]")
    page.keyboard.press("End")
    expect(page.locator(".token.pinned")).to_have_text("[SEP]")
    expect(page.locator(".sentence")).to_contain_text("[SEP]")


def test_arrows_move_over_the_heads_and_enter_opens_one(opened):
    page = opened("all", "view=grid&layer=0&head=0")
    focus(page, "grid")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
        page.wait_for_timeout(60)
    expect(page.locator(".body [aria-live]")).to_contain_text("Layer 2, head 2")
    page.keyboard.press("Enter")
    expect(page.locator("h2#view-title")).to_have_text("Matrix")


def test_arrows_move_over_patches(opened):
    page = opened("all", "view=image&frame=5&query=2")
    focus(page, "image")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".sentence")).to_contain_text("row 2, col 2")


def test_tab_alone_reaches_the_canvas(opened):
    page = opened("all", "view=matrix")
    focused = []
    for _ in range(60):
        page.keyboard.press("Tab")
        focused.append(
            page.evaluate(
                "document.activeElement.tagName + ' ' + document.activeElement.textContent"
            )
        )
        if focused[-1].startswith("CANVAS"):
            break
    assert focused[-1].startswith("CANVAS"), focused
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_arrow_keys_follow_the_direction_of_right_to_left_text(opened):
    page = opened("hostile", "view=text&query=2")
    text = focus(page, "text")
    text.evaluate("element => element.dir = 'rtl'")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".token.pinned")).to_have_text("مرحبا")


def test_single_key_shortcuts_can_be_switched_off_and_the_browser_remembers_it(opened):
    """WCAG 2.1.4: speech input and a slip of the hand press single keys, too."""
    page = opened("all", "view=text")
    chosen = page.locator("nav button[aria-current]")
    first = chosen.inner_text()
    page.keyboard.press("n")
    expect(chosen).not_to_have_text(first)
    page.keyboard.press("p")
    expect(chosen).to_have_text(first)
    page.get_by_text("Keys", exact=True).click()
    switch = page.get_by_label("Single-key shortcuts")
    switch.uncheck()
    page.locator("h1").click()
    page.keyboard.press("n")
    page.keyboard.press("f")
    expect(chosen).to_have_text(first)
    expect(page.locator("html")).not_to_have_class(re.compile("presenter"))
    page.reload()
    page.locator("nav button[aria-current]").wait_for()
    expect(switch).not_to_be_checked()
    page.keyboard.press("n")
    expect(chosen).to_have_text(first)
    page.get_by_text("Keys", exact=True).click()
    switch.check()
    page.locator("h1").click()
    page.keyboard.press("n")
    expect(chosen).not_to_have_text(first)


def test_a_page_that_may_store_nothing_has_its_shortcuts(opened):
    page = opened(
        "all",
        "view=text",
        script="Object.defineProperty(window, 'localStorage', {get() { throw new Error('no'); }})",
    )
    chosen = page.locator("nav button[aria-current]")
    first = chosen.inner_text()
    page.get_by_text("Keys", exact=True).click()
    switch = page.get_by_label("Single-key shortcuts")
    expect(switch).to_be_checked()
    switch.uncheck()
    page.locator("h1").click()
    page.keyboard.press("n")
    expect(chosen).to_have_text(first)
    page.close()
