"""No text is cut off in any view, and the page of a small model is small and fast."""

import time

import pytest

from headway.cli.inspect import InspectFlags, inspect
from tests.fixtures.bundles import translator
from tests.fixtures.page_views import VIEWS, first_paint

# Notes text that a canvas draws outside its left or right edge, with more than a rounding error.
WATCH_TEXT = """
window.outside = new Map();
const fill = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  const {a, b, c, d, e, f} = this.getTransform();
  const width = this.measureText(text).width;
  const from = {left: 0, start: 0, center: -width / 2, right: -width, end: -width}[this.textAlign];
  const ends = [from, from + width].map((by) => a * (x + by) + c * y + e);
  const heights = [from, from + width].map((by) => b * (x + by) + d * y + f);
  const {width: wide, height: high} = this.canvas;
  const out = Math.min(...ends) < -3 || Math.max(...ends) > wide + 3
    || Math.min(...heights) < -3 || Math.max(...heights) > high + 3;
  const key = `${this.canvas.getAttribute("aria-label")?.slice(0, 30)}: ${text}`;
  if (out && this.canvas.isConnected) window.outside.set(key, [...ends, wide, ...heights, high]);
  else window.outside.delete(key);
  return fill.apply(this, arguments);
};
"""
CUT = """() => [...document.querySelectorAll("#page *")].filter((one) => {
  const style = getComputedStyle(one);
  const cuts = style.overflowX === "hidden" && !one.classList.contains("unseen");
  return cuts && one.checkVisibility() && one.scrollWidth > one.clientWidth + 1;
}).map((one) => `${one.className}: ${one.textContent.slice(0, 60)}`)"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 800, 1440])
def test_no_text_is_cut_off(opened, width):
    faults = {}
    for view, state in VIEWS.items():
        page = opened("all", f"view={view}&{state}", width=width, script=WATCH_TEXT)
        page.wait_for_timeout(300)
        outside = page.evaluate("Object.fromEntries(window.outside)")
        cut = page.evaluate(CUT)
        page.close()
        if outside or cut:
            faults[view] = [outside, cut]
    assert not faults


@pytest.mark.slow
def test_the_page_of_a_small_model_is_small_fast_to_make_and_fast_to_draw(opened, tmp_path):
    translator().save(tmp_path / "model")
    html = tmp_path / "page.html"
    begin = time.process_time()
    inspect(str(tmp_path / "model"), "two dogs play", flags=InspectFlags(html=html))
    assert time.process_time() - begin <= 3 * 2  # two threads may work
    assert html.stat().st_size <= 2_000_000
    page = opened(html)
    paint = first_paint(page)
    assert paint <= 1000
