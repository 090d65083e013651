"""The page opens at the head with the highest score, unless the reader chose another."""

import pytest
import torch
from playwright.sync_api import expect

from headway.inspection.document import Document, Frame, Maps, Side
from headway.inspection.page import encode, write_page
from tests.fixtures.documents import image_frame
from tests.fixtures.page_views import choose_head, chosen_head, eventually

WORDS = ["[CLS]", "the", "keeper", "counted", "three", "ships", "[SEP]"]
ATTENDED = [0, 3, 5, 2, 5, 3, 0]


@pytest.fixture
def file(tmp_path):
    """Write a page of an encoder whose tokens attend to themselves except in layer 3, head 2, and
    of a translator whose second cross-attention layer is sharp."""
    num = len(WORDS)
    identity = torch.eye(num).expand(2, num, num).clone()
    one_other = identity.clone()
    one_other[1] = torch.nn.functional.one_hot(torch.tensor(ATTENDED), num).float()
    encoder_maps = Maps(
        name="encoder",
        queries="s",
        keys="s",
        layers="1234",
        weights=[identity, identity, one_other, identity],
    )
    uniform = torch.full((2, 3, 4), 1 / 4)
    sharp = torch.eye(4)[:3].expand(2, 3, 4).clone()
    sharp[0] = 1 / 4
    cross = Maps(name="cross", queries="t", keys="u", layers="12", weights=[uniform, sharp])
    translator_encoder = Maps(
        name="encoder", queries="u", keys="u", layers="1", weights=[torch.eye(4)[None]]
    )
    sides = {"t": Side(tokens=["un", "deux", "trois"]), "u": Side(tokens=["a", "b", "c", "d"])}
    frames = [
        Frame(label="encoder", model={}, sides={"s": Side(tokens=WORDS)}, maps=[encoder_maps]),
        Frame(label="translator", model={}, sides=sides, maps=[translator_encoder, cross]),
        image_frame(),
    ]
    write_page(tmp_path / "page.html", encode(Document(title="", frames=frames)))
    return tmp_path / "page.html"


def expect_choice(page, map_, layer, head):
    """Check the three fields above a view; if `map_` is None, the page has one map only."""
    if map_ is not None:
        expect(page.get_by_role("combobox", name="Attention")).to_have_value(map_)
    eventually(page, lambda: chosen_head(page) == (layer, head))


def test_the_page_opens_at_the_head_with_the_highest_score(opened, file):
    expect_choice(opened(file, "view=matrix"), None, 2, 1)


def test_a_translation_opens_at_its_sharpest_cross_attention(opened, file):
    page = opened(file, "view=alignment&frame=1")
    expect_choice(page, "cross", 1, 1)


def test_an_image_opens_at_its_last_layer_with_the_mean_of_all_heads(opened, file):
    page = opened(file, "view=image&frame=2")
    layers = len(image_frame().maps[0].layers)
    expect_choice(page, None, layers - 1, -1)


@pytest.mark.parametrize(
    ("address", "layer", "head"),
    [
        ("layer=1&head=0", 1, 0),
        ("layer=1", 1, 0),
        ("head=-1", 0, -1),
        ("map=encoder", 0, 0),
        ("layer=0&head=0", 0, 0),
    ],
)
def test_a_choice_in_the_address_has_priority(opened, file, address, layer, head):
    expect_choice(opened(file, f"view=matrix&{address}"), None, layer, head)


def test_a_choice_is_kept_in_other_views_and_after_a_reload(opened, file):
    page = opened(file, "view=matrix")
    choose_head(page, 0, 0)
    page.get_by_role("button", name="Matrix", exact=True).click()
    expect_choice(page, None, 0, 0)
    eventually(page, lambda: "layer=0" in page.url and "head=0" in page.url)
    page.reload()
    page.locator("nav button[aria-current]").wait_for()
    expect_choice(page, None, 0, 0)


def test_another_frame_without_the_chosen_map_opens_at_its_own_head(opened, file):
    page = opened(file, "view=matrix&frame=1")
    page.get_by_role("combobox", name="Model and input").select_option("0")
    expect_choice(page, None, 2, 1)
