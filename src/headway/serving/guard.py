"""The checks of every request before it is processed."""

import hmac
import json
import re
from collections.abc import Callable, Iterable, Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway.base.errors import UsageError

HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)

Headers = Sequence[tuple[bytes, bytes]]
EXPOSED = b"retry-after, x-headway-ignored-fields"
"""Headers of replies that pages of other origins may read, besides the usual ones."""
ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?")
USUAL_PORTS = {"http": "80", "https": "443"}
HEADER_NAMES = re.compile(r"[a-z0-9_-]+( *, *[a-z0-9_-]+)*")


class Guard:
    """Refuses requests that are not from a page of this server, and bodies above `limit` bytes.

    hosts: the addresses of this server with port ("127.0.0.1:8000"). Another Host header is a
    foreign domain that resolves to this machine (DNS rebinding); another Origin is a request of a
    foreign page on behalf of the user (CSRF). Both get status 403, a body that is too large 413.
    origins: other origins (`checked_origin`) whose pages may send requests and read the replies; a
    browser asks for that before, which needs no key (CORS). key: if set, requests without
    "Authorization: Bearer KEY" get 401, except for the paths in `public`. behind_proxy: whether
    pages of this server may come by https. error_form: returns an error as JSON, from its status
    and message.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Iterable[str],
        limit: int,
        origins: Iterable[str] = (),
        key: str | None = None,
        public: Iterable[str] = (),
        behind_proxy: bool = False,
        error_form: Callable[[int, str], object] | None = None,
    ) -> None:
        self.app, self.hosts, self.limit = app, frozenset(hosts), limit
        schemes = ("http", "https") if behind_proxy else ("http",)
        self.own_origins = {f"{kind}://{host}" for host in self.hosts for kind in schemes}
        self.other_origins = frozenset(origins)
        self.key, self.public = key, frozenset(public)
        self.error_form = error_form or plain_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # a websocket, which the page does not use; the server closes it
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        shared = self._shared_with(headers)
        refusal = self._refusal(headers)
        if refusal is None and shared and scope["method"] == "OPTIONS":
            await _send_permission(send, headers, shared)
            return
        refusal = refusal or self._without_key(scope, headers)
        if refusal is not None:
            await _send_error(send, refusal[0], self.error_form(*refusal), shared)
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
                message["headers"] = [*message.get("headers", ()), *HEADERS, *shared]
            await send(message)

        try:
            await self.app(scope, limited, guarded)
        except TooLarge:
            if started:
                raise
            await _send_error(send, 413, self.error_form(413, self._too_large()), shared)

    def _shared_with(self, headers: dict[bytes, str]) -> Headers:
        """Return the headers by which a browser lets a page of another origin read the reply."""
        origin = headers.get(b"origin", "")
        if origin not in self.other_origins:
            return ()
        allowed = (b"access-control-allow-origin", origin.encode("latin-1"))
        return (allowed, (b"vary", b"Origin"), (b"access-control-expose-headers", EXPOSED))

    def _refusal(self, headers: dict[bytes, str]) -> tuple[int, str] | None:
        """The status and reason of a refused request; None if it is accepted."""
        host, origin = headers.get(b"host", ""), headers.get(b"origin")
        if host not in self.hosts:
            return 403, f"the Host must be {' or '.join(sorted(self.hosts))}, not {host!r}"
        is_other = origin in self.other_origins
        if origin is not None and not is_other and origin not in self.own_origins:
            return 403, f"pages of {origin!r} may not send requests to this server"
        if not is_other and headers.get(b"sec-fetch-site", "same-origin") not in (
            "same-origin",
            "none",
        ):
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


def plain_error(status: int, message: str) -> object:
    """An error of the inspection page, as JSON."""
    return {"error": message}


def checked_origin(text: str) -> str:
    """Return an origin in the form in which browsers send it: https://app.example:8443.

    A slash at the end is left out. Raises UsageError for a text that is none: with a path, without
    a scheme, or "*".
    """
    match = ORIGIN.fullmatch(text.lower().removesuffix("/"))
    if match is None:
        raise UsageError(
            f"the origin {text!r} cannot be allowed: {_fault_of_origin(text)}",
            hint="name each origin, such as https://app.example or http://localhost:5173",
        )
    scheme, host, port = match.groups()
    is_usual = port is None or port == USUAL_PORTS.get(scheme)
    return f"{scheme}://{host}" + ("" if is_usual else f":{port}")


def _fault_of_origin(text: str) -> str:
    if text.strip() == "*":
        return "any page that a user of this machine opens could use the server"
    if text.lower() in ("null", "file", "file:", "file://", "file:///"):
        return "pages in files have no origin, and any page can be without one; serve the page"
    if "://" not in text:
        return "it has no scheme, http:// or https://"
    if "/" in text.partition("://")[2]:
        return "it has a path, but an origin is a scheme, a host and perhaps a port"
    return "an origin is a scheme, a host and perhaps a port, in ASCII"


async def _send_permission(send: Send, headers: dict[bytes, str], shared: Headers) -> None:
    """Answer the request by which a browser asks what a page of another origin may send."""
    wanted = headers.get(b"access-control-request-headers", "").lower()
    names = wanted if HEADER_NAMES.fullmatch(wanted) else "authorization, content-type"
    answer = [
        *shared,
        (b"access-control-allow-methods", b"GET, POST"),
        (b"access-control-allow-headers", names.encode("latin-1")),
        (b"access-control-max-age", b"600"),
        *HEADERS,
    ]
    if headers.get(b"access-control-request-private-network") == "true":
        answer.append((b"access-control-allow-private-network", b"true"))
    await send({"type": "http.response.start", "status": 204, "headers": answer})
    await send({"type": "http.response.body", "body": b""})


async def _send_error(send: Send, status: int, content: object, shared: Headers) -> None:
    body = json.dumps(content).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *HEADERS,
        *shared,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
