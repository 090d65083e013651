"""Starting a server on this machine, for this machine."""

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
    """Answer on 127.0.0.1 until Ctrl-C. port: 0 takes a free one. ready is told the address.

    UsageError where the port is taken or not ours to take.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind((ADDRESS, port))
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            why = "is taken by another program" if taken else error.strerror or str(error)
            raise UsageError(f"port {port}: {why}", hint="--port 0 takes a free one") from error
        port = door.getsockname()[1]
        guarded = Guard(app, hosts=(f"{ADDRESS}:{port}", f"localhost:{port}"), limit=LIMIT)
        config = uvicorn.Config(
            guarded, log_level="warning", access_log=False, server_header=False, lifespan="off"
        )
        server = uvicorn.Server(config)
        door.listen()
        ready(f"http://{ADDRESS}:{port}/")
        server.run(sockets=[door])
