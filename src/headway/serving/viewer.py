"""The HTTP routes of the live inspection page.

GET / is the page; GET /api/header and GET /api/block/NAME are its first document. POST /api/look,
/api/without and /api/walk take a request in JSON and return a header, whose blocks are then
requested one by one.
"""

import itertools
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Protocol

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headway.base.errors import HeadwayError
from headway.base.files import parse_json
from headway.inspection.document import Document
from headway.inspection.page import encode, header_json, served_page
from headway.serving.inspection_request import InspectionRequest, parse

KEPT = 6
"""Number of documents whose blocks are kept, enough for a few open pages."""


class Viewer(Protocol):
    """A model behind the page. HeadwayError if it cannot process a request."""

    def look(self, request: InspectionRequest) -> Document: ...

    def without(self, request: InspectionRequest) -> Document:
        """Frames with all heads, and with the heads of the request switched off."""
        ...

    def walk(self, request: InspectionRequest) -> Document:
        """The computation of one head at one position, step by step."""
        ...


class _Documents:
    """The last documents; the name of each block has the number of its document as a prefix."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._blocks: OrderedDict[str, Mapping[str, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, document: Document) -> bytes:
        """Keep the blocks of a document, and return its header as JSON."""
        with self._lock:
            prefix = f"a{next(self._numbers)}-"
        encoded = encode(document, live=True, prefix=prefix)
        with self._lock:
            self._blocks[prefix] = encoded.blocks
            while len(self._blocks) > KEPT:
                self._blocks.popitem(last=False)
        return header_json(encoded.header)

    def block(self, name: str) -> bytes | None:
        with self._lock:
            return self._blocks.get(name.partition("-")[0] + "-", {}).get(name)


def viewer_app(viewer: Viewer, first: Document) -> Starlette:
    """The app of the page, which first shows the document `first`.

    Requests are processed one at a time, since they switch heads of one model on and off.
    """
    documents, turn = _Documents(), threading.Lock()
    first_header = documents.add(first)

    async def page(request: Request) -> Response:
        return Response(served_page(), media_type="text/html")

    async def header(request: Request) -> Response:
        return Response(first_header, media_type="application/json")

    async def block(request: Request) -> Response:
        data = documents.block(request.path_params["name"])
        if data is None:
            return _error(404, "this document is no longer available; send the request again")
        return Response(data, media_type="application/octet-stream")

    def answer(verb: Callable[[InspectionRequest], Document], question: InspectionRequest) -> bytes:
        with turn:
            return documents.add(verb(question))

    async def ask(request: Request) -> Response:
        verb = getattr(viewer, request.url.path.rsplit("/", 1)[1])
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return _error(415, "Content-Type must be application/json")
        body = await request.body()
        try:
            question = parse(parse_json(body, "the request"))
            header = await run_in_threadpool(answer, verb, question)
        except HeadwayError as error:
            return _error(400, error.what, error.where, error.hint)
        except Exception as error:  # a bug: the server continues; the traceback is logged
            logging.getLogger(__name__).exception("unexpected; please report it")
            return _error(500, f"unexpected {type(error).__name__}: {error}")
        return Response(header, media_type="application/json")

    return Starlette(
        routes=[
            Route("/", page),
            Route("/api/header", header),
            Route("/api/block/{name}", block),
            *(Route(f"/api/{verb}", ask, methods=["POST"]) for verb in ("look", "without", "walk")),
        ]
    )


def _error(status: int, what: str, where: str | None = None, hint: str | None = None) -> Response:
    parts = {"error": what, "where": where, "hint": hint}
    return JSONResponse({name: text for name, text in parts.items() if text}, status)
