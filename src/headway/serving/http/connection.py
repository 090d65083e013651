"""HTTP/1.1 connections with a deadline for the request, which uvicorn's own do not have."""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 10.0
"""From the first byte of a request, or from the connection, to the last byte of the request."""

_WHOLE = (h11.DONE, h11.MUST_CLOSE, h11.CLOSED, h11.ERROR)


class Connection(H11Protocol):
    """Closes a connection whose client takes too long to send its request, line by line."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin()

    def data_received(self, data: bytes) -> None:
        if self._deadline is None:
            self._begin()
        super().data_received(data)
        if self.conn.their_state in _WHOLE:
            self._end()

    def on_response_complete(self) -> None:
        """Begin the deadline of a request whose first bytes came with the request before it."""
        super().on_response_complete()
        is_begun = self.conn.their_state is h11.SEND_BODY or bool(self.conn.trailing_data[0])
        if self._deadline is None and is_begun and self.conn.their_state not in _WHOLE:
            self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        super().connection_lost(exc)

    def _begin(self) -> None:
        self._deadline = self.loop.call_later(SECONDS, self._too_slow)

    def _end(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()
