"""Every view can be saved as PNG, SVG, CSV and JSON."""

import csv
import io
import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from PIL import Image

from tests.fixtures.documents import ENGLISH, HOSTILE, encoder_frame
from tests.fixtures.page_views import VIEWS, settle


def download(page, kind):
    with page.expect_download() as event:
        page.get_by_role("button", name=kind, exact=True).click()
    with open(event.value.path(), "rb") as file:
        return event.value.suggested_filename, file.read()


@pytest.mark.turns(5)
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_saved_in_four_formats(opened, view):
    page = opened("all", f"view={view}&{VIEWS[view]}")
    settle(page)
    name, png = download(page, "PNG")
    assert name == f"The-keeper-and-the-ships-{view}.png"
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    assert len(np.unique(pixels[::3, ::3].astype(int) @ [1, 256, 65536])) > 8
    _, svg = download(page, "SVG")
    root = ElementTree.fromstring(svg)
    assert root.tag.endswith("svg") and len(list(root)) > 10
    rows = list(csv.reader(io.StringIO(download(page, "CSV")[1].decode("utf-8-sig"))))
    assert len(rows) > 1
    data = json.loads(download(page, "JSON")[1])
    assert data["columns"] and len(data["rows"]) == len(rows) - 1
    assert data["state"]["view"] == view


def test_a_saved_matrix_has_the_weights_of_the_document(opened):
    page = opened("all", "view=matrix&layer=2&head=3")
    settle(page)
    rows = json.loads(download(page, "JSON")[1])["rows"]
    weights = encoder_frame("", seed=1).maps[0].weights[2][3].numpy()
    assert [row[0] for row in rows] == ENGLISH
    assert np.abs(np.array([row[1:] for row in rows]) - weights).max() <= 0.004


def test_the_words_of_a_view_are_text_in_its_svg(opened):
    page = opened("all", "view=lines&layer=1")
    settle(page)
    text = " ".join(ElementTree.fromstring(download(page, "SVG")[1]).itertext())
    assert all(word in text for word in ("lighthouse"[:5], "counted", "ships"))


def test_no_cell_of_a_csv_begins_a_formula_and_the_svg_is_valid_xml(opened):
    page = opened("hostile", "view=text")
    settle(page)
    rows = list(csv.reader(io.StringIO(download(page, "CSV")[1].decode("utf-8-sig"))))
    tokens = [row[1] for row in rows[1:]]
    assert tokens[0] == HOSTILE[0] and "'=1+1" in tokens and "=1+1" not in tokens
    root = ElementTree.fromstring(download(page, "SVG")[1])
    assert not [element for element in root.iter() if element.tag.endswith("script")]
