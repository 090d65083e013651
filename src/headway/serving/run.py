"""A server that can be reached from this machine only, and the sockets of servers."""

import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from headway.base.errors import UsageError
from headway.serving.guard import Guard

ADDRESS = "127.0.0.1"
LIMIT = 30_000_000  # bytes of one request: a photograph, in base64


@contextmanager
def listen(host: str, port: int) -> Iterator[socket.socket]:
    """Yield a socket that listens at an address. UsageError if that is in use or not permitted."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # with its protocol named: asyncio switches Nagle's algorithm off only then, and with it the
    # second write of an answer waits 40 ms for the client's delayed acknowledgement of the first
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            in_use = error.errno == errno.EADDRINUSE
            reason = "is in use by another program" if in_use else error.strerror or str(error)
            where = f"port {port}" if in_use or host == ADDRESS else f"address {host}:{port}"
            raise UsageError(f"{where}: {reason}", hint="--port 0 selects a free port") from error
        listener.listen()
        yield listener


def serve(app: ASGIApp, port: int, ready: Callable[[str], None]) -> None:
    """Serve an app on 127.0.0.1 until Ctrl-C.

    port: 0 selects a free one. ready: called with the address. UsageError if the port is in use or
    not permitted.
    """
    with listen(ADDRESS, port) as listener:
        port = listener.getsockname()[1]
        guarded = Guard(app, hosts=(f"{ADDRESS}:{port}", f"localhost:{port}"), limit=LIMIT)
        config = uvicorn.Config(
            guarded, log_level="warning", access_log=False, server_header=False, lifespan="off"
        )
        server = uvicorn.Server(config)
        ready(f"http://{ADDRESS}:{port}/")
        server.run(sockets=[listener])
