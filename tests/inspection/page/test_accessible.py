"""axe-core reports nothing serious, in light and dark, narrow and wide; large text fits."""

import pytest

from tests.fixtures.accessibility import findings
from tests.fixtures.page_views import VIEWS, eventually, settle

SCROLLED = "document.documentElement.scrollWidth"


@pytest.mark.turns(3)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_axe_reports_nothing_serious_and_a_narrow_page_does_not_scroll(opened, view, scheme):
    """390 pixels are a telephone; 640 pixels are a page of 1,280 at 200 %."""
    page = opened("all", f"view={view}&{VIEWS[view]}", scheme=scheme)
    settle(page)
    assert not findings(page)
    for width, height in ((390, 900), (640, 450)):
        page.set_viewport_size({"width": width, "height": height})
        eventually(page, lambda limit=width: page.evaluate(SCROLLED) <= limit)
    assert page.locator("h2#view-title").is_visible()


def test_an_open_page_follows_a_change_of_the_colour_scheme(opened):
    page = opened("all", "view=matrix")
    settle(page)
    canvas = page.locator(".body canvas").first
    light = canvas.evaluate("canvas => canvas.toDataURL()")
    page.emulate_media(color_scheme="dark")
    eventually(page, lambda: canvas.evaluate("canvas => canvas.toDataURL()") != light)


def test_nothing_is_animated_with_reduced_motion(opened):
    page = opened("all", "view=text", motion="reduce")
    assert (
        page.locator(".token").first.evaluate("one => getComputedStyle(one).transitionDuration")
        == "0s"
    )
