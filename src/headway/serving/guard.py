"""The checks of every request before it is processed."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Iterable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Guard:
    """Refuses requests that are not from a page of this server, and bodies above `limit` bytes.

    hosts: the addresses of this server with port ("127.0.0.1:8000"). Another Host header is a
    foreign domain that resolves to this machine (DNS rebinding); another Origin is a request of a
    foreign page on behalf of the user (CSRF). Both get status 403, a body that is too large 413.
    key: if set, requests without "Authorization: Bearer KEY" get 401, except for the paths in
    `public`. behind_proxy: whether pages of this server may come by https. error_form: returns an
    error as JSON, from its status and message.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Iterable[str],
        limit: int,
        key: str | None = None,
        public: Iterable[str] = (),
        behind_proxy: bool = False,
        error_form: Callable[[int, str], Any] | None = None,
    ) -> None:
        self.app, self.hosts, self.limit = app, frozenset(hosts), limit
        schemes = ("http", "https") if behind_proxy else ("http",)
        self.origins = frozenset(f"{kind}://{host}" for host in self.hosts for kind in schemes)
        self.key, self.public = key, frozenset(public)
        self.error_form = error_form or plain_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # a websocket, which the page does not use; the server closes it
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(headers) or self._without_key(scope, headers)
        if refusal is not None:
            await _send_error(send, refusal[0], self.error_form(*refusal))
            return
        read = 0

        async def limited() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.limit:
                raise TooLarge
            return message

        started = False

        async def guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        try:
            await self.app(scope, limited, guarded)
        except TooLarge:
            if started:
                raise
            await _send_error(send, 413, self.error_form(413, self._too_large()))

    def _refusal(self, headers: dict[bytes, str]) -> tuple[int, str] | None:
        """The status and reason of a refused request; None if it is accepted."""
        host, origin = headers.get(b"host", ""), headers.get(b"origin")
        if host not in self.hosts:
            return 403, f"the Host must be {' or '.join(sorted(self.hosts))}, not {host!r}"
        if origin is not None and origin not in self.origins:
            return 403, f"pages of {origin!r} may not send requests to this server"
        if headers.get(b"sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403, "pages of other sites may not send requests to this server"
        length = headers.get(b"content-length", "0")
        if not (length.isascii() and length.isdecimal()):
            return 400, "Content-Length must be a whole number"
        return (413, self._too_large()) if int(length) > self.limit else None

    def _without_key(self, scope: Scope, headers: dict[bytes, str]) -> tuple[int, str] | None:
        """The status and reason for a request without the key; None if it is accepted."""
        if self.key is None or scope["path"] in self.public:
            return None
        kind, _, given = headers.get(b"authorization", "").partition(" ")
        # compares in a time that does not depend on the key
        is_right = hmac.compare_digest(given.strip().encode(), self.key.encode())
        if kind.lower() == "bearer" and is_right:
            return None
        return 401, "this server needs a key: send the header Authorization: Bearer KEY"

    def _too_large(self) -> str:
        return f"a request may have at most {self.limit:,} bytes"


class TooLarge(Exception):
    """The body of a request is larger than allowed."""


def plain_error(status: int, message: str) -> Any:
    """An error of the inspection page, as JSON."""
    return {"error": message}


async def _send_error(send: Send, status: int, content: Any) -> None:
    body = json.dumps(content).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *HEADERS,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
