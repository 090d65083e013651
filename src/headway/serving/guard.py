"""What every request must pass before anything reads it."""

from __future__ import annotations

import json
from collections.abc import Iterable

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
    """Refuses what does not come from a page of ours, and bodies above `limit` bytes.

    hosts: the names with port under which we are called ("127.0.0.1:8000"). Another Host header is
    a foreign page whose name was pointed at this machine (DNS rebinding); another Origin is a
    foreign page that asks in the user's name (CSRF). Both get 403, a body too large 413.
    """

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str], limit: int) -> None:
        self.app, self.hosts, self.limit = app, frozenset(hosts), limit
        self.origins = frozenset(f"http://{host}" for host in self.hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # a websocket: nothing of ours speaks so; the server closes it
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._refused(headers)
        if refused is not None:
            await _say(send, *refused)
            return
        read = 0

        async def limited() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.limit:
                raise TooLarge
            return message

        begun = False

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        try:
            await self.app(scope, limited, guarded)
        except TooLarge:
            if begun:
                raise
            await _say(send, 413, self._too_large())

    def _refused(self, headers: dict[bytes, str]) -> tuple[int, str] | None:
        """Status and reason; None: let it in."""
        host, origin = headers.get(b"host", ""), headers.get(b"origin")
        if host not in self.hosts:
            return 403, f"this server is {' or '.join(sorted(self.hosts))}, not {host!r}"
        if origin is not None and origin not in self.origins:
            return 403, f"a page of {origin!r} may not ask this server"
        if headers.get(b"sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403, "another page may not ask this server"
        length = headers.get(b"content-length", "0")
        if not (length.isascii() and length.isdecimal()):
            return 400, "Content-Length is no number"
        return (413, self._too_large()) if int(length) > self.limit else None

    def _too_large(self) -> str:
        return f"a request may have {self.limit:,} bytes"


class TooLarge(Exception):
    """The body of a request is larger than it may be."""


async def _say(send: Send, status: int, what: str) -> None:
    body = json.dumps({"error": what}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *HEADERS,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
