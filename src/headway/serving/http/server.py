"""The process of the server: listens, drains at SIGTERM, ends with an error if an engine dies."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from headway.serving.http.connection import Connection
from headway.serving.http.served import ServedModels
from headway.serving.run import listen

HEADER_BYTES = 2**16
CHECKED = 0.25  # seconds between two looks at the engines


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where the server listens. port: 0 selects a free one."""

    host: str = "127.0.0.1"
    port: int = 8000


class ModelServer(uvicorn.Server):
    """A server that finishes what it began before it ends. grace: seconds that this may take."""

    def __init__(self, config: uvicorn.Config, models: ServedModels, grace: float) -> None:
        super().__init__(config)
        self.models, self.grace = models, grace
        self.failed = False
        self._drains_from: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain at the first signal; end at once at the second.

        uvicorn calls this method for SIGINT and SIGTERM.
        """
        if self._drains_from is not None:
            self.should_exit = self.force_exit = True
            return
        self._drains_from = time.monotonic()
        for model in self.models:
            model.engine.waiting.draining = True

    async def watch_engines(self) -> None:
        """End the server when it is drained, when its grace is over, or when an engine died."""
        while not self.should_exit:
            await asyncio.sleep(CHECKED)
            if any(model.engine.error is not None for model in self.models):
                self.failed = self.should_exit = True
            if self._drains_from is None:
                continue
            is_over = time.monotonic() - self._drains_from > self.grace
            is_idle = not any(model.engine.busy for model in self.models)
            if is_over:
                for model in self.models:
                    model.engine.stop()
            if is_over or is_idle:
                await asyncio.sleep(CHECKED)  # the last answers are on their way
                self.should_exit = True

    async def serve_until_drained(self, sockets: list[object]) -> None:
        """Serve, and watch the engines."""
        watch = asyncio.create_task(self.watch_engines())
        try:
            await self.serve(sockets=sockets)  # type: ignore[arg-type]
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch


def serve_models(
    make_app: Callable[[int], ASGIApp],
    models: ServedModels,
    address: Address,
    *,
    grace: float,
    ready: Callable[[str, ModelServer], None],
) -> bool:
    """Serve until a signal; return whether it ended well.

    make_app: returns the app for the port. ready: called with the URL of the server, and with the
    server. UsageError if the address cannot be used.
    """
    for model in models:
        model.engine.start()
    with listen(address.host, address.port) as listener:
        port = listener.getsockname()[1]
        config = uvicorn.Config(
            make_app(port),
            http=Connection,
            h11_max_incomplete_event_size=HEADER_BYTES,
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_keep_alive=30,
            timeout_graceful_shutdown=2,
        )
        server = ModelServer(config, models, grace)
        ready(f"http://{address.host}:{port}/", server)
        try:
            asyncio.run(server.serve_until_drained([listener]))
        finally:
            for model in models:
                model.engine.stop()
    return not server.failed
