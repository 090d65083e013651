"""The page of the model server, with the real server and a real browser."""

import json
import subprocess

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.fixtures import bundles
from tests.fixtures.accessibility import findings
from tests.fixtures.image_classifiers import classifier
from tests.fixtures.images import png
from tests.fixtures.model_server import language_model, running
from tests.fixtures.small_whisper import noise, transcriber, write_wav

HOSTILE = "<img src=x onerror=alert(1)> </script><script>alert(2)</script>"
KEY = "a-key-of-many-characters"
MODELS = {
    "gpt": language_model(),
    "chat": language_model(),
    "translator": bundles.translator(),
    "classifier": bundles.bert_classifier(),
    "images": classifier(),
    "grey": classifier(channels=1),
    "encoder": bundles.encoder(max_length=40),
    "tagger": bundles.tagger(),
    "answerer": bundles.answerer(),
    "whisper": transcriber(),
}
TEMPLATE = "{% for message in messages %}{{ message.content }} {% endfor %}"


@pytest.fixture(scope="module")
def client():
    examples = {"translator": ["a red heart"]}
    with running(MODELS, templates={"chat": TEMPLATE}, examples=examples) as client:
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
        expect(page.get_by_role("heading", name="Headway")).to_be_visible()  # the models have come
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not errors, errors


def submit(page, name):
    """Press the button of the form, and wait for the end of the request."""
    page.locator("button.primary", has_text=name).click()
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()


def sampling(page, tokens):
    page.get_by_text("Settings").click()
    page.get_by_label("Most tokens").fill(tokens)
    page.get_by_label("Temperature").fill("0")


def test_a_text_is_continued_as_a_stream_and_looked_into(client, visit):
    page = visit(client, "gpt")
    page.get_by_label("Text to continue").fill(HOSTILE)
    sampling(page, "12")
    submit(page, "Continue")
    expect(page.get_by_role("status")).to_contain_text("tokens/s")
    text = page.locator(".output").text_content()
    assert text.startswith(HOSTILE) and page.locator(".output :not(span)").count() == 0
    with page.context.expect_page() as opened:
        page.get_by_role("button", name="Look inside").click()
    expect(opened.value.locator("nav button[aria-current]").first).to_be_visible()


def test_a_token_shows_its_probability_under_the_pointer_and_by_the_keyboard(client, visit):
    page = visit(client, "gpt")
    page.get_by_label("Text to continue").fill("the fox")
    sampling(page, "6")
    submit(page, "Continue")
    body = {"model": "gpt", "prompt": "the fox", "max_tokens": 6, "temperature": 0, "logprobs": 5}
    (choice,) = client.post("/v1/completions", body).json["choices"]
    tokens = page.locator(".token").all_text_contents()
    assert "".join(tokens) == choice["text"]
    first = round(100 * float(np.exp(choice["logprobs"]["token_logprobs"][0])))
    page.locator(".token").first.hover()
    expect(page.locator(".card p").first).to_contain_text(f"{first} %")
    assert page.locator(".card tbody tr").count() == 5
    page.locator(".output").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".token.pinned")).to_have_text(tokens[1])
    page.keyboard.press("Escape")
    expect(page.locator(".card")).to_be_hidden()


def test_a_stream_is_stopped_by_the_escape_key(client, visit):
    page = visit(client, "gpt")
    sampling(page, "390")  # the most probable tokens do not end the text
    page.get_by_label("Text to continue").fill("the fox")
    page.get_by_label("Text to continue").press("Control+Enter")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    page.get_by_label("Text to continue").press("Escape")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    expect(page.get_by_role("status")).to_have_text("Stopped.")


def test_a_conversation_is_sent_as_a_whole_and_begins_anew(client, visit):
    page = visit(client, "chat")
    bodies = []
    page.on("request", lambda request: request.post_data and bodies.append(request.post_data_json))
    sampling(page, "4")
    for count in (2, 4):
        page.get_by_role("textbox", name="Message").fill("the fox")
        page.get_by_role("textbox", name="Message").press("Enter")
        expect(page.locator(".turn")).to_have_count(count)
        expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    roles = [[message["role"] for message in body["messages"]] for body in bodies]
    assert roles == [["user"], ["user", "assistant", "user"]]
    page.get_by_role("button", name="New conversation").click()
    expect(page.locator(".turn")).to_have_count(0)


def test_each_line_is_translated_alone_and_blank_lines_stay(client, visit):
    page = visit(client, "translator")
    lines = ["two dogs play", "", "a red heart", "dog " * 3000, "it's 5 o'clock"]
    page.get_by_role("textbox", name="Text").fill("\n".join(lines))
    submit(page, "Translate")
    cells = page.locator(".lines td").all_text_contents()
    assert cells[1] == "" and "tokens" in cells[3]
    for n in (0, 2, 4):
        reply = client.post("/translate", {"model": "translator", "inputs": lines[n]}).json
        assert cells[n] == reply[0]["translation_text"]


def curl_command(page):
    """Open the request as a curl command, and return it when the page has written it."""
    page.get_by_text("The request as a curl command").click()
    command = page.locator(".command code")
    expect(command).to_contain_text("curl ")
    return command.text_content()


def test_the_curl_command_does_what_the_page_does(client, visit, tmp_path):
    page = visit(client, "translator")
    area = page.get_by_role("textbox", name="Text")
    area.fill("a fox")
    assert '"a fox"' in curl_command(page)
    area.fill("it's \"5\" o'clock $(touch x) `y` \\ é")
    command = page.locator(".command code").text_content()
    submit(page, "Translate")
    shell = ["bash", "-c", f"set -e; {command} --silent"]
    done = subprocess.run(shell, capture_output=True, cwd=tmp_path, check=True)
    shown = page.locator(".lines td").all_text_contents()
    assert [reply["translation_text"] for reply in json.loads(done.stdout)] == shown
    assert not (tmp_path / "x").exists()


def test_an_image_is_previewed_and_classified_also_by_the_curl_command(client, visit, tmp_path):
    page = visit(client, "images")
    image = tmp_path / "it's a.png"
    image.write_bytes(png(np.zeros((20, 20, 3), np.uint8)))
    page.locator("input[type=file]").set_input_files(image)
    expect(page.locator("tbody tr").first).to_be_visible()
    assert page.locator(".preview img").evaluate("image => image.naturalWidth") == 20
    assert page.locator(".preview img").bounding_box()["width"] >= 150
    command = curl_command(page)
    shell = ["bash", "-c", f"{command} --silent"]
    done = subprocess.run(shell, capture_output=True, cwd=tmp_path, check=True)
    assert json.loads(done.stdout)[0]["label"] == page.locator(".headline").text_content()


def test_a_recording_is_transcribed_with_times_also_by_the_curl_command(client, visit, tmp_path):
    page = visit(client, "whisper")
    path = write_wav(tmp_path / "it's a talk.wav", noise(2.5))
    page.locator("input[type=file]").set_input_files(path)
    (expected,) = MODELS["whisper"].transcribe([path], timestamps=True)
    expect(page.locator("tbody tr")).to_have_count(len(expected.segments))
    first = expected.segments[0]
    expect(page.locator("tbody tr").first).to_have_text(
        f"0:{first.start:05.2f} – 0:{first.end:05.2f}{first.text}"
    )
    expect(page.get_by_role("status")).to_contain_text(f"language {expected.language}")
    page.wait_for_function("document.querySelector('audio').duration > 2.4")
    page.locator("tbody button").first.click()
    assert page.locator("audio").evaluate("one => one.currentTime") >= first.start
    done = subprocess.run(
        ["bash", "-c", f"{curl_command(page)} --silent"],
        capture_output=True,
        cwd=tmp_path,
        check=True,
    )
    assert json.loads(done.stdout)["text"] == page.locator(".output").text_content()


def test_only_models_of_grey_images_have_a_drawing_area(client, visit):
    page = visit(client, "images")
    expect(page.get_by_text("Choose an image")).to_be_visible()
    assert page.locator("canvas").count() == 0
    page = visit(client, "grey")
    box = page.locator("canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 30, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + 90, box["y"] + 120)
    page.mouse.up()
    expect(page.locator("tbody tr").first).to_be_visible()


def test_the_answer_is_marked_in_the_context(client, visit):
    page = visit(client, "answerer")
    context = f"\U0001f600 {bundles.SENTENCE}"  # the server counts code points
    page.get_by_role("textbox", name="Question").fill("Who waves?")
    page.get_by_role("textbox", name="Context").fill(context)
    submit(page, "Answer")
    body = {"question": "Who waves?", "context": context}
    reply = client.post("/answer", {"model": "answerer", "inputs": body}).json
    assert page.locator("mark").text_content() == reply["answer"]
    assert page.locator(".output").text_content() == context


def test_masked_words_and_sentences_are_predicted_and_compared(client, visit):
    page = visit(client, "encoder")
    page.get_by_role("textbox", name="Text").fill("The old")
    page.locator("button.primary").click()
    expect(page.get_by_role("alert")).to_contain_text("[MASK]")
    page.get_by_role("textbox", name="Text").press("End")
    page.get_by_role("button", name="Insert [MASK]").click()
    submit(page, "Fill")
    assert page.locator("mark").count() == 1 and page.locator("tbody tr").count() == 5
    expect(page.get_by_role("alert")).to_have_count(0)
    page.get_by_role("button", name="Compare").first.click()
    page.get_by_role("button", name="How do I reset").click()
    expect(page.locator("tbody tr")).to_have_count(4)


def test_labels_have_bars_and_an_example_is_one_click(client, visit):
    page = visit(client, "classifier")
    page.locator(".chip").first.click()
    expect(page.locator("tbody tr")).to_have_count(3)


def test_held_out_examples_of_the_run_are_chips(client, visit):
    page = visit(client, "translator")
    assert page.locator(".chip").all_text_contents() == ["a red heart"]


def test_an_empty_input_is_asked_for_in_words_and_nothing_is_sent(client, visit):
    page = visit(client, "translator")
    page.on("request", lambda request: pytest.fail(request.url))
    page.get_by_role("button", name="Translate").click()
    expect(page.get_by_role("alert")).to_have_text("Write a text first.")
    expect(page.get_by_role("textbox", name="Text")).to_be_focused()
    assert page.get_by_role("textbox", name="Text").get_attribute("aria-invalid") == "true"


def test_the_old_result_and_the_old_error_disappear_when_a_request_starts(client, visit):
    page = visit(client, "classifier")
    area = page.get_by_role("textbox", name="Text", exact=True)
    area.fill("dog " * 30_000)
    submit(page, "Classify")
    expect(page.get_by_role("alert")).to_be_visible()
    area.fill("A fox looks on.")
    submit(page, "Classify")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.locator(".headline")).to_be_visible()
    area.fill("dog " * 30_000)
    submit(page, "Classify")
    expect(page.locator(".headline")).to_have_count(0)


def test_a_server_that_has_ended_is_named_in_words(visit):
    with running({"translator": MODELS["translator"]}) as client:
        page = visit(client)
        page.get_by_role("textbox", name="Text").fill("a red heart")
    page.get_by_role("button", name="Translate").click()
    expect(page.get_by_role("alert")).to_contain_text("does not answer")


def test_the_key_is_asked_for(visit):
    with running({"gpt": MODELS["gpt"]}, key=KEY) as client:
        page = visit(client)
        page.get_by_label("Key of this server").fill(KEY)
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_label("Text to continue")).to_be_visible()


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    "name, scheme, width",
    [
        ("gpt", "light", 1440),
        ("chat", "dark", 390),
        ("translator", "light", 390),
        ("grey", "dark", 390),
        ("answerer", "light", 390),
        ("encoder", "dark", 1440),
        ("whisper", "dark", 390),
    ],
)
def test_nothing_serious_is_reported_and_a_phone_does_not_scroll_sideways(
    client, visit, name, scheme, width
):
    size = {"width": width, "height": 700}
    page = visit(client, name, color_scheme=scheme, viewport=size)
    page.get_by_text("Settings").click()
    if page.locator(".chip").count():
        page.locator(".chip").first.click()
        expect(page.get_by_role("status")).to_contain_text(" s")
    assert not findings(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
