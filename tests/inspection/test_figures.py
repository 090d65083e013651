"""The plots of the lectures show the values that their titles name."""

import pytest
import torch

from headway.base.errors import UsageError
from headway.bundle import Attention
from headway.inspection import figures
from headway.inspection.figures import (
    plot_causal_mask,
    plot_embeddings,
    plot_positions,
    plot_sentence_attention,
)


@pytest.fixture
def panels(monkeypatch):
    """Return the list of panels that would be drawn."""
    panels_drawn = []
    monkeypatch.setattr(
        figures, "plot_attention_maps", lambda path, drawn, title="": panels_drawn.extend(drawn)
    )
    return panels_drawn


def attention() -> Attention:
    """Return attention whose third head of the second layer attends from "it" to "monkey"."""
    words = ["[CLS]", "the", "mon", "##key", "ate", "it", "[SEP]"]
    count = len(words)
    first = torch.full((3, count, count), 1 / count)
    second = first.clone()
    second[2, 5] = torch.tensor([0.0, 0.05, 0.05, 0.8, 0.05, 0.05, 0.0])
    return Attention(words, words, {"a": first, "b": second})


def test_heads_are_in_the_order_of_the_weight_on_the_words(panels, tmp_path):
    titles = plot_sentence_attention(
        tmp_path / "a.png", attention(), "...", "it", ["monkey", "ate"]
    )
    assert titles[0] == "layer 2, head 3: monkey 80%, ate 5%"
    assert len(panels) == len(titles) == 6
    assert panels[0].rows[5] == "it" and panels[0].weights[5][3] == pytest.approx(0.8)


@pytest.mark.parametrize("word", ["banana", "key", "mon"])
def test_words_that_are_not_in_the_text_are_refused(word, tmp_path):
    if word == "key":  # a token inside a word is not a word
        word = "##key"
    with pytest.raises(UsageError, match="does not occur in the text"):
        plot_sentence_attention(tmp_path / "a.png", attention(), "...", "it", [word + "x"])


def test_a_causal_mask_hides_exactly_the_later_positions(panels, tmp_path):
    words = ["a", "b", "c", "d", "e"]
    plot_causal_mask(tmp_path / "a.png", words)
    allowed, free, masked = (torch.tensor(panel.weights) for panel in panels)
    assert torch.equal(allowed, torch.ones(5, 5).tril())
    assert (free > 0).all()
    assert torch.equal(masked > 0, allowed.bool())
    for weights in (free, masked):
        torch.testing.assert_close(weights.sum(-1), torch.ones(5))


def test_plots_are_written(tmp_path):
    plot_positions(tmp_path / "a.png", length=9, width=12)
    plot_embeddings(tmp_path / "b.png", ["x", "y", "z"], torch.randn(3, 5))
    assert (tmp_path / "a.png").stat().st_size > 5000
    assert (tmp_path / "b.png").stat().st_size > 5000
