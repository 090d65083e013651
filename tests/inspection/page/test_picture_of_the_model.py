"""The picture of the whole model plays, leads to numbers, and shows what a missing head breaks."""

import re
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from headway.inspection.document import AblationEffect, Document, Prediction
from headway.inspection.page import encode, write_page
from tests.fixtures.documents import TARGET, encoder_frame, image_frame, translator_frame
from tests.fixtures.page_views import eventually, settle


def with_effects():
    """Return a translation in which cross-attention head 2 of layer 3 carries the word "vit"."""
    frame = translator_frame()
    predictions = [
        Prediction(position=at, tokens=[word, "un"], probabilities=[0.9, 0.05])
        for at, word in enumerate(TARGET)
    ]
    same = AblationEffect(probabilities=[0.9] * len(TARGET), changed={})
    broken = AblationEffect(probabilities=[0.9, 0.9, 0.2, *[0.9] * 6], changed={2: "voit"})
    effects = {"cross": [[same] * 4, [same] * 4, [same, broken, same, same]]}
    updates = {
        "encoder": [{"attention": [0.5] * 8, "feedforward": [0.2] * 8}] * 3,
        "decoder": [{name: [0.3] * 9 for name in ("attention", "cross", "feedforward")}] * 3,
    }
    return replace(
        frame,
        predictions=predictions,
        predictions_side="target",
        effects=effects,
        updates=updates,
    )


@pytest.fixture
def file(tmp_path):
    document = Document(title="a", frames=[with_effects(), translator_frame("without effects")])
    write_page(tmp_path / "a.html", encode(document))
    return tmp_path / "a.html"


def test_the_page_opens_with_the_picture(opened, file):
    page = opened(file)
    expect(page.locator("nav button[aria-current]")).to_have_text("Model")
    expect(page.locator(".part h3")).to_contain_text("cross-attention")
    expect(page.locator(".part .now")).to_contain_text(
        re.compile("”, which predicts “.+”, reads “")
    )


def test_arrows_step_through_the_computation_in_its_order(opened, file):
    page = opened(file, "view=model")
    page.locator(".body canvas").first.focus()
    for title in (
        "Input",
        *(
            f"Layer {n}: {part}"
            for n in (1, 2, 3)
            for part in ("self-attention", "feed-forward layer")
        ),
        "Input",
        "Layer 1: self-attention",
        "Layer 1: cross-attention",
    ):
        page.keyboard.press("ArrowUp")
        expect(page.locator(".part h3")).to_have_text(title)
    page.keyboard.press("ArrowDown")
    expect(page.locator(".part h3")).to_have_text("Layer 1: self-attention")
    eventually(page, lambda: "step=8" in page.url)


def test_space_plays_and_pauses(opened, file):
    page = opened(file, "view=model")
    page.locator(".body canvas").first.focus()
    page.keyboard.press(" ")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    eventually(page, lambda: "step=2" in page.url)
    page.keyboard.press(" ")
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_switching_a_head_off_shows_the_word_that_breaks(opened, file):
    page = opened(file, "view=model&map=cross&layer=2&head=1")
    page.get_by_role("button", name="Switch head 2 of layer 3 off").click()
    expect(page.locator(".falls li")).to_have_count(1)
    expect(page.locator(".falls")).to_contain_text("vit 90\u00a0% → 20\u00a0%, now “voit”")
    page.get_by_role("button", name="Head 2 on again").click()
    expect(page.locator(".falls")).to_have_count(0)


def test_a_page_without_the_effects_has_no_switch(opened, file):
    page = opened(file, "view=model&frame=1&map=cross&layer=2&head=1")
    expect(page.locator(".part h3")).to_contain_text("Layer 3")
    expect(page.get_by_role("button", name="Switch head")).to_have_count(0)


def test_a_part_leads_to_its_numbers_and_to_its_step_of_the_walkthrough(opened, file):
    page = opened(file, "view=model&map=cross&layer=1&head=0")
    page.get_by_role("button", name="Matrix", exact=True).last.click()
    expect(page.locator("h2#view-title")).to_have_text("Matrix")
    page = opened("all", "view=model&frame=0&step=0")
    expect(page.locator(".part .equation")).to_have_text("x_i = E[w_i]")
    expect(page.locator(".part code")).to_have_text("blocks/embeddings.py:40")
    page.get_by_role("button", name="The numbers, step by step").click()
    expect(page.locator(".step h3")).to_have_text("1. Embedding")


def test_pointing_at_a_head_draws_what_it_reads_for_all_tokens(opened, file):
    page = opened(file, "view=model&map=cross&layer=1&head=0")
    canvas = page.locator(".body canvas").first
    settle(page)
    before = canvas.evaluate("canvas => canvas.toDataURL()")
    height = int(canvas.bounding_box()["height"])
    for y in range(60, height - 60, 4):  # the column of head 1 of the encoder
        canvas.hover(position={"x": 32, "y": y})
        page.evaluate("new Promise((done) => requestAnimationFrame(done))")
        if canvas.evaluate("canvas => canvas.toDataURL()") != before:
            return
    raise AssertionError("pointing at the heads changes nothing")


@pytest.mark.parametrize("frame", [encoder_frame(), image_frame()])
def test_models_without_decoder_have_a_picture(opened, tmp_path, frame):
    write_page(tmp_path / "a.html", encode(Document(title="", frames=[frame])))
    page = opened(tmp_path / "a.html", "view=model&layer=1")
    expect(page.locator(".part h3")).to_have_text("Layer 2: self-attention")
