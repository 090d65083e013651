"""The live page with the real server, a real model and a real browser."""

import socket
import threading
import time

import pytest
import torch
import uvicorn
from playwright.sync_api import expect

from headway.inspection.document import Document, Frame, Maps, Side
from headway.serving import BundleViewer, Guard, InspectionRequest, viewer_app
from headway.serving.run import ADDRESS, LIMIT
from tests.fixtures.bundles import gpt
from tests.fixtures.documents import heads

TEXT = "the fox eats the lemon"


@pytest.fixture
def address():
    """address(viewer, first document) -> the URL of a server of that viewer."""
    running = []

    def start(viewer, first):
        listener = socket.create_server((ADDRESS, 0))
        port = listener.getsockname()[1]
        app = Guard(viewer_app(viewer, first), hosts=[f"{ADDRESS}:{port}"], limit=LIMIT)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        running.append((server, thread, listener))
        while not server.started:
            time.sleep(0.01)
        return f"http://{ADDRESS}:{port}/"

    yield start
    for server, thread, listener in running:
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture
def visit(browser):
    """visit(address) -> a page; requests to other hosts and errors fail the test."""
    errors, contexts = [], []

    def open_page(address):
        context = browser.new_context()
        contexts.append(context)
        page = context.new_page()
        allowed = (address, "data:", "blob:")
        page.on(
            "request", lambda request: request.url.startswith(allowed) or errors.append(request.url)
        )
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{address}#view=text")
        page.locator("nav button[aria-current]").wait_for()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not errors, errors


def test_a_user_can_enter_text_switch_heads_off_and_walk_through(address, visit):
    viewer = BundleViewer(gpt(), "my model")
    page = visit(address(viewer, viewer.look(InspectionRequest(text=TEXT))))
    box = page.get_by_role("textbox", name="Text", exact=True)
    expect(box).to_have_value(TEXT)
    box.fill("the dog eats the bread")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".token", has_text="bread").first).to_be_visible()
    page.locator("nav").get_by_role("button", name="Head ablation").click()
    page.get_by_label("Layer 1, head 2 is on").uncheck()
    page.get_by_role("button", name="Run without these heads").click()
    expect(page.locator(".body h3").first).to_have_text("Without these heads")
    page.locator("nav").get_by_role("button", name="Walkthrough").click()
    page.get_by_role("button", name="Walk through the pinned token").click()
    expect(page.locator(".step h3")).to_contain_text("1. ")


def test_an_input_that_the_model_refuses_is_reported(address, visit):
    viewer = BundleViewer(gpt(), "my model")
    page = visit(address(viewer, viewer.look(InspectionRequest(text=TEXT))))
    page.get_by_role("textbox", name="Text", exact=True).fill("the fox " * 60)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".live p")).to_contain_text("but the model's context is")


@pytest.mark.slow
def test_the_first_paint_of_a_base_model_over_512_tokens_takes_two_seconds_at_most(address, visit):
    tokens = 512
    weights = [heads(1, 12, tokens, tokens, seed=i)[0] for i in range(12)]
    names = [str(i + 1) for i in range(12)]
    side = Side(tokens=[f"t{i}" for i in range(tokens)])
    maps = [Maps(name="encoder", queries="s", keys="s", layers=names, weights=weights)]
    frame = Frame(label="large", model={}, sides={"s": side}, maps=maps)
    url = address(BundleViewer(gpt(), "large"), Document(title="large", frames=[frame]))
    assert torch.stack(weights).numel() == 12 * 12 * 512 * 512
    seconds = []
    for _ in range(3):  # another program may use the machine for a moment
        start = time.perf_counter()
        page = visit(url)
        page.locator(".sentence", has_text="attends to").wait_for()
        seconds.append(round(time.perf_counter() - start, 2))
    print(f"time to the first numbers: {seconds} s")
    assert min(seconds) <= 2
