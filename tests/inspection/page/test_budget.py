"""A page of twelve layers of twelve heads: limits of its size and latency."""

import gc

import pytest
import torch

from headway.inspection.document import Document, Frame, Lens, Maps, Prediction, Side
from headway.inspection.page import encode, write_page
from tests.fixtures.documents import heads
from tests.fixtures.page_views import first_paint

TOKENS = 512
OBSERVE = """
window.long = [];
new PerformanceObserver((list) => window.long.push(...list.getEntries().map((one) => one.duration)))
    .observe({type: "longtask", buffered: true});
"""
TRIES = 4  # another program may use the machine for a moment


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Write a page in which every second layer has broad attention, which compresses worst."""
    weights = []
    for layer_index in range(12):
        (layer,) = heads(1, 12, TOKENS, TOKENS, seed=layer_index)
        weights.append((layer.log() * 0.15).softmax(-1) if layer_index % 2 else layer)
    side = Side(tokens=[f"t{i}" for i in range(TOKENS)])
    names = [str(i + 1) for i in range(12)]
    maps = [Maps(name="encoder", queries="s", keys="s", layers=names, weights=weights)]
    frame = Frame(label="large", model={}, sides={"s": side}, maps=maps)
    path = tmp_path_factory.mktemp("large") / "large.html"
    encoded = encode(Document(title="large", frames=[frame]))
    size = write_page(path, encoded)
    del weights, maps, frame
    gc.collect()
    return path, size, encoded


@pytest.mark.slow
def test_all_maps_of_a_base_model_fit_in_26_megabytes(large):
    _, size, _ = large
    assert size <= 26 * 2**20


@pytest.mark.slow
def test_broad_heads_fit_too():
    """Every weight is near 1/512, with noise, so that none can be left out."""
    torch.manual_seed(1)
    weights = [torch.randn(12, TOKENS, TOKENS).mul_(0.5).softmax(-1)]
    side = Side(tokens=["t"] * TOKENS)
    maps = [Maps(name="e", queries="s", keys="s", layers=["1"], weights=weights)]
    encoded = encode(
        Document(title="", frames=[Frame(label="", model={}, sides={"s": side}, maps=maps)])
    )
    assert len(encoded.blocks["b0"]) * 12 * 4 / 3 <= 26 * 2**20


@pytest.mark.slow
@pytest.mark.parametrize("view", ["matrix", "grid"])
def test_no_task_is_long_and_a_head_is_changed_within_a_frame(opened, large, view):
    """First paint within 2 s, no task over 100 ms, a head changed in 16 ms (median)."""
    measured = []
    for _ in range(TRIES):
        page = opened(large[0], f"view={view}", script=OBSERVE)
        page.locator(".sentence", has_text="attends to").wait_for()
        page.wait_for_timeout(800)
        paint = first_paint(page)
        page.evaluate("performance.clearMeasures()")
        page.locator(".body canvas").first.focus()
        for key in [*("." * 11), *("]" * 3), *("," * 12)]:
            page.keyboard.press(key)
            page.wait_for_timeout(60)
        page.wait_for_timeout(500)
        durations = page.evaluate(
            "performance.getEntriesByName('headway draw').map((one) => one.duration)"
        )
        for other_view in ("lines", "text"):
            page.evaluate(f"location.hash = 'view={other_view}&layer=1'")
            page.wait_for_timeout(600)
            if other_view == "lines":
                page.get_by_role("combobox", name="Lines of").select_option("all")
                page.wait_for_timeout(600)
        longest = max(page.evaluate("window.long"), default=0)
        median = sorted(durations)[len(durations) // 2]
        measured.append((round(paint), round(longest), round(median, 1)))
        page.close()
        if paint <= 2000 and longest <= 100 and median <= 16:
            return
    pytest.fail(f"first paint, longest task and median of a head, in milliseconds: {measured}")


@pytest.mark.slow
def test_beyond_2048_tokens_a_coarser_map_is_drawn_that_keeps_every_large_weight(opened, tmp_path):
    length = 2304
    weights = torch.full((1, length, length), 1 / length)
    weights[0, 1500, 700] = 1.0
    side = Side(tokens=[f"t{at}" for at in range(length)])
    maps = [Maps(name="e", queries="s", keys="s", layers=["1"], weights=[weights])]
    frame = Frame(label="", model={}, sides={"s": side}, maps=maps)
    write_page(tmp_path / "long.html", encode(Document(title="", frames=[frame])))
    page = opened(tmp_path / "long.html", "view=matrix&query=3&key=3")
    page.locator(".sentence", has_text="attends to").wait_for()
    page.wait_for_timeout(1500)
    darkest = page.locator(".body canvas").first.evaluate("""(canvas) => {
        const {width, height} = canvas;
        const {data} = canvas.getContext("2d").getImageData(92, 74, width - 100, height - 80);
        const wide = width - 100, pixels = new Uint32Array(data.buffer);
        let best = 0;
        const dark = (at) => 255 * 3 - data[at * 4] - data[at * 4 + 1] - data[at * 4 + 2];
        // Away from the cross at 3, 3.
        for (let at = 0; at < pixels.length; at++) {
            if (at % wide > 20 && at / wide > 20 && dark(at) > dark(best)) best = at;
        }
        return [Math.floor(best / wide) / (height - 80), (best % wide) / wide];
    }""")
    assert abs(darkest[0] - 1500 / length) < 0.01 and abs(darkest[1] - 700 / length) < 0.01


EVENTS = """
window.events = [];
const note = (list) => window.events.push(...list.getEntries().map((one) => one.duration));
new PerformanceObserver(note)
    .observe({type: "event", durationThreshold: 16, buffered: true});
"""
POINTED = """(canvas) => {
    const {x, y, height} = canvas.getBoundingClientRect();
    return Array.from({length: 30}, (_, at) => {
        const place = {clientX: x + 70, clientY: y + 60 + (height - 120) * at / 30};
        const begin = performance.now();
        canvas.dispatchEvent(new PointerEvent("pointermove", place));
        return performance.now() - begin;
    });
}"""
"""How long the page needs for each of 30 places of the pointer, over heads and beside them."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Write a page of 200 tokens that has all parts of the picture of the model."""
    length = 200
    names = [str(i + 1) for i in range(12)]
    words = ["the", "of", "and", "a"]
    predictions = [
        Prediction(position=at, tokens=words, probabilities=[0.4, 0.3, 0.2, 0.1])
        for at in range(length)
    ]
    parts = {"attention": [0.3] * length, "feedforward": [0.6] * length}
    frame = Frame(
        label="gpt",
        model={},
        sides={"text": Side(tokens=[f"token{at}" for at in range(length)], generated=190)},
        maps=[
            Maps(
                name="decoder",
                queries="text",
                keys="text",
                layers=names,
                weights=heads(12, 12, length, length, causal=True),
            )
        ],
        predictions=predictions,
        predictions_side="text",
        updates={"decoder": [parts] * 12},
        lens=Lens(side="text", layers=["embedding", *names], predictions=[predictions] * 13),
    )
    path = tmp_path_factory.mktemp("whole") / "whole.html"
    write_page(path, encode(Document(title="whole", frames=[frame])))
    return path


@pytest.mark.slow
def test_the_picture_of_a_model_of_200_tokens_answers_each_action_within_100_milliseconds(
    opened, whole
):
    """Steps, tokens, layers, heads by keyboard, and heads under the pointer: from the event to the
    next frame."""
    measured = []
    for _ in range(TRIES):
        page = opened(whole, "view=model", script=EVENTS)
        page.locator(".part .now", has_text="reads").wait_for()
        page.wait_for_timeout(1500)
        paint = first_paint(page)
        page.evaluate("window.events.length = 0")
        canvas = page.locator(".body canvas").first
        canvas.focus()
        for key in [*["ArrowUp"] * 6, *["ArrowLeft"] * 6, *["]"] * 3, *["."] * 6]:
            page.keyboard.press(key)
            page.wait_for_timeout(100)
        page.wait_for_timeout(300)
        pointed = max(canvas.evaluate(POINTED))
        pressed = page.evaluate("Math.max(0, ...window.events)")
        measured.append((round(paint), pressed, round(pointed)))
        page.close()
        if paint <= 1000 and max(pressed, pointed) <= 100:
            return
    pytest.fail(f"first paint, slowest key and slowest move of the pointer, in ms: {measured}")
