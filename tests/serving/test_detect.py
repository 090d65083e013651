"""LibreTranslate's `/detect`: the one source language of a server's translators, or a 404."""

import urllib.parse

import pytest

from headway.tasks.translation.directions import Direction
from headway.tasks.translation.origin import Origin
from tests.fixtures import bundles
from tests.fixtures.model_server import running

FORM = "application/x-www-form-urlencoded"


def translator(*directions):
    bundle = bundles.translator()
    bundle.origin = Origin(tuple(Direction.parse(text) for text in directions), True)
    return bundle


@pytest.fixture(scope="module")
def client():
    models = {
        "french": translator("en-fr", "en-de"),
        "several": translator("en-fr", "de-fr"),
        "unnamed": translator(),
    }
    with running(models) as client:
        yield client


@pytest.mark.parametrize("extra", [{}, {"api_key": ""}])
def test_one_source_language_is_the_answer(client, extra):
    fields = {"q": "ein Fuchs", "model": "french", **extra}
    expected = [{"language": "en", "confidence": 0}]
    assert client.post("/detect", fields).json == expected
    coded = urllib.parse.urlencode(fields).encode()
    reply = client.post("/detect", coded, content_type=FORM)
    assert reply.json == expected and "x-headway-ignored-fields" not in reply.headers
    assert client.post("/detect?model=french", {"q": "a"}).json == expected


@pytest.mark.parametrize(
    "model, words",
    [("several", "en, de"), (None, "en, de"), ("unnamed", "no file names any")],
)
def test_another_server_says_that_it_detects_no_languages(client, model, words):
    reply = client.post("/detect", {"q": "ein Fuchs", "model": model})
    assert reply.status == 404 and words in reply.json["error"]["message"]
    assert "name the source" in reply.json["error"]["message"]


@pytest.mark.parametrize("fields", [{}, {"q": ""}, {"q": 3}, {"q": None}])
def test_a_request_without_a_text_is_refused(client, fields):
    reply = client.post("/detect", {"model": "french", **fields})
    assert reply.status == 400 and "q" in reply.json["error"]["message"]
    assert client.post("/detect", b"model=french", content_type=FORM).status == 400
