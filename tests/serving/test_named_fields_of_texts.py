"""A 400 for a text names the field of the request that has it."""

import pytest

from tests.fixtures import bundles
from tests.fixtures.model_server import running


@pytest.fixture(scope="module")
def client():
    with running({"encoder": bundles.encoder(max_length=40)}) as client:
        yield client


@pytest.mark.parametrize(
    "route, fields, param",
    [
        ("/v1/rerank", {"query": "", "documents": ["a"]}, "query"),
        ("/v1/rerank", {"query": "a\0", "documents": ["a"]}, "query"),
        ("/v1/rerank", {"query": "a", "documents": ["a", " "]}, "documents"),
        ("/rerank", {"query": "a", "documents": [{"text": ""}]}, "documents"),
        ("/v1/score", {"text_1": "", "text_2": "a"}, "text_1"),
        ("/v1/score", {"text_1": "a", "text_2": ["a", ""]}, "text_2"),
        ("/embed", {"inputs": ["a", ""]}, "inputs"),
        ("/v1/embeddings", {"input": ["a", ""]}, "input"),
    ],
)
def test_an_empty_text_is_refused_by_the_name_of_its_field(client, route, fields, param):
    reply = client.post(route, fields)
    error = reply.json["error"]
    assert reply.status == 400 and error["param"] == param, error
    assert "must not be empty" in error["message"]
