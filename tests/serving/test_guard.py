"""Requests of other origins and requests above the size limit do not reach the application."""

import json

import pytest

from headway.base.errors import UsageError
from headway.serving import Guard
from headway.serving.guard import checked_origin
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


def send_request(headers, chunks=(b"",), kind="http", limit=10, method="POST", **settings):
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

    guard = Guard(echo, hosts=(HOST, "localhost:8000"), limit=limit, **settings)
    scope = {"type": kind, "method": method, "path": "/x"}
    scope |= {"headers": [(k.encode(), v.encode()) for k, v in headers.items()]}
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


PAGE = "https://app.example"
SHARED = {"origins": [PAGE], "key": "secret"}
ASKS = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization, content-type, x-stainless-lang",
}


def test_a_page_of_an_allowed_origin_may_send_what_it_asks_for():
    headers = {"host": HOST, "origin": PAGE, "sec-fetch-site": "cross-site", **ASKS}
    status, answer, body = send_request(headers, method="OPTIONS", **SHARED)
    assert status == 204 and body == b""
    assert answer[b"access-control-allow-origin"] == PAGE.encode()
    assert answer[b"access-control-allow-methods"] == b"GET, POST"
    wanted = ASKS["access-control-request-headers"].encode()
    assert answer[b"access-control-allow-headers"] == wanted
    assert answer[b"vary"] == b"Origin" and b"access-control-allow-credentials" not in answer
    private = {"access-control-request-private-network": "true"}
    _, answer, _ = send_request({**headers, **private}, method="OPTIONS", **SHARED)
    assert answer[b"access-control-allow-private-network"] == b"true"
    odd = {**headers, "access-control-request-headers": "a\r\nx: y"}
    _, answer, _ = send_request(odd, method="OPTIONS", **SHARED)
    assert answer[b"access-control-allow-headers"] == b"authorization, content-type"


def test_a_page_of_an_allowed_origin_reads_replies_and_errors():
    headers = {"host": HOST, "origin": PAGE, "sec-fetch-site": "cross-site"}
    given = {**headers, "authorization": "Bearer secret"}
    status, answer, body = send_request(given, (b"12345",), **SHARED)
    assert (status, body) == (200, b"12345")
    assert answer[b"access-control-allow-origin"] == PAGE.encode()
    for sent, expected in ((headers, 401), ({**given, "content-length": "11"}, 413)):
        status, answer, _ = send_request(sent, **SHARED)
        assert status == expected and answer[b"access-control-allow-origin"] == PAGE.encode()
    own = {"host": HOST, "authorization": "Bearer secret"}
    assert b"access-control-allow-origin" not in send_request(own, **SHARED)[1]


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example", "origin": PAGE},
        {"host": HOST, "origin": "https://app.example.evil.example"},
        {"host": HOST, "origin": "http://app.example"},
        {"host": HOST, "origin": f"{PAGE}:8443"},
        {"host": HOST, "origin": "null"},
        {"host": HOST, "sec-fetch-site": "cross-site"},
    ],
)
@pytest.mark.parametrize("method", ["POST", "OPTIONS"])
def test_other_pages_are_refused_beside_an_allowed_origin(headers, method):
    status, answer, _ = send_request({**headers, **ASKS}, method=method, **SHARED)
    assert status == 403
    if headers.get("origin") != PAGE:
        assert b"access-control-allow-origin" not in answer


@pytest.mark.parametrize(
    "text, expected",
    [
        ("https://App.Example", "https://app.example"),
        ("https://app.example/", "https://app.example"),
        ("https://app.example:443", "https://app.example"),
        ("http://app.example:80", "http://app.example"),
        ("http://localhost:3000", "http://localhost:3000"),
        ("http://[::1]:3000", "http://[::1]:3000"),
        ("chrome-extension://abc", "chrome-extension://abc"),
    ],
)
def test_an_origin_has_the_form_that_browsers_send(text, expected):
    assert checked_origin(text) == expected


@pytest.mark.parametrize(
    "text",
    ["*", "null", "app.example", "https://", "https://a/b", "https://a//", "https://ä.de", ""],
)
def test_what_is_no_origin_is_refused(text):
    with pytest.raises(UsageError, match="cannot be allowed"):
        checked_origin(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("*", "any page"),
        ("null", "pages in files"),
        ("app.example", "no scheme"),
        ("localhost:5173", "no scheme"),
        ("https://app.example/chat", "a path"),
        ("https://münchen.example", "in ASCII"),
    ],
)
def test_the_most_natural_mistakes_are_named(text, why):
    with pytest.raises(UsageError, match=why):
        checked_origin(text)


def test_a_server_without_allowed_origins_answers_no_page_that_asks():
    headers = {"host": HOST, "origin": PAGE, **ASKS}
    status, answer, _ = send_request(headers, method="OPTIONS")
    assert status == 403 and b"access-control-allow-origin" not in answer
