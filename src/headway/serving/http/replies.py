"""Replies: JSON, errors in OpenAI's form, and streams of server-sent events."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headway.base.errors import HeadwayError, OutOfMemory
from headway.serving.engine import Expired, Refused

DONE = b"data: [DONE]\n\n"
_TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
_encoder = msgspec.json.Encoder()


class ApiError(Exception):
    """A reply that is an error. param: the field at fault. retry_after: in seconds."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.param, self.code, self.retry_after = param, code, retry_after

    @property
    def body(self) -> dict[str, object]:
        """The error as JSON."""
        usual = "server_error" if self.status >= 500 else "invalid_request_error"
        kind = _TYPES.get(self.status, usual)
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return {"error": error}

    def reply(self) -> Response:
        """The error as a response."""
        headers = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        return json_reply(self.body, self.status, headers)


def as_api_error(error: Exception) -> ApiError:
    """Return the reply for an error of the engine or of a model."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, Refused):
        texts = {
            "full": (429, "the queue of this model is full: try again later"),
            "draining": (503, "the server is shutting down"),
            "dead": (503, "this model has stopped working; the server will end"),
        }
        status, message = texts[error.why]
        return ApiError(status, message, code=error.why, retry_after=error.retry_after)
    if isinstance(error, Expired):
        return ApiError(504, "the request took longer than this server allows", code="timeout")
    if isinstance(error, OutOfMemory):
        return ApiError(503, error.what, code="out_of_memory", retry_after=5)
    if isinstance(error, HeadwayError):
        hint = "" if error.hint is None else f" ({error.hint})"
        return ApiError(400, error.what + hint)
    return ApiError(500, "an internal error; the server's log has more", code="internal")


def json_reply(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a value as JSON. NaN and infinity, which JSON does not have, become null."""
    body = _encoder.encode(value)
    return Response(body, status, headers, media_type="application/json")


def event(value: object, name: str = "") -> bytes:
    """Return a value as one server-sent event, which may have a name."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + _encoder.encode(value) + b"\n\n"


class EventStream(Response):
    """A stream of server-sent events. An error in the middle of it is an event, too.

    close: called at the end, also if the client goes.
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], close: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self._events, self._close = events, close
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-store"
        self.headers["x-accel-buffering"] = "no"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        try:
            await send(start)
            async for part in self._events:
                await _send_part(send, part)
        except ConnectionError:
            return
        except Exception as error:
            await _send_part(send, event(as_api_error(error).body))
            await _send_part(send, DONE)
        finally:
            await self._close()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send_part(send: Send, part: bytes) -> None:
    await send({"type": "http.response.body", "body": part, "more_body": True})
