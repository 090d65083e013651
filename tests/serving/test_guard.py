"""Requests of other origins and requests above the size limit do not reach the application."""

import json

import pytest

from headway.serving import Guard
from tests.fixtures.coroutines import run

HOST = "127.0.0.1:8000"


async def echo(scope, receive, send):
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    head = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})


def send_request(headers, chunks=(b"",), kind="http", limit=10):
    """Return status, headers and body of the response of a guarded `echo`; None without one."""
    messages = [
        {"type": "http.request", "body": chunk, "more_body": i + 1 < len(chunks)}
        for i, chunk in enumerate(chunks)
    ]
    sent = []

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    guard = Guard(echo, hosts=(HOST, "localhost:8000"), limit=limit)
    scope = {"type": kind, "headers": [(k.encode(), v.encode()) for k, v in headers.items()]}
    run(guard(scope, receive, send))
    if not sent:
        return None
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


@pytest.mark.parametrize("host", [HOST, "localhost:8000"])
@pytest.mark.parametrize("origin", [{}, {"origin": f"http://{HOST}"}])
def test_the_own_page_gets_a_response_with_isolation_headers(host, origin):
    status, headers, body = send_request({"host": host, **origin}, (b"12345", b"67890"))
    assert (status, body) == (200, b"1234567890")
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert headers[b"cross-origin-resource-policy"] == b"same-origin"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": ""},
        {"host": "evil.example:8000"},
        {"host": "127.0.0.1"},
        {"host": "127.0.0.1:8001"},
        {"host": HOST, "origin": "http://evil.example"},
        {"host": HOST, "origin": "null"},
        {"host": HOST, "origin": f"https://{HOST}"},
        {"host": HOST, "sec-fetch-site": "cross-site"},
        {"host": HOST, "sec-fetch-site": "same-site"},
    ],
)
def test_requests_of_other_origins_are_refused(headers):
    status, _, body = send_request(headers, (b"secret",))
    assert status == 403 and b"secret" not in body
    assert json.loads(body)["error"]


@pytest.mark.parametrize(
    ("headers", "chunks"),
    [
        ({"content-length": "11"}, (b"",)),
        ({}, (b"12345", b"678901")),
        ({"content-length": "3"}, (b"12345", b"678901")),  # a false length
    ],
)
def test_bodies_above_the_limit_are_not_read(headers, chunks):
    status, _, body = send_request({"host": HOST, **headers}, chunks)
    assert status == 413 and "10 bytes" in json.loads(body)["error"]


@pytest.mark.parametrize("length", ["-1", "ten", "1e3", "", "٣"])
def test_a_length_that_is_not_a_number_is_refused(length):
    assert send_request({"host": HOST, "content-length": length})[0] == 400


def test_a_websocket_gets_no_response():
    assert send_request({"host": HOST}, kind="websocket") is None
