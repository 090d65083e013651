"""A server that can be reached from this machine only."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from headway.errors import UsageError
from headway.serving.guard import Guard

ADDRESS = "127.0.0.1"
LIMIT = 30_000_000  # bytes of one request: a photograph, in base64


def serve(app: ASGIApp, port: int, ready: Callable[[str], None]) -> None:
    """Serve an app on 127.0.0.1 until Ctrl-C.

    port: 0 selects a free one. ready: called with the address. UsageError if the port is in use or
    not permitted.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((ADDRESS, port))
        except OSError as error:
            in_use = error.errno == errno.EADDRINUSE
            reason = "is in use by another program" if in_use else error.strerror or str(error)
            raise UsageError(
                f"port {port}: {reason}", hint="--port 0 selects a free port"
            ) from error
        port = listener.getsockname()[1]
        guarded = Guard(app, hosts=(f"{ADDRESS}:{port}", f"localhost:{port}"), limit=LIMIT)
        config = uvicorn.Config(
            guarded, log_level="warning", access_log=False, server_header=False, lifespan="off"
        )
        server = uvicorn.Server(config)
        listener.listen()
        ready(f"http://{ADDRESS}:{port}/")
        server.run(sockets=[listener])
