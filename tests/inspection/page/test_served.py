"""The served page, with a small test server in place of the model."""

import base64
import io
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from headway.inspection.document import Document
from headway.inspection.page import encode, served_page
from headway.inspection.page.encoding import header_json
from tests.fixtures.documents import encoder_frame, walk
from tests.fixtures.page_views import choose_head, eventually


class Server:
    """A server that fulfils the contract of the page and records its requests."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict]] = []
        self.count = 0
        self.modality = ""
        self.blocks: dict[str, bytes] = {}
        self.header = self.look("first")

    def look(self, title, *frames):
        self.count += 1
        document = Document(
            title=title,
            frames=frames or [encoder_frame(title)],
            examples=["the ships", "an old keeper"],
            modality=self.modality,
        )
        encoded = encode(document, live=True, prefix=f"look{self.count}-")
        self.blocks |= encoded.blocks
        return json.loads(header_json(encoded.header))

    def answer(self, verb, body):
        self.requests.append((verb, body))
        if body.get("text") == "refuse":
            raise ValueError("that text is too long")
        if verb == "walk":
            return json.loads(json.dumps(encode(Document(title="", frames=[], walk=walk())).header))
        if verb == "without":
            return self.look("without", encoder_frame("as is"), encoder_frame("off", seed=5))
        return self.look(f"about {body['text']}")


@pytest.fixture
def served():
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        def send(self, data, kind, status=200):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self):
            if self.path == "/":
                self.send(served_page(), "text/html; charset=utf-8")
            elif self.path == "/api/header":
                self.send(json.dumps(server.header).encode(), "application/json")
            else:
                self.send(server.blocks[self.path.rsplit("/", 1)[1]], "application/octet-stream")

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                answer = server.answer(self.path.rsplit("/", 1)[1], body)
                self.send(json.dumps(answer).encode(), "application/json")
            except ValueError as error:
                message = json.dumps({"error": str(error)}).encode()
                self.send(message, "application/json", 400)

        def log_message(self, *arguments):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    server.address = f"http://127.0.0.1:{http.server_port}/"
    yield server
    http.shutdown()
    http.server_close()
    thread.join()


@pytest.fixture
def page(browser, served):
    context = browser.new_context()
    page = context.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "request",
        lambda request: (
            request.url.startswith(("data:", "blob:", served.address)) or errors.append(request.url)
        ),
    )
    page.goto(f"{served.address}#view=text")
    page.locator(".sentence", has_text="attends to").wait_for()
    yield page
    context.close()
    assert not errors


def fetched_blocks(page):
    return page.evaluate("""performance.getEntriesByType("resource")
        .map((one) => one.name).filter((one) => one.includes("/api/block/"))""")


def test_only_blocks_that_are_shown_are_fetched(page, served):
    eventually(page, lambda: len(fetched_blocks(page)) == 1)
    page.locator("nav").get_by_role("button", name="Matrix").click()
    choose_head(page, 1, 0)
    eventually(page, lambda: len(fetched_blocks(page)) == 2)


def test_the_page_shows_an_entered_text(page, served):
    page.get_by_role("textbox", name="Text", exact=True).fill("a new sentence")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("h1")).to_have_text("about a new sentence")
    assert ("look", {"text": "a new sentence"}) in served.requests
    expect(page.locator(".sentence")).to_contain_text("attends to")


def test_an_error_of_the_model_is_reported_and_the_page_is_unchanged(page, served):
    page.get_by_role("textbox", name="Text", exact=True).fill("refuse")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".live p")).to_have_text("that text is too long")
    expect(page.locator("h1")).to_have_text("first")


def test_heads_can_be_switched_off(page, served):
    page.get_by_role("textbox", name="Text", exact=True).fill("x")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("h1")).to_have_text("about x")
    page.locator("nav").get_by_role("button", name="Head ablation").click()
    run_button = page.get_by_role("button", name="Run without these heads")
    expect(run_button).to_be_disabled()
    page.get_by_label("Layer 3, head 2 is on").uncheck()
    run_button.click()
    expect(page.locator(".body h3").first).to_have_text("Without these heads")
    assert ("without", {"text": "x", "heads": [["encoder", 2, 1]]}) in served.requests
    expect(page.locator(".deltas li").first).to_contain_text("→")


def test_a_walk_of_the_pinned_token_can_be_requested(page, served):
    choose_head(page, 1, 3)
    page.locator(".token", has_text="keeper").click()
    page.locator("nav").get_by_role("button", name="Walkthrough").click()
    expect(page.locator(".step h3")).to_be_hidden()
    page.get_by_role("button", name="Walk through the pinned token").click()
    expect(page.locator(".step h3")).to_have_text("1. Embedding")
    verb, body = served.requests[-1]
    assert verb == "walk"
    assert {name: body[name] for name in ("map", "layer", "head", "position")} == {
        "map": "encoder",
        "layer": 1,
        "head": 3,
        "position": 5,
    }


def test_a_drawing_is_sent_as_the_image(page, served):
    page.get_by_text("More inputs").click()
    box = page.locator(".pad").bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 120, box["y"] + 90, steps=4)
    page.mouse.up()
    page.get_by_role("button", name="Use the drawing").click()
    expect(page.locator("h1")).to_contain_text("about")
    _, body = served.requests[-1]
    kind, data = body["image"].split(",")
    assert kind == "data:image/png;base64"
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("L"))
    assert pixels.shape == (168, 168)
    assert pixels[55, 70] < 60 and pixels[150, 20] == 255


def test_a_held_out_example_is_one_click_away(page, served):
    page.get_by_role("button", name="an old keeper").click()
    expect(page.locator("h1")).to_have_text("about an old keeper")
    assert ("look", {"text": "an old keeper"}) in served.requests


def test_a_model_of_texts_is_not_offered_a_drawing_area(page, served):
    page.get_by_text("More inputs").click()
    expect(page.locator(".pad")).to_be_visible()
    served.modality = "text"
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".pad")).to_be_hidden()
    expect(page.get_by_role("textbox", name="Target")).to_be_visible()
