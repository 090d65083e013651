"""The page that looks inside a model, live: its files, what it reads, and what it asks.

GET / is the page; GET /api/header and /api/block/NAME what it shows first;
POST /api/look, /api/without and /api/walk ask for more, in JSON, and are answered by a header
whose blocks are asked for in turn.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headway.errors import HeadwayError
from headway.files import parse_json
from headway.inspection.document import Document
from headway.inspection.page import encode, header_json, served_page
from headway.serving.question import Question, parse

KEPT = 6
"""Answers whose blocks can still be asked for: as many as a few open pages show."""


@runtime_checkable
class Viewer(Protocol):
    """A model that can be asked. HeadwayError for what it cannot say."""

    def look(self, asked: Question) -> Document: ...

    def without(self, asked: Question) -> Document:
        """Frames: as it is, and with asked.heads switched off."""
        ...

    def walk(self, asked: Question) -> Document:
        """The computation of one head at one place, step by step."""
        ...


class _Answers:
    """The last answers, each block under a name that says of which answer it is."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._kept: OrderedDict[str, Mapping[str, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, document: Document) -> bytes:
        """The header, as JSON."""
        with self._lock:
            own = f"a{next(self._numbers)}-"
        encoded = encode(document, live=True, prefix=own)
        with self._lock:
            self._kept[own] = encoded.blocks
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return header_json(encoded.header)

    def block(self, name: str) -> bytes | None:
        with self._lock:
            return self._kept.get(name.partition("-")[0] + "-", {}).get(name)


def viewer_app(viewer: Viewer, first: Document) -> Starlette:
    """The page on `first`, and what it asks `viewer`, one question at a time: a model has one set
    of heads to be switched off, and one machine to run on."""
    answers, turn = _Answers(), threading.Lock()
    opening = answers.add(first)

    async def page(request: Request) -> Response:
        return Response(served_page(), media_type="text/html")

    async def header(request: Request) -> Response:
        return Response(opening, media_type="application/json")

    async def block(request: Request) -> Response:
        found = answers.block(request.path_params["name"])
        if found is None:
            return _error(404, "this look is no longer kept; ask again")
        return Response(found, media_type="application/octet-stream")

    def answer(verb: Callable[[Question], Document], asked: Question) -> bytes:
        with turn:
            return answers.add(verb(asked))

    async def ask(request: Request) -> Response:
        verb = getattr(viewer, request.url.path.rsplit("/", 1)[1])
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return _error(415, "a question is JSON: Content-Type: application/json")
        body = await request.body()
        try:
            told = parse_json(body, "the request")
            said = await run_in_threadpool(answer, verb, parse(told))
        except HeadwayError as error:
            return _error(400, error.what, error.where, error.hint)
        except Exception as error:  # ours: the page goes on, the terminal tells what to report
            logging.getLogger(__name__).exception("unexpected; please report it")
            return _error(500, f"unexpected {type(error).__name__}: {error}")
        return Response(said, media_type="application/json")

    return Starlette(
        routes=[
            Route("/", page),
            Route("/api/header", header),
            Route("/api/block/{name}", block),
            *(Route(f"/api/{verb}", ask, methods=["POST"]) for verb in ("look", "without", "walk")),
        ]
    )


def _error(status: int, what: str, where: str | None = None, hint: str | None = None) -> Response:
    told = {"error": what, "where": where, "hint": hint}
    return JSONResponse({name: text for name, text in told.items() if text}, status)
