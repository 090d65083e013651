"""Every view in a real browser shows the numbers of the document, and reacts to input."""

import re

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

from headway.inspection.document import Document, Frame, Maps, Side
from headway.inspection.page import encode, write_page
from tests.fixtures.documents import (
    ENGLISH,
    SOURCE,
    TARGET,
    caption_frame,
    encoder_frame,
    image_frame,
    translator_frame,
)
from tests.fixtures.page_views import OF_WEIGHTS, VIEWS, choose_head, eventually, settle


def sentence(page):
    settle(page)
    return (
        page.locator(".sentence")
        .inner_text()
        .replace("\u2068", "")
        .replace("\u2069", "")
        .replace("\u00a0", " ")
    )


def top_rows(page):
    settle(page)
    expect(page.locator("table.top tbody tr").first).to_be_visible()
    return page.locator("table.top tbody tr").evaluate_all(
        """rows => rows.map(({cells: [token, position, weight]}) =>
            [token.textContent, Number(position.textContent), weight.textContent])"""
    )


def num_colours(canvas):
    """Return the number of colours that a canvas shows."""
    return canvas.evaluate("""(canvas) => {
        const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return new Set(new Uint32Array(data.buffer)).size;
    }""")


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_opens_from_its_address_and_shows_something(opened, view):
    page = opened("all", f"view={view}&{VIEWS[view]}")
    expect(page.locator("nav button[aria-current]")).to_have_count(1)
    expect(page.locator("h2#view-title")).not_to_be_empty()
    expect(page.locator(".lead")).not_to_be_empty()
    caution = page.locator(".caution")
    expect(caution).to_be_visible(visible=view in (*OF_WEIGHTS, "model"))
    body = page.locator(".body")
    if view in {"text", "experts", "predictions", "lens", "what-if", "walk"}:
        expect(
            body.locator(".token, .bars li, .lens button, .heads td, .numbers td").first
        ).to_be_visible()
    else:
        canvas = body.locator("canvas").first
        expect(canvas).to_be_visible()
        eventually(page, lambda: num_colours(canvas) > 10)
    assert f"view={view}" in page.url
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.turns(2)
@pytest.mark.parametrize("view", ["text", "matrix", "lines", "head", "grid"])
@pytest.mark.parametrize("layer, head, query", [(1, 4, 7), (3, 0, 12)])
def test_the_ten_largest_weights_are_those_of_the_document(opened, view, layer, head, query):
    row = encoder_frame("", seed=1).maps[0].weights[layer][head, query]
    page = opened("all", f"view={view}&layer={layer}&head={head}&query={query}")
    best = row.argsort(descending=True)[:10].tolist()
    shown = top_rows(page)
    # Two nearly equal weights may be in either order: they differ by one byte at most.
    assert [
        abs(float(row[position - 1] - row[expected])) < 0.008
        for (_, position, _), expected in zip(shown, best, strict=True)
    ] == [True] * len(shown)
    assert shown[0][:2] == [ENGLISH[best[0]], best[0] + 1]
    # Weights have eight bits: the error is half a step at most.
    first = float(shown[0][2].split("\u00a0")[0])
    assert abs(first / 100 - float(row[best[0]])) < 0.0095
    assert sentence(page).startswith(f"“{ENGLISH[query]}” attends to “{ENGLISH[best[0]]}” ")


def test_the_mean_over_heads_is_shown(opened):
    mean = encoder_frame("", seed=1).maps[0].weights[2].mean(0)[5]
    page = opened("all", "view=text&layer=2&head=-1&query=5")
    (_, position, shown), *_ = top_rows(page)
    assert position - 1 == int(mean.argmax())
    assert abs(float(shown.split("\u00a0")[0]) / 100 - float(mean.max())) < 0.015


def test_columns_are_keys_and_rows_are_queries(opened):
    """The cross-attention map is 9 x 8, so a swapped axis would show another token, or none."""
    weights = translator_frame().maps[1].weights[1][2]
    page = opened("all", "view=matrix&frame=3&map=cross&layer=1&head=2")
    canvas = page.locator(".body canvas").first
    settle(page)
    width, height = map(float, canvas.get_attribute("data-cell").split())
    for query, key in ((0, 7), (8, 0), (6, 3)):
        canvas.hover(position={"x": 92 + (key + 0.5) * width, "y": 74 + (query + 0.5) * height})
        tip = page.locator(".tip").first
        expect(tip).to_contain_text(
            re.compile(f"{re.escape(TARGET[query])}.*→.*{re.escape(SOURCE[key])}")
        )
        shown = tip.inner_text().split(": ")[1]
        assert abs(number(shown) - float(weights[query, key])) < 0.0095


def number(words):
    return 0.0 if words.startswith("<") else float(words.split("\u00a0")[0]) / 100


def test_masked_cells_are_grey_and_their_tooltip_gives_the_reason(opened):
    page = opened("all", "view=matrix&frame=3&map=decoder&query=2&key=5")
    expect(page.locator(".tip").first).to_contain_text("the key comes later")
    settle(page)
    masked, unmasked = page.locator(".body canvas").first.evaluate("""(canvas) => {
        const sharp = devicePixelRatio;
        const [width, height] = canvas.dataset.cell.split(" ").map(Number);
        const ctx = canvas.getContext("2d");
        const offset = (start, at, cell) => (start + (at + 0.15) * cell) * sharp;
        const at = (t, s) => ctx.getImageData(offset(92, s, width), offset(74, t, height), 1, 1)
            .data.slice(0, 3).join();
        return [[at(0, 8), at(3, 7), at(6, 7)], [at(8, 8), at(5, 5)]];
    }""")
    assert set(masked) == {"233,231,225"}
    assert "233,231,225" not in unmasked


def test_zooming_in_shows_fewer_cells(opened):
    page = opened("all", "view=matrix&layer=1&query=4&key=4")
    canvas = page.locator(".body canvas").first
    settle(page)
    before = canvas.evaluate("canvas => canvas.toDataURL()")
    page.get_by_role("button", name="Zoom in").click()
    eventually(page, lambda: canvas.evaluate("canvas => canvas.toDataURL()") != before)
    page.get_by_role("button", name="Whole map").click()
    eventually(page, lambda: canvas.evaluate("canvas => canvas.toDataURL()") == before)


def test_one_state_is_shared_by_all_views(opened):
    page = opened("all", "view=text&layer=0&head=0")
    page.locator(".token", has_text="keeper").click()
    choose_head(page, 1, 1)
    before = sentence(page)
    assert before.startswith("“keeper” attends to")
    for view in ("All heads", "Matrix", "Lines", "Inside a head"):
        page.locator("nav").get_by_role("button", name=view, exact=True).click()
        expect(page.locator("h2#view-title")).to_have_text(view)
        assert sentence(page) == before
    eventually(page, lambda: all(x in page.url for x in ("layer=1", "head=1", "query=5")))
    page.reload()
    expect(page.locator(".sentence")).to_contain_text("attends to")
    assert sentence(page) == before


def test_a_measure_beside_attention_can_be_chosen(opened):
    page = opened("all", "view=matrix&layer=1")
    attention = sentence(page)
    page.get_by_role("button", name="value-weighted").click()
    expect(page.locator(".lead")).to_contain_text("rows do not sum to 100 %")
    assert sentence(page) != attention and "%" not in sentence(page)
    page.get_by_role("button", name="rollout").click()
    expect(page.locator(".lead")).to_contain_text("100 %")
    page.get_by_role("button", name="gradient x input").click()
    expect(page.locator("h2#view-title")).to_have_text("Text")
    scores = encoder_frame("", seed=1).attributions[0].scores
    best = max(range(len(scores)), key=lambda at: abs(scores[at]))
    assert top_rows(page)[0][:2] == [ENGLISH[best], best + 1]
    page.get_by_role("combobox", name="Prediction").select_option("1")
    scores = encoder_frame("", seed=1).attributions[1].scores
    best = max(range(len(scores)), key=lambda at: abs(scores[at]))
    expect(page.locator(".sentence")).to_contain_text("For “slept”")
    assert top_rows(page)[0][:2] == [ENGLISH[best], best + 1]


def test_tokens_are_joined_into_words_and_their_weights_added(opened):
    row = encoder_frame("", seed=1).maps[0].weights[0][0, 6]
    page = opened("all", "view=text&layer=0&head=0&query=6")
    expect(page.locator(".token")).to_have_count(16)
    page.get_by_label("Join tokens into words").check()
    expect(page.locator(".token")).to_have_count(15)
    word = page.locator(".token", has_text="lighthouse")
    expect(word).to_have_attribute("title", re.compile("%"))  # it is tinted after it is written
    shown = number(word.get_attribute("title"))
    assert abs(shown - float(row[3] + row[4])) < 0.012


def test_the_direction_of_attention_can_be_reversed(opened):
    column = encoder_frame("", seed=1).maps[0].weights[2][3, :, 5]
    page = opened("all", "view=text&layer=2&head=3&key=5")
    page.get_by_role("combobox", name="Direction").select_option("to")
    expect(page.locator(".sentence")).to_contain_text("is attended to by")
    position = top_rows(page)[0][1]
    assert abs(float(column[position - 1] - column.max())) < 0.008


def test_lines_are_few_and_stop_at_the_chosen_mass(opened, tmp_path):
    page = opened("all", "view=lines&layer=3")
    page.get_by_role("combobox", name="Lines of").select_option("all")
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    download.value.save_as(tmp_path / "lines.csv")
    rows = [
        line.split(",") for line in (tmp_path / "lines.csv").read_text("utf-8-sig").splitlines()[1:]
    ]
    weights = encoder_frame("", seed=1).maps[0].weights[3][0]
    for query in range(len(ENGLISH)):
        of_query = sorted(
            (float(row[-1]) for row in rows if row[0] == str(query + 1)), reverse=True
        )
        assert sum(of_query) >= 0.6 * float(weights[query].sum()) - 0.02
        assert sum(of_query[:-1]) < 0.6 + 0.02


def test_the_alignment_names_the_source_word_with_the_largest_weight(opened):
    page = opened("all", "view=alignment&frame=3&map=cross&head=-1&layer=2&query=3")
    mean = translator_frame().maps[1].weights[2].mean(0)[3]
    assert f"“{SOURCE[int(mean.argmax())]}”" in sentence(page).split("attends to")[1][:20]
    page.get_by_role("button", name="beam 2").click()
    second_beam = translator_frame("", seed=8).maps[1].weights[2].mean(0)[3]
    expect(page.locator(".others [aria-pressed=true]")).to_have_text("beam 2")
    assert f"“{SOURCE[int(second_beam.argmax())]}”" in sentence(page).split("attends to")[1][:20]


def test_a_patch_of_an_image_can_be_clicked(opened):
    page = opened("all", "view=image&frame=5&query=0")
    canvas = page.locator(".body canvas").first
    settle(page)
    # 60 of 66 rows of pixels are covered by 4 rows of patches: row 3, column 2 of 6.
    width = float(canvas.get_attribute("data-image"))
    canvas.click(position={"x": 1.5 / 6 * width, "y": 2.5 / 4 * width * 66 / 90 * 60 / 66})
    row = image_frame().maps[0].weights[0][0, 2 + 2 * 6 + 1]
    expect(page.locator(".sentence")).to_contain_text("row 3, col 2")
    position = top_rows(page)[0][1]
    assert position - 1 == int(row.argmax())
    expect(page.locator(".body .soft").first).to_contain_text("[CLS]")


def test_each_word_of_a_caption_attends_to_the_image(opened):
    page = opened("all", "view=image&frame=6")
    page.locator(".chip", has_text="sea").click()
    assert sentence(page).startswith("“sea” attends to")
    row = caption_frame().maps[0].weights[0][0, 4]
    assert top_rows(page)[0][1] - 1 == int(row.argmax())


def test_inside_a_head_the_products_add_up_to_the_score(opened):
    frame = encoder_frame("", seed=1)
    vectors = frame.maps[0].vectors[0]
    page = opened("all", "view=head&layer=0&head=2&query=5&key=3")
    score = float((vectors.q[2, 5] * vectors.k[2, 3]).sum() * vectors.scale)
    tip = page.locator(".body .tip")
    expect(tip).to_contain_text("add up to")
    shown = re.search(r"add up to (−?\d+(?:\.\d+)?)", tip.inner_text())[1]
    assert float(shown.replace("−", "-")) == pytest.approx(score, rel=0.01, abs=0.001)
    expect(page.locator(".body")).to_contain_text(
        "The softmax of these scores is equal to the weights shown here"
    )
    # Layer 2's weights are not those of its vectors: the page must not claim so.
    choose_head(page, 1, 2)
    expect(page.locator(".body")).to_contain_text("the rest is a bias")


def test_a_small_map_is_drawn_upright_at_its_cell_of_the_grid(opened, tmp_path):
    """The one large weight is in layer 2, head 3, of a 9 x 8 map: only there is the grid dark."""
    weights = [torch.full((3, 9, 8), 1 / 8) for _ in range(2)]
    weights[1][2, 6] = torch.nn.functional.one_hot(torch.tensor(2), 8)
    sides = {"q": Side(tokens=TARGET), "k": Side(tokens=SOURCE)}
    maps = [Maps(name="m", queries="q", keys="k", layers=["1", "2"], weights=weights)]
    frame = Frame(label="", model={}, sides=sides, maps=maps)
    write_page(tmp_path / "a.html", encode(Document(title="", frames=[frame])))
    page = opened(tmp_path / "a.html", "view=grid")
    settle(page)
    canvas = page.locator(".body canvas")
    x, y = canvas.evaluate(DARKEST, 1)
    width, height = map(float, canvas.get_attribute("data-cell").split())
    assert 46 + 2 * (width + 6) + width * 2 / 8 <= x <= 46 + 2 * (width + 6) + width * 3 / 8
    assert 20 + (height + 24) + height * 6 / 9 <= y <= 20 + (height + 24) + height * 7 / 9


def test_the_brightest_patch_is_the_one_with_the_weight(opened, tmp_path):
    """The weight is on row 2, column 5 of a grid of 4 x 6, after two tokens that are no patches."""
    grey = np.full((60, 90, 3), 128, np.uint8)
    side = Side(tokens=["x"] * 26, image=grey, grid=(4, 6), num_prefix_tokens=2)
    weights = torch.nn.functional.one_hot(torch.tensor(2 + 6 + 4), 26).float().repeat(1, 26, 1)
    maps = [Maps(name="m", queries="p", keys="p", layers=["1"], weights=[weights])]
    frame = Frame(label="", model={}, sides={"p": side}, maps=maps)
    write_page(tmp_path / "a.html", encode(Document(title="", frames=[frame])))
    # so narrow that the original is not beside it, which is as bright
    page = opened(tmp_path / "a.html", "view=image&query=0", width=300, height=1400)
    settle(page)
    canvas = page.locator(".body canvas").first
    x, y = canvas.evaluate(DARKEST, -1)
    width = canvas.evaluate("(canvas) => canvas.clientWidth")
    assert 4 / 6 <= x / width <= 5 / 6
    assert 1 / 4 <= y / (width * 60 / 90) <= 2 / 4


# The centre of the darkest (or, with -1, the brightest) pixels whose neighbours are equal.
DARKEST = """(canvas, sign) => {
    const {width, height} = canvas;
    const {data} = canvas.getContext("2d").getImageData(0, 0, width, height);
    const light = (x, y) => {
        const [r, g, b, a] = data.subarray((y * width + x) * 4, (y * width + x) * 4 + 4);
        return a < 255 ? NaN : sign * (r + g + b);
    };
    let least = Infinity, points = [];
    for (let y = 4; y + 4 < height; y++) {
        for (let x = 4; x + 4 < width; x++) {
            const value = light(x, y);
            const around = [light(x - 4, y), light(x + 4, y), light(x, y - 4), light(x, y + 4)];
            if (!around.every((one) => one === value)) continue;
            if (value < least) { least = value; points = []; }
            if (value === least) points.push([x, y]);
        }
    }
    return [0, 1].map((axis) => points.reduce((sum, one) => sum + one[axis], 0) / points.length);
}"""


def test_choosing_a_view_selects_its_map_and_choosing_a_map_its_view(opened):
    """The translator's first map is that of its encoder, which has no alignment."""
    page = opened("all", "view=alignment&frame=3")
    attention = page.get_by_role("combobox", name="Attention")
    expect(attention).to_have_value("cross")
    attention.select_option("encoder")
    expect(page.locator("h2#view-title")).to_have_text("Text")
    expect(attention).to_have_value("encoder")
    page.locator("nav").get_by_role("button", name="Alignment").click()
    expect(attention).to_have_value("cross")
    expect(page.locator("h2#view-title")).to_have_text("Alignment")
