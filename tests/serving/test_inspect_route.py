"""GET /inspect: the page of a text, of any number of clients at once, and no file of the server."""

import os
import threading
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from headway.serving.engine import Computation, at_once
from tests.fixtures import bundles
from tests.fixtures.image_classifiers import classifier
from tests.fixtures.images import png
from tests.fixtures.model_server import language_model, running

MODELS = {
    "gpt": language_model(),
    "translator": bundles.translator(),
    "images": classifier(),
    "captioner": bundles.captioner(),
}


@pytest.fixture(scope="module")
def client():
    with running(MODELS) as client:
        yield client


def inspected(client, model, text, **more):
    query = urllib.parse.urlencode({"model": model, "text": text, **more})
    return client.get(f"/inspect?{query}")


@pytest.mark.parametrize("model", ["gpt", "translator"])
def test_equal_requests_at_once_each_get_the_page(client, model):
    engine = next(m.engine for m in client.server.models if m.name == model)
    blocked, job = threading.Event(), {"deadline": time.monotonic() + 60, "cost": 1, "inputs": [0]}
    wait = Computation(
        report=lambda event: None,
        group="wait",
        compute=at_once(lambda _: [blocked.wait(30)]),
        **job,
    )
    engine.submit(wait)  # the requests wait for it, and so are computed together
    with ThreadPoolExecutor(3) as pool:
        replies = [pool.submit(inspected, client, model, "the old fox") for _ in range(3)]
        while len(engine.waiting) < 3:
            time.sleep(0.01)
        blocked.set()
        pages = [reply.result() for reply in replies]
    assert [page.status for page in pages] == [200] * 3, pages[0].body[:200]
    assert pages[0].body == pages[1].body == pages[2].body
    assert pages[0].body.startswith(b"<!doctype html>")
    assert client.get("/health").status == 200 and engine.error is None


@pytest.mark.parametrize("model", ["images", "captioner"])
def test_no_file_of_the_server_is_read(client, model, tmp_path):
    """Not even whether one exists can be found out, and a pipe does not stop the engine."""
    image, pipe = tmp_path / "secret.png", tmp_path / "pipe"
    image.write_bytes(png(np.zeros((24, 27, 3), np.uint8)))
    os.mkfifo(pipe)
    replies = {
        inspected(client, model, str(path)).body for path in (image, pipe, tmp_path, "/no/such")
    }
    (reply,) = replies
    assert b"whose inputs are no texts" in reply and b'"invalid_request_error"' in reply
    assert inspected(client, model, str(image)).status == 400


def test_the_number_of_tokens_is_limited(client):
    """The other requests of the model wait for an inspection."""
    assert inspected(client, "gpt", "fox " * 20).status == 200
    reply = inspected(client, "gpt", "q" * 300)
    assert reply.status == 400 and "at most 256" in reply.json["error"]["message"], reply.body
    assert inspected(client, "gpt", "q" * 2001).status == 400
