"""Every field of every known client is honoured, or refused with its name, or has no effect."""

import msgspec
import pytest

from headway.serving.http.app import ENDPOINTS
from headway.serving.http.known_fields import Refused
from tests.fixtures import bundles
from tests.fixtures.chat_model import BUNDLE, HELLO, TEMPLATE
from tests.fixtures.client_schemas import SCHEMAS
from tests.fixtures.model_server import language_model, running
from tests.fixtures.pages import docs_module

ROUTES = {endpoint.path: endpoint for endpoint in ENDPOINTS if endpoint.body is not None}
REQUESTS = {
    "/v1/completions": {"model": "plain", "prompt": "the fox", "max_tokens": 2, "temperature": 0},
    "/v1/chat/completions": {
        "model": "chat",
        "messages": HELLO,
        "max_tokens": 2,
        "temperature": 0,
    },
    "/v1/embeddings": {"model": "encoder", "input": "a fox"},
    "/embed": {"model": "encoder", "inputs": "a fox"},
    "/v1/rerank": {"model": "encoder", "query": "a fox", "documents": ["the fox", "a dog"]},
    "/v1/score": {"model": "encoder", "text_1": "a fox", "text_2": ["the fox", "a dog"]},
    "/tokenize": {"model": "plain", "prompt": "a fox"},
    "/detokenize": {"model": "plain", "tokens": [5, 6]},
}
CHANGED = ("id", "created")
"""Fields of replies that differ from request to request."""
REFUSED = [
    (route, name)
    for route in REQUESTS
    for name, treatment in ROUTES[route].body.known.items()
    if isinstance(treatment, Refused)
]
WITHOUT_EFFECT = [
    (route, name)
    for route in REQUESTS
    for name, treatment in ROUTES[route].body.known.items()
    if not isinstance(treatment, Refused)
]


@pytest.fixture(scope="module")
def client():
    models = {"plain": language_model(), "chat": BUNDLE, "encoder": bundles.encoder(max_length=40)}
    with running(models, templates={"chat": TEMPLATE}) as client:
        yield client


@pytest.fixture(scope="module")
def plain_replies(client):
    return {route: stable(client.post(route, body)) for route, body in REQUESTS.items()}


def stable(reply):
    assert reply.status == 200, reply.body
    if not isinstance(reply.json, dict):
        return reply.json
    values = {name: value for name, value in reply.json.items() if name not in CHANGED}
    values.get("usage", {}).pop("prompt_tokens_details", None)
    return values


def honoured(route):
    return {field.encode_name for field in msgspec.structs.fields(ROUTES[route].body)}


@pytest.mark.parametrize("route", REQUESTS)
def test_every_field_of_every_client_is_in_the_tables_of_its_route(route):
    known = honoured(route) | set(ROUTES[route].body.known)
    assert not SCHEMAS[route] - known
    assert not honoured(route) & set(ROUTES[route].body.known)  # one treatment for each field


@pytest.mark.turns(3)
@pytest.mark.parametrize("route, name", REFUSED)
def test_a_refused_field_is_a_400_that_names_it_unless_its_value_changes_nothing(
    client, plain_replies, route, name
):
    treatment = ROUTES[route].body.known[name]
    for value in (None, *treatment.neutral):
        reply = client.post(route, {**REQUESTS[route], name: value})
        assert stable(reply) == plain_replies[route], value
        assert "x-headway-ignored-fields" not in reply.headers
    for value in ("another", {"a": [1]}, 7.5):
        reply = client.post(route, {**REQUESTS[route], name: value})
        assert reply.status == 400, (value, reply.body)
        error = reply.json["error"]
        assert error["param"] == name and name in error["message"]
        assert treatment.instead in error["message"]


@pytest.mark.turns(3)
@pytest.mark.parametrize("route, name", WITHOUT_EFFECT)
def test_a_field_without_effect_changes_no_reply(client, plain_replies, route, name):
    for value in (None, True, "a", {"a": 1}):
        reply = client.post(route, {**REQUESTS[route], name: value})
        assert stable(reply) == plain_replies[route], value


def test_a_field_that_no_client_knows_is_ignored_and_named_in_a_header(client):
    body = {**REQUESTS["/v1/completions"], "temprature": 0, "x y\n": [1]}
    reply = client.post("/v1/completions", body)
    assert reply.status == 200
    assert reply.headers["x-headway-ignored-fields"] == "temprature, x%20y%0A"
    streamed = client.post("/v1/completions", {**body, "stream": True})
    assert streamed.headers["x-headway-ignored-fields"] == "temprature, x%20y%0A"
    many = {f"unknown{n:03}": n for n in range(100)}
    reply = client.post("/v1/completions", {**REQUESTS["/v1/completions"], **many})
    assert len(reply.headers["x-headway-ignored-fields"].split(", ")) == 16


@pytest.mark.parametrize(
    "name, value",
    [
        ("stream_options", {"include_obfuscation": True}),
        ("stream_options", {"continuous_usage_stats": True}),
        ("stream_options", {"other": 1}),
        ("response_format", {"type": "json_object", "schema": {"type": "object"}}),
        ("response_format", {"type": "json_object", "value": {"type": "object"}}),
        ("response_format", {"type": "regex", "value": "a"}),
        ("structured_outputs", {"grammar": "root ::= 'a'"}),
        ("structured_outputs", {"regex": "a", "choice": ["b"]}),
        ("structured_outputs", {"other": 1}),
        ("grammar", "root ::= 'a'"),
        ("grammar", {"type": "regex", "value": {}}),
    ],
)
@pytest.mark.parametrize("route", ["/v1/completions", "/v1/chat/completions"])
def test_a_field_inside_a_field_is_refused_by_name_too(client, route, name, value):
    reply = client.post(route, {**REQUESTS[route], "stream": True, name: value})
    assert reply.status == 400 and reply.json["error"]["param"] == name, reply.body


def test_the_page_of_the_reference_is_made_from_the_tables_of_the_server():
    with docs_module("request_fields") as module:
        assert module.PAGE.read_text(encoding="utf-8") == module.page(), (
            "run python docs/request_fields.py"
        )
