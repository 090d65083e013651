"""The page of the model server, with the real server and a real browser."""

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.fixtures import bundles
from tests.fixtures.accessibility import findings
from tests.fixtures.image_classifiers import classifier
from tests.fixtures.images import png
from tests.fixtures.model_server import language_model, running

HOSTILE = "<img src=x onerror=alert(1)> </script><script>alert(2)</script>"
KEY = "a-key-of-many-characters"
MODELS = {
    "gpt": language_model(),
    "chat": language_model(),
    "translator": bundles.translator(),
    "classifier": bundles.bert_classifier(),
    "images": classifier(),
    "encoder": bundles.encoder(max_length=40, masked_lm_head=False),
    "answerer": bundles.answerer(),
}
TEMPLATE = "{% for message in messages %}{{ message.content }} {% endfor %}"


@pytest.fixture(scope="module")
def client():
    with running(MODELS, templates={"chat": TEMPLATE}) as client:
        yield client


@pytest.fixture
def visit(browser):
    """visit(client) -> its page; errors and requests to other hosts fail the test."""
    errors, contexts = [], []

    def open_page(client, name="", **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        address = f"http://127.0.0.1:{client.port}/"
        page.on(
            "request",
            lambda request: (
                request.url.startswith((address, "data:", "blob:")) or errors.append(request.url)
            ),
        )
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: errors.append(dialog.message))
        page.goto(f"{address}#model={name}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not errors, errors


def test_a_text_is_continued_as_a_stream_and_looked_into(client, visit):
    page = visit(client, "gpt")
    page.get_by_label("Text to continue").fill(HOSTILE)
    page.get_by_label("Most tokens").fill("12")
    page.get_by_role("button", name="Continue").click()
    expect(page.locator(".soft")).to_contain_text("tokens/s")
    text = page.locator(".turn").text_content()
    assert text.startswith(HOSTILE) and page.locator(".turn *").count() == 0
    with page.context.expect_page() as opened:
        page.get_by_role("button", name="Look inside").click()
    expect(opened.value.locator("nav button[aria-current]").first).to_be_visible()


def test_a_stream_is_stopped_by_the_escape_key(client, visit):
    page = visit(client, "gpt")
    page.get_by_label("Text to continue").fill("the fox")
    page.get_by_label("Most tokens").fill("390")
    page.get_by_label("Temperature").fill("3")
    page.get_by_label("Text to continue").press("Control+Enter")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    page.get_by_label("Text to continue").press("Escape")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()


def test_a_conversation(client, visit):
    page = visit(client, "chat")
    for count in (2, 4):
        page.get_by_role("textbox", name="Message").fill("the fox")
        page.get_by_label("Most tokens").fill("4")
        page.get_by_role("button", name="Send").click()
        expect(page.locator(".turn")).to_have_count(count)
        expect(page.get_by_role("button", name="Stop")).to_be_hidden()


def test_forms_follow_from_the_inputs_of_the_models(client, visit, tmp_path):
    page = visit(client, "translator")
    page.get_by_role("textbox", name="Text").fill("two dogs play")
    page.get_by_role("button", name="Translate").click()
    expect(page.locator(".turn")).to_be_visible()
    page.get_by_label("Model").select_option(label="classifier: classifier")
    page.get_by_role("textbox", name="Text").fill("A fox looks on.")
    page.get_by_role("button", name="Classify").click()
    expect(page.locator("tbody tr")).to_have_count(3)
    page.get_by_label("Model").select_option(label="images: image classifier")
    picture = tmp_path / "a.png"
    picture.write_bytes(png(np.zeros((20, 20, 3), np.uint8)))
    page.get_by_label("Image", exact=True).set_input_files(picture)
    page.get_by_role("button", name="Classify").click()
    expect(page.locator("tbody tr").first).to_be_visible()
    page.get_by_label("Model").select_option(label="answerer: question-answering model")
    page.get_by_role("textbox", name="Question").fill("Who waves?")
    page.get_by_role("textbox", name="Context").fill(bundles.SENTENCE)
    page.get_by_role("button", name="Answer").click()
    expect(page.locator("tbody tr")).to_have_count(1)


def test_an_error_is_shown_as_a_text(client, visit):
    page = visit(client, "translator")
    page.get_by_role("textbox", name="Text").fill("dog " * 3000)
    page.get_by_role("button", name="Translate").click()
    expect(page.get_by_role("alert")).to_contain_text("tokens")


def test_the_key_is_asked_for(visit):
    with running({"gpt": MODELS["gpt"]}, key=KEY) as client:
        page = visit(client)
        page.get_by_label("Key of this server").fill(KEY)
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_label("Text to continue")).to_be_visible()


@pytest.mark.parametrize(
    "name, scheme, width",
    [("gpt", "light", 1200), ("classifier", "dark", 390), ("images", "light", 390)],
)
def test_nothing_serious_is_reported_and_a_phone_does_not_scroll_sideways(
    client, visit, name, scheme, width
):
    size = {"width": width, "height": 700}
    page = visit(client, name, color_scheme=scheme, viewport=size)
    expect(page.get_by_label("Model")).to_be_visible()
    assert not findings(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
