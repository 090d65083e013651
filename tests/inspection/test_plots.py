"""Plots as files: complete, reproducible, and refused if they would be wrong."""

import math
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch

from headway.base.errors import UsageError
from headway.inspection import plots, principal_components
from headway.inspection.plots import (
    Panel,
    confusion_matrix,
    grouped_bars,
    line_plot,
    plot_attention_maps,
    scatter,
)

NAMES = {"title": "quality", "x_label": "minutes", "y_label": "BLEU"}
LINES = {"rnn": [(1.0, 2.0), (2.0, 3.0)], "transformer": [(1.0, 4.0), (2.0, 5.0)]}
PANEL = Panel("model", ["der", "Hund"], ["the", "old", "dog"], [[0.9, 0.1, 0.0], [0.0, 0.2, 0.8]])


def draw_lines(path):
    line_plot(path, LINES, **NAMES)


def draw_powers(path):
    """Logarithmic axes of many decades, and of less than one."""
    powers = [(1e-5, 20.0), (1e-3, 30.0), (0.1, 90.0)]
    line_plot(path, {"loss": powers}, **NAMES, log_x=True, log_y=True)


def draw_bars(path):
    grouped_bars(path, ["1-5", "6-9"], {"rnn": [1.0, None], "transformer": [2.0, 3.0]}, **NAMES)


def draw_attention(path):
    plot_attention_maps(path, [PANEL, PANEL])


def draw_scatter(path):
    points = [(0.0, 0.0), (0.001, 0.0), (1.0, 1.0)]
    scatter(path, points, ["great", "awesome", "pizza"], title="words", groups=["a", "a", "b"])


DRAWINGS = {
    draw_lines: {"quality", "minutes", "BLEU", "rnn", "transformer"},
    draw_powers: {"1e−05", "1e−03", "1e−01", "30", "loss"},
    draw_bars: {"quality", "minutes", "BLEU", "rnn", "transformer", "1-5", "6-9"},
    draw_attention: {"model", "der", "Hund", "the", "old", "dog", "weight"},
    draw_scatter: {"great", "awesome", "pizza", "words", "a", "b"},
}


@pytest.mark.turns(3)
@pytest.mark.parametrize("ending", [".svg", ".png", ".pdf"])
@pytest.mark.parametrize("draw", DRAWINGS)
def test_the_same_plot_is_written_as_the_same_bytes(draw, ending, tmp_path):
    first, second = tmp_path / f"one{ending}", tmp_path / f"other{ending}"
    draw(first)
    draw(second)
    assert first.read_bytes() == second.read_bytes()
    assert len(first.read_bytes()) > 1000


@pytest.mark.parametrize("draw", DRAWINGS)
def test_every_label_is_in_the_plot_as_text(draw, tmp_path):
    draw(tmp_path / "x.svg")
    texts = {
        element.text
        for element in ElementTree.parse(tmp_path / "x.svg").iter()
        if element.tag.endswith("text")
    }
    assert DRAWINGS[draw] <= texts


def test_many_points_have_no_labels_and_many_groups_are_distinguishable(tmp_path):
    points = [(float(i), float(i * i % 7)) for i in range(40)]
    groups = [f"group {i % 10}" for i in range(40)]
    scatter(tmp_path / "x.svg", points, [""] * 40, title="texts", groups=groups)
    svg = (tmp_path / "x.svg").read_text()
    assert all(f">group {i}<" in svg for i in range(10))
    # a marker is defined once for each shape and colour, in the drawing and again in the legend
    markers = {line for line in svg.split("\n") if "<use " in line and "fill: #0072b2" in line}
    assert len({line.split("xlink:href=")[1].split('"')[1] for line in markers}) >= 2
    with pytest.raises(ValueError, match="nan"):
        scatter(tmp_path / "y.svg", [(1.0, 1.0), (math.nan, 0.0), (0.0, 0.0)], [""] * 3, title="t")


def test_an_empty_bar_is_left_out(tmp_path):
    counts = []
    for missing in (None, 2.0):
        path = tmp_path / f"{missing}.svg"
        grouped_bars(path, ["a", "b"], {"x": [1.0, missing]}, **NAMES)
        counts.append(path.read_text().count('id="patch_'))
    assert counts[1] == counts[0] + 1


def test_characters_that_the_font_lacks_are_written_as_text_without_a_warning(tmp_path):
    panel = Panel("日本", ["犬"], ["dog"], [[1.0]])
    for ending in plots.ENDINGS:
        plot_attention_maps(tmp_path / f"x{ending}", [panel])
    assert "犬" in (tmp_path / "x.svg").read_text(encoding="utf-8")


@pytest.mark.turns(3)
@pytest.mark.parametrize("word", ["$\\frac$", "\ud800", "a\x01b", "a$b$c", "_hidden", "a\tb"])
def test_any_label_is_drawn_verbatim(word, tmp_path):
    shown = word.replace("\x01", "\ufffd").replace("\ud800", "\ufffd").replace("\t", " ")
    for ending in plots.ENDINGS:
        line_plot(tmp_path / f"l{ending}", {word: [(1.0, 2.0)]}, **NAMES)
        plot_attention_maps(tmp_path / f"a{ending}", [Panel(word, [word], [word], [[1.0]])])
        scatter(tmp_path / f"s{ending}", [(0.0, 1.0)], [word], title=word)
    for kind in "las":
        texts = [e.text or "" for e in ElementTree.parse(tmp_path / f"{kind}.svg").iter()]
        assert any(text.strip("\N{WORD JOINER}") == shown for text in texts)


def test_matplotlib_settings_of_the_user_do_not_change_the_plot(tmp_path):
    import matplotlib

    draw_lines(tmp_path / "one.svg")
    with matplotlib.rc_context({"axes.facecolor": "black", "font.size": 30}):
        draw_lines(tmp_path / "other.svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "other.svg").read_bytes()


def test_weights_outside_the_scale_are_marked_on_the_colour_bar():
    assert plots._beyond([0.0, 1.0]) == "neither" and plots._beyond([-0.1, 0.5]) == "min"
    assert plots._beyond([0.2, 1.5]) == "max" and plots._beyond([-1.0, 1.5]) == "both"


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda p: line_plot(p, {}, **NAMES), "nothing to draw"),
        (lambda p: line_plot(p, {"a": [(1.0, 1.0)], "b": []}, **NAMES), "'b' has nothing"),
        (lambda p: plot_attention_maps(p, [PANEL, Panel("e", [], [], [])]), "'e' has nothing"),
        (lambda p: line_plot(p, {"a": [(1.0, math.nan)]}, **NAMES), "'a' has the value nan"),
        (lambda p: line_plot(p, {"a": [(1.0, math.inf)]}, **NAMES), "'a' has the value inf"),
        (lambda p: line_plot(p, {"a": [(0.0, 1.0)]}, **NAMES, log_x=True), "logarithmic"),
        (lambda p: line_plot(p, {"a": [(1.0, -1.0)]}, **NAMES, log_y=True), "logarithmic"),
        (lambda p: grouped_bars(p, ["a"], {"x": [1.0, 2.0]}, **NAMES), "2 values for 1 groups"),
        (lambda p: plot_attention_maps(p, []), "between 1 and 12"),
        (lambda p: plot_attention_maps(p, [Panel("m", ["a"], ["b"], [[1.0, 0.0]])]), "1 x 1"),
        (lambda p: scatter(p, [(0.0, 0.0)], [], title="t"), "must be equal"),
    ],
)
def test_data_that_cannot_be_drawn_is_refused_and_nothing_is_written(draw, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        draw(tmp_path / "x.svg")
    assert not list(tmp_path.iterdir())


def test_an_unknown_file_format_and_a_missing_matplotlib_are_refused(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match=r"\.svg, \.png or \.pdf"):
        draw_lines(tmp_path / "x.jpg")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match="plots need matplotlib"):
        draw_lines(tmp_path / "x.svg")


def test_labels_of_near_points_do_not_overlap():
    points = [(0.0, 0.0), (0.001, 0.001), (0.002, 0.0), (1.0, 1.0)]
    offsets = plots._label_offsets(points, ["great", "awesome", "super", "pizza"])
    assert len(set(offsets[:3])) == 3


def test_principal_components_equal_numpys_and_preserve_distances():
    points = torch.randn(9, 5)
    components = principal_components(points, 3)
    exact = points.double()
    centred = (exact - exact.mean(0)).numpy()
    _, values, _ = np.linalg.svd(centred, full_matrices=False)
    np.testing.assert_allclose(components.pow(2).sum(0).sqrt().numpy(), values[:3], rtol=1e-9)
    flat = torch.randn(7, 2).double() @ torch.linalg.qr(torch.randn(5, 5).double())[0][:2]
    assert torch.allclose(
        torch.cdist(principal_components(flat), principal_components(flat)),
        torch.cdist(flat, flat),
    )
    assert torch.equal(principal_components(points, 3), components)
    with pytest.raises(ValueError, match="count=6"):
        principal_components(points, 6)


def test_a_confusion_matrix_names_its_classes_and_writes_its_counts(tmp_path):
    path = tmp_path / "c.svg"
    confusion_matrix(path, [[5, 0], [31, 47]], ["ant", "bee & co"], title="83 images")
    texts = [node.text for node in ElementTree.parse(path).iter() if node.tag.endswith("}text")]
    for label in ("ant", "bee & co", "5", "31", "47", "true", "predicted", "83 images"):
        assert label in texts
    assert "0" not in texts
    with pytest.raises(ValueError, match="must be 2 x 2"):
        confusion_matrix(path, [[5, 0]], ["ant", "bee"], title="")
    many = [[int(i == j) * 777 for i in range(31)] for j in range(31)]
    confusion_matrix(path, many, [str(i) for i in range(31)], title="many")
    assert "777" not in path.read_text()
