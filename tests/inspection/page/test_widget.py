"""The widget of a notebook in a real browser: page and model share what is selected."""

import json
from importlib.resources import files

import pytest
from playwright.sync_api import expect

from headway.inspection.document import Document
from headway.inspection.page.widget import PageWidget
from tests.fixtures.documents import encoder_frame, translator_frame

HARNESS = """<!doctype html><nav><button aria-current></button></nav><div id="cell"></div>
<script type="application/json" id="values">%s</script>
<script type="module">
%s
class Model {
  constructor(values) { this.values = values; this.handlers = {}; this.saves = 0; }
  get(name) { return this.values[name]; }
  set(name, value) {
    if (JSON.stringify(this.values[name]) === JSON.stringify(value)) return;
    this.values[name] = value;
    for (const handler of this.handlers["change:" + name] || []) handler();
  }
  on(name, handler) { (this.handlers[name] ||= []).push(handler); }
  off(name, handler) { this.handlers[name] = this.handlers[name].filter((one) => one !== handler); }
  save_changes() { this.saves += 1; }
}
window.model = new Model(JSON.parse(document.getElementById("values").textContent));
window.leave = widget.render({model, el: document.getElementById("cell")});
</script>"""


@pytest.fixture
def cell(opened, tmp_path):
    widget = PageWidget(Document(title="cell", frames=[encoder_frame(), translator_frame()]), 700)
    values = {"page": widget.page, "height": 700, "selection": {}}
    script = (files("headway.inspection.page") / "widget.js").read_text()
    path = tmp_path / "cell.html"
    text = json.dumps(values).replace("</", "<\\/")
    path.write_text(HARNESS % (text, script.replace("export default", "const widget =")))
    page = opened(path)
    page.wait_for_function("model.values.selection.view")
    return page


def selection(page):
    return page.evaluate("model.values.selection")


def test_a_click_on_a_token_sets_the_selection(cell):
    frame = cell.frame_locator("iframe")
    frame.locator("nav").get_by_role("button", name="Text").click()
    cell.wait_for_function("model.values.selection.view === 'text'")
    tokens = encoder_frame().sides[encoder_frame().maps[0].queries].tokens
    frame.locator(".token").nth(3).click()
    cell.wait_for_function("model.values.selection.query === 3")
    assert selection(cell)["query_token"] == tokens[3]
    assert cell.evaluate("model.saves") > 1


def test_a_selection_of_python_is_shown_and_completed(cell):
    cell.evaluate("model.set('selection', {view: 'matrix', layer: 1, head: 1, query: 2})")
    frame = cell.frame_locator("iframe")
    expect(frame.locator("h2#view-title")).to_have_text("Matrix")
    cell.wait_for_function("model.values.selection.query_token")
    now = selection(cell)
    assert (now["layer"], now["head"], now["query"]) == (1, 1, 2) and now["map"]


def test_a_selection_that_does_not_exist_becomes_the_nearest(cell):
    cell.evaluate("model.set('selection', {layer: 99, query: 999})")
    cell.wait_for_function("model.values.selection.layer !== 99")
    maps = encoder_frame().maps[0]
    assert selection(cell)["layer"] == len(maps.weights) - 1
    assert selection(cell)["query"] == maps.weights[0].shape[1] - 1


def test_messages_of_other_windows_are_ignored(cell):
    before = selection(cell)
    cell.evaluate("postMessage({headway: 'selection', selection: {query: 77}}, '*')")
    cell.evaluate("""() => {
      const other = document.createElement('iframe');
      document.body.append(other);
      other.contentWindow.eval(
        "parent.document.querySelector('iframe').contentWindow" +
        ".postMessage({headway: 'select', selection: {query: 4}}, '*')");
    }""")
    cell.wait_for_timeout(200)
    assert selection(cell) == before


def test_a_removed_cell_no_longer_listens(cell):
    cell.evaluate("leave()")
    assert cell.evaluate("Object.values(model.handlers).flat().length") == 0
