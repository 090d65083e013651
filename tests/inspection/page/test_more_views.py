"""Views without an attention map: predictions, lens, beams, checkpoints, walk, report, what-if."""

from dataclasses import replace

import pytest
import torch
from playwright.sync_api import expect

from headway.inspection.document import Attribution, Document, Frame, Maps, Prediction
from headway.inspection.page import NotebookPage, encode, write_page
from tests.fixtures.documents import TARGET, caption_frame, encoder_frame, report, walk
from tests.fixtures.page_views import eventually

INKED = """(canvas, [from, to]) => {
  const sharp = canvas.width / canvas.clientWidth;
  const {data} = canvas.getContext("2d").getImageData(
    from * sharp, 0, (to - from) * sharp, canvas.height);
  return data.filter((value, at) => at % 4 === 3 && value).length;
}"""
"""The number of pixels of a canvas between two columns that something is drawn on."""


def test_predictions_of_the_chosen_position_are_sorted_by_probability(opened):
    page = opened("all", "view=predictions")
    frame = encoder_frame("", seed=1)
    page.locator(".chip").first.click()
    expect(page.locator(".body h3")).to_contain_text("At position 7")
    first = page.locator(".bars li").first
    expect(first).to_contain_text("ships")
    expect(first).to_contain_text(f"{frame.predictions[0].probabilities[0] * 100:.0f}")


def test_the_lens_shows_the_alternatives_of_a_cell(opened):
    page = opened("all", "view=lens")
    expect(page.locator("table.lens tbody tr")).to_have_count(5)
    page.locator('[data-cell="2 9"]').click()
    expect(page.locator(".detail h3")).to_contain_text("After layer 2, at position 10, ")
    expect(page.locator(".detail li")).to_have_count(5)


def test_the_experts_of_a_layer_show_their_tokens_what_they_read_and_what_changes(opened):
    page = opened("all", "view=experts")
    mixture = encoder_frame().mixtures[1]
    page.locator(".tools label", has_text="Layer").locator("select").select_option("1")
    numbers = page.locator(".routed sub").all_inner_texts()
    assert numbers == [str(chosen[0] + 1) for chosen in mixture.chosen]
    page.get_by_role("button", name="Expert 3").click()
    expect(page.locator(".routed .read")).to_have_count(sum(2 in one for one in mixture.chosen))
    row = page.locator("table.experts tbody tr").nth(2)
    expect(row).to_contain_text("30\u00a0%")
    expect(row).to_contain_text("ships  fog")
    expect(row).to_contain_text("1 of 2")
    detail = page.locator(".detail")
    expect(detail.locator("h3")).to_have_text("Expert 3 of layer 4")
    expect(detail).to_contain_text("falls by 0.5. Other predictions:")
    expect(detail.locator(".falls li")).to_have_text("at position 9, “⁨ships⁩”: ships → boats")


def test_the_search_tree_shows_a_path_as_text(opened):
    page = opened("all", "view=beams&frame=3")
    tip = page.locator(".body .tip")
    expect(tip).to_contain_text(" ".join(TARGET))
    expect(tip).to_contain_text(", output")
    page.locator(".body canvas").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(tip).to_contain_text("<s> le (")
    page.keyboard.press("ArrowDown")
    expect(tip).to_contain_text("<s> et (")
    expect(tip).to_contain_text("kept")


def test_the_search_tree_grows_and_shows_pruned_hypotheses_on_request(opened):
    page = opened("all", "view=beams&frame=3")
    tip, canvas = page.locator(".body .tip"), page.locator(".body canvas")
    expect(tip).to_contain_text(", output")
    height = canvas.bounding_box()["height"]
    page.get_by_label("Show pruned hypotheses").check()
    eventually(page, lambda: canvas.bounding_box()["height"] > height)
    page.get_by_label("Steps").fill("1")
    expect(tip).to_contain_text("<s> le (")
    page.get_by_label("Steps").fill("2")
    expect(tip).not_to_contain_text("<s> le (")


def test_a_slider_selects_the_frame(opened):
    page = opened("all", "view=time")
    slider = page.locator(".scrub input")
    expect(slider).to_have_attribute("max", "2")
    expect(page.locator(".sentence")).to_contain_text("attends to")
    before = page.locator(".sentence").inner_text()
    slider.fill("2")
    expect(page.locator(".scrub output")).to_have_text("step 900")
    expect(page.locator(".sentence")).not_to_have_text(before)


def test_the_comparison_shows_the_difference_of_two_frames(opened):
    page = opened("all", "view=compare&layer=2&head=1&query=4&other=2")
    first, second = (encoder_frame("", seed=n).maps[0].weights[2][1, 4] for n in (1, 9))
    change = (second - first).abs()
    tip = page.locator(".body .tip")
    expect(tip).to_contain_text("changes most at")
    position = int(change.argmax())
    sign = "+" if second[position] > first[position] else "−"
    expect(tip).to_contain_text(
        f"{encoder_frame().sides['sentence'].tokens[position]}\u2069” {sign}"
    )
    page.get_by_role("combobox", name="Compare with").select_option("3")
    expect(page.locator(".body")).to_contain_text("different numbers of tokens")


def test_the_walk_shows_each_step_with_its_arrays(opened):
    page = opened("all", "view=walk")
    first = walk()[0].arrays[0].values
    expect(page.locator(".step h3")).to_have_text("1. Embedding")
    expect(page.locator(".equation")).to_have_text("x_i = E[w_i]")
    expect(page.locator(".step caption")).to_have_text("x 15 × 64, shown: 5 × 8")
    cell = page.locator(".numbers tbody tr").nth(2).locator("td").nth(4).inner_text()
    assert float(cell.replace("−", "-")) == pytest.approx(float(first[2, 4]), rel=0.006)
    page.get_by_role("button", name="Next").click()
    expect(page.locator(".step h3")).to_have_text("2. Weights")
    expect(page.locator(".step h3")).to_be_focused()
    expect(page.locator(".source")).to_contain_text("attention/dot.py:30")
    expect(page.get_by_role("button", name="Next")).to_be_disabled()


def test_a_file_shows_the_measured_importance_of_each_head(opened):
    page = opened("all", "view=what-if")
    importance = encoder_frame("", seed=1).importance["encoder"]
    cell = page.locator("table.heads tbody tr").nth(2).locator("td").nth(3).inner_text()
    assert float(cell.replace("−", "-")) == pytest.approx(importance[2][3], rel=0.06)
    expect(page.locator("table.heads caption")).to_contain_text("log probability")
    expect(page.locator("table.heads input")).to_have_count(0)
    # The other frame's predictions at the same position, as differences.
    expect(page.locator(".deltas").first.locator("li")).to_have_count(5)


def test_the_report_shows_curves_samples_and_settings(opened):
    page = opened("all", "view=report")
    expect(page.locator("figure canvas")).to_have_count(2)
    loss = page.locator("figure").first
    loss.locator("canvas").focus()
    page.keyboard.press("Home")
    expect(loss.locator("figcaption")).to_have_text("Step 0: training 8.2, validation 8.5")
    expect(page.locator(".sample")).to_contain_text(" ".join(TARGET[:8]))
    page.get_by_role("slider", name="Step").fill("0")
    expect(page.locator(".sample p").nth(1)).to_have_text(TARGET[0])
    expect(page.locator(".report")).to_contain_text("optimizer.lr")


@pytest.mark.parametrize(
    "order, first", [("kind", None), ("entropy", "low"), ("importance", "high")]
)
def test_heads_can_be_sorted_by_pattern_entropy_and_importance(opened, order, first):
    page = opened("all", "view=grid")
    page.get_by_label("Order").select_option(order)
    canvas = page.locator(".body canvas")
    canvas.focus()
    page.keyboard.press("Home")
    status = page.locator(".body [aria-live]")
    if order == "importance":
        values = encoder_frame("", seed=1).importance["encoder"]
        layer, head = max(
            ((a, b) for a in range(4) for b in range(6)), key=lambda at: values[at[0]][at[1]]
        )
        expect(status).to_contain_text(f"Layer {layer + 1}, head {head + 1},")
    elif order == "kind":
        expect(status).to_contain_text("previous token 0.9")
    else:
        # the page reacts to a key after the next line runs, so the test waits for each reaction
        expect(status).to_contain_text("Layer 4, head 3,")
        low = status.inner_text()
        page.keyboard.press("End")
        expect(status).not_to_have_text(low)
        assert entropy_in(low) < entropy_in(status.inner_text())


def entropy_in(status):
    return float(status.split("entropy ")[1].split(",")[0].rstrip("."))


def test_a_report_needs_no_frame_and_predictions_need_no_map(opened, tmp_path):
    write_page(tmp_path / "a.html", encode(Document(title="a run", frames=[]), report=report()))
    page = opened(tmp_path / "a.html")
    expect(page.locator("h2#view-title")).to_have_text("Training")
    expect(page.locator("figure canvas")).to_have_count(2)
    prediction = Prediction(position=0, tokens=["moon"], probabilities=[0.5])
    frame = Frame(label="x", model={}, sides={}, maps=[], predictions=[prediction])
    write_page(tmp_path / "b.html", encode(Document(title="words", frames=[frame])))
    page = opened(tmp_path / "b.html", "view=matrix")
    expect(page.locator("h2#view-title")).to_have_text("Predictions")
    expect(page.locator(".bars li")).to_contain_text("50")


def test_a_film_shows_output_attention_and_loss_of_each_moment(opened, tmp_path):
    frames = [
        replace(encoder_frame(), importance={}, label=f"step {n}", answer=f"answer {n}")
        for n in (0, 5, 90)
    ]
    film = {"input": "a text", "reference": "answer", "steps": [0, 5, 90], "losses": [None, 3, 1]}
    once = {"title": "Held out: F1", "lines": [{"name": "F1", "steps": [90], "values": [0.5]}]}
    line = {"name": "chrf", "steps": [5, 90], "values": [0.0, 7e-15]}
    short = {"name": "a", "steps": [5, 6], "values": [0.0, 1e-15]}
    twice = {"title": "Held out: chrf", "lines": [line, short]}
    parts = {
        **report(),
        "curves": [once, twice],
        "film": film,
        "changed": [["optimizer.lr", 0.1, 0.2]],
    }
    encoded = encode(Document(title="a run", frames=frames), report=parts)
    write_page(tmp_path / "film.html", encoded)
    page = opened(tmp_path / "film.html", "view=report&frame=1")
    shown = page.locator(".report")
    expect(shown).to_contain_text("answer 5")
    moment = page.get_by_label("Moment of the training")
    moment.press("End")
    expect(shown).to_contain_text("answer 90")
    expect(shown).to_contain_text("step 90 · loss 1")
    moment.press("Home")
    page.get_by_role("button", name="Play").click()
    expect(shown).to_contain_text("answer 90")
    # a metric that was measured once is in a table; what differs from the recipe is before the rest
    expect(shown.get_by_role("region", name="Measured once")).to_contain_text("F1")
    expect(shown.get_by_role("region", name="differ from the recipe")).to_contain_text("0.2")
    expect(page.get_by_role("button", name="Head ablation")).to_have_count(0)
    expect(shown.get_by_text("tiny")).to_be_hidden()
    # a metric has its usual name, and the long numbers of its axis are not cut off
    expect(shown.get_by_role("heading", name="Held out: chrF")).to_have_count(1)
    curve = shown.locator(".curve", has_text="Held out: chrF")
    expect(curve).to_contain_text("Step 90: chrF 7.0e−15, a 1.0e−15 (step 6)")
    curve = curve.locator("canvas")
    assert curve.evaluate(INKED, [0, 3]) == 0 and curve.evaluate(INKED, [3, 46]) > 0


def test_the_frame_in_a_notebook_shows_the_page(opened, tmp_path):
    widget = NotebookPage(encode(Document(title="in a cell", frames=[encoder_frame()])))
    path = tmp_path / "cell.html"
    path.write_text(
        f"<!doctype html><nav><button aria-current></button></nav>{widget._repr_html_()}"
    )
    page = opened(path)
    frame = page.frame_locator("iframe")
    frame.locator("nav").get_by_role("button", name="Matrix").click()
    expect(frame.locator(".sentence")).to_contain_text("attends to")
    expect(frame.locator("h2#view-title")).to_have_text("Matrix")


def captioner_page(path, measures=()):
    """Write the page of a captioner: its words attend to patches and to each other."""
    frame = caption_frame()
    weights = [torch.softmax(torch.randn(2, 5, 5), -1)]
    frame.maps.append(
        Maps(name="decoder", queries="words", keys="words", layers=["1"], weights=weights)
    )
    scores = [0.1, 0.2, -0.3, 0.4, 0.5]
    attributions = [Attribution(measure=m, side="words", of="sea", scores=scores) for m in measures]
    frame = replace(frame, attributions=attributions)
    write_page(path, encode(Document(title="a", frames=[frame])))
    return path


def test_the_text_is_not_shown_for_a_map_whose_keys_are_patches(opened, tmp_path):
    page = opened("all", "view=image&frame=6")
    expect(page.get_by_role("button", name="Text", exact=True)).to_have_count(0)
    page = opened(captioner_page(tmp_path / "a.html"), "view=image&map=cross")
    page.get_by_role("button", name="Text", exact=True).click()
    expect(page.locator(".texts .token")).to_have_count(5)
    page.wait_for_url("**map=decoder**")
    page.locator("select", has_text="cross").first.select_option("cross")
    expect(page.locator("#view-title")).to_have_text("Image")


def test_attributions_to_words_are_shown_also_from_a_map_of_patches(opened, tmp_path):
    page = opened(captioner_page(tmp_path / "a.html", ["gradient x input"]), "view=image&map=cross")
    page.get_by_role("button", name="gradient x input").click()
    expect(page.locator("#view-title")).to_have_text("Text")
    expect(page.locator(".texts")).to_contain_text("the contribution of each token")


@pytest.mark.parametrize("hash_", ["view=matrix", "view=walk"])
def test_the_focus_ring_of_a_view_is_inside_the_row_that_scrolls(opened, hash_):
    page = opened("all", hash_, width=360)
    page.locator("nav button").first.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    ring = page.evaluate("""() => {
        const style = getComputedStyle(document.activeElement);
        const box = document.activeElement.getBoundingClientRect();
        const row = document.activeElement.closest("nav").getBoundingClientRect();
        const reach = parseFloat(style.outlineOffset) + parseFloat(style.outlineWidth);
        const inside = box.left - reach >= row.left && box.top - reach >= row.top;
        return {inside, shown: style.outlineStyle, bottom: box.bottom + reach <= row.bottom + 1};
    }""")
    assert ring == {"inside": True, "shown": "solid", "bottom": True}


@pytest.mark.parametrize(("query", "position"), [(6, 7), (8, 9)])
def test_the_logit_lens_and_the_predictions_open_at_the_pinned_token(opened, query, position):
    page = opened("all", f"view=lens&query={query}")
    expect(page.locator(".detail h3")).to_contain_text(f"After layer 4, at position {position}, ")
    expect(page.locator(".detail .bars li")).to_have_count(5)
    expect(page.locator("table.lens button[aria-pressed='true']")).to_have_count(1)
    page = opened("all", f"view=predictions&query={query}")
    expect(page.locator(".body h3")).to_contain_text(f"At position {position}, ")


def test_equations_are_printed_with_subscripts_and_copied_as_they_are_written(opened):
    page = opened("all", "view=walk&at=0")
    expect(page.locator(".equation sub").first).to_have_text("i")
    expect(page.locator(".equation i").first).to_have_text("x")


def test_the_first_lines_say_what_the_model_is(opened):
    page = opened("all", "view=text")
    expect(page.locator(".facts")).to_have_text(
        "encoder  ·  4 layers  ·  6 heads  ·  1,234,567 parameters"
    )


def test_a_pressed_label_shows_its_view_and_not_its_meaning(opened):
    page = opened("all", "view=text")
    tab = page.locator("nav button[data-term]").first
    tab.click()
    page.wait_for_timeout(500)
    expect(page.locator(".definition")).to_be_hidden()
    page.mouse.move(5, 5)
    tab.hover()
    expect(page.locator(".definition")).to_be_visible()
