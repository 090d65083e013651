"""Untrusted input is shown as text: no script runs, no request is sent, no view breaks."""

import pytest
import torch
from playwright.sync_api import expect

from headway.inspection.document import Document, Frame, Maps, Side
from headway.inspection.page import encode, write_page
from tests.fixtures.documents import HOSTILE
from tests.fixtures.page_views import eventually


@pytest.mark.parametrize("view", ["text", "grid", "matrix", "lines", "predictions"])
def test_hostile_tokens_are_shown_as_text(opened, view):
    page = opened("hostile", f"view={view}")
    expect(page.locator("h1")).to_have_text(HOSTILE[0])
    assert "owned" not in page.title().split("<")[0]
    page.wait_for_timeout(200)  # a script or an image that was inserted would be there by then
    expect(page.locator("img[src=x], main b, main i, main u, main script")).to_have_count(0)
    if view == "text":
        expect(page.locator(".token").nth(14)).to_be_visible()
        tokens = page.locator(".token").all_inner_texts()
        assert tokens[0] == HOSTILE[0] and tokens[2] == HOSTILE[2] and tokens[14] == HOSTILE[14]
        assert tokens[9] == "␣␣␣" and tokens[10] == "↵" and tokens[11] == "∅"


@pytest.mark.parametrize(
    "hash_",
    [
        "view=<img>&layer=99999&head=-7&query=1e9",
        "frame=-1&map=__proto__&measure=constructor",
        "%",
        "view=matrix&query=NaN&key=99999&scale=eval",
    ],
)
def test_a_hostile_address_opens_the_page(opened, hash_):
    page = opened("all", hash_)
    page.locator("nav").get_by_role("button", name="Text", exact=True).click()
    expect(page.locator(".sentence")).to_contain_text("attend")


def test_a_script_inserted_later_does_not_run(opened, browser, pages):
    context = browser.new_context()
    page = context.new_page()
    messages = []
    page.on("console", lambda message: messages.append(message.text))
    page.goto(f"file://{pages['all']}")
    page.locator("nav button").first.wait_for()
    page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "document.title = 'owned'";
        document.body.append(script);
        const link = document.createElement("div");
        link.innerHTML = "<img src=x onerror=\\"document.title='owned'\\">"
            + "<p style='color:red' id=styled>";
        document.body.append(link);
    }""")
    page.wait_for_timeout(200)
    assert "owned" not in page.title()
    assert (
        page.locator("#styled").evaluate("one => getComputedStyle(one).color") != "rgb(255, 0, 0)"
    )
    eventually(page, lambda: any("Content Security Policy" in text for text in messages))
    context.close()


def test_ten_thousand_tokens_are_shown_in_parts(opened, tmp_path):
    tokens = [f"word{at}" for at in range(10_000)]
    weights = torch.zeros(1, 3, 10_000)
    weights[0, 0, 9_990] = weights[0, 1, 5] = weights[0, 2, 5_000] = 1
    sides = {"few": Side(tokens=["a", "b", "c"]), "many": Side(tokens=tokens)}
    maps = [Maps(name="cross", queries="few", keys="many", layers=["1"], weights=[weights])]
    path = tmp_path / "long.html"
    write_page(
        path,
        encode(Document(title="long", frames=[Frame(label="", model={}, sides=sides, maps=maps)])),
    )
    page = opened(path, "view=text&query=0")
    expect(page.locator(".sentence")).to_contain_text("word9990")
    assert page.locator(".token").count() <= 1300
    page.get_by_role("button", name="later").click()
    expect(page.locator(".token", has_text="word600").first).to_be_visible()
    for view in ("matrix", "lines", "grid"):
        page.wait_for_timeout(200)  # or the page may still write the state before into the address
        page.evaluate(f"location.hash = 'view={view}&query=2'")
        expect(page.locator("nav button[aria-current]")).not_to_have_text("Text")
        expect(page.locator(".sentence")).to_contain_text("word5000")


def test_a_damaged_block_is_reported_and_the_other_views_work(browser, pages, tmp_path):
    text = pages["all"].read_text()
    before, rest = text.split('id="b0">', 1)
    path = tmp_path / "damaged.html"
    path.write_text(before + 'id="b0">' + "AAAA" + rest[4:])
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"file://{path}#view=matrix")
    expect(page.get_by_role("alert")).to_contain_text("cannot be read")
    page.locator("nav").get_by_role("button", name="Predictions").click()
    expect(page.locator(".bars li").first).to_be_visible()
    context.close()


def test_a_file_of_another_version_is_refused_with_a_message(browser, pages, tmp_path):
    path = tmp_path / "newer.html"
    path.write_text(pages["all"].read_text().replace('"version":1', '"version":2', 1))
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"file://{path}")
    expect(page.get_by_role("alert")).to_contain_text("another version")
    context.close()
