"""A notebook cell shows the inspection page in one sandboxed frame, and shares its selection."""

import html
import re

import pytest
import torch

from headway.base.errors import UsageError
from headway.inspection import notebook, show
from headway.inspection.page import NotebookPage
from tests.fixtures.bundles import gpt, translator


def page_of(cell):
    return html.unescape(re.search(r'srcdoc="(.*)"', cell, re.S)[1])


@pytest.fixture
def without_anywidget(monkeypatch):
    monkeypatch.setattr(notebook, "find_spec", lambda name: None)


@pytest.mark.usefixtures("without_anywidget")
def test_a_cell_shows_the_page_of_its_input():
    cell = show(gpt(), "the fox eats <the> lemon", height=444)._repr_html_()
    assert "height:444px" in cell and 'sandbox="allow-scripts' in cell
    page = page_of(cell)
    assert '"title":"the fox eats \\u003cthe> lemon"' in page
    assert page.count('class="block"') > 4


@pytest.mark.usefixtures("without_anywidget")
def test_a_cell_shows_a_translation_with_a_fixed_target():
    cell = show(translator(), "two dogs", target="zwei")._repr_html_()
    assert "zw" in html.unescape(cell)


@pytest.mark.usefixtures("without_anywidget")
def test_a_page_without_a_widget_says_how_to_get_one():
    page = show(gpt(), "the fox")
    assert isinstance(page, NotebookPage)
    with pytest.raises(UsageError, match="notebooks"):
        _ = page.selection


def test_a_widget_has_the_page_and_shows_it_where_no_python_runs():
    widget = show(gpt(), "the fox eats", height=444)
    data, _ = widget._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert page_of(data["text/html"]) == widget.page
    assert "height:444px" in data["text/html"]


def test_the_weights_are_those_of_the_selected_head_and_query():
    widget = show(gpt(), "the fox eats")
    with pytest.raises(UsageError, match="select a token"):
        _ = widget.weights
    (maps,) = (m for m in widget.document.frames[0].maps if m.measure == "attention")
    # what the page sends
    chosen = {"frame": 0, "map": maps.name, "measure": "attention", "layer": 1, "query": 2}
    widget.set_state({"selection": {**chosen, "head": 1}})
    assert torch.equal(widget.weights, maps.weights[1][1, 2])
    widget.set_state({"selection": {**chosen, "head": -1}})
    assert torch.allclose(widget.weights, maps.weights[1].mean(0)[2])


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({"quer": 1}, "Did you mean query"),
        ({"query": "1"}, "must be int or None"),
        ({"layer": True}, "but is True"),
        ({"map": 3}, "must be str"),
    ],
)
def test_an_invalid_selection_is_refused(selection, message):
    widget = show(gpt(), "the fox eats")
    with pytest.raises(UsageError, match=message):
        widget.selection = selection
    assert widget.selection == {}
