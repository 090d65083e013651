"""One request and its jobs, which are cancelled if its client goes."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote
from weakref import WeakKeyDictionary

import msgspec
from starlette.requests import Request

from headway.decoding import Search
from headway.serving.engine import Computation, Engine, Event, Failed, Finished, Grown, Job
from headway.serving.http.known_fields import RequestBody, refuse
from headway.serving.http.replies import ApiError
from headway.serving.http.served import ServedModel, ServedModels
from headway.serving.http.text_sizes import FORM_BODY, TEXT_BODY, check_body

S = TypeVar("S")
B = TypeVar("B", bound=RequestBody)
MOST_EVENTS = 4096
"""Events that wait for a client that reads slowly, after which its jobs are cancelled."""
SPACING, LONGEST_SPACING = 1.5e-4, 0.02
"""Seconds between two deliveries of events to requests, for each event of the first one, and at
most. An event takes about 50 us to send, in which the engine has to wait for Python. So it takes at
most a third of the time, and what many outputs got meanwhile is sent as one event of each."""
IGNORED = "x-headway-ignored-fields"
MOST_NAMED, LONGEST_NAME = 16, 64
"""Of the header `IGNORED`: its number of names, and their number of characters."""


async def read_json(request: Request, kind: type[B]) -> B:
    """Return the body as a `kind`.

    ApiError 400 or 415 names the field that is wrong, or that a client knows and the route does not
    honour; 413 a body that is too large. Fields that no client knows are ignored; a header of the
    reply names them (`note_ignored`).
    """
    check_media_type(request, "application/json")
    values = await _decoded(request, dict[str, msgspec.Raw], TEXT_BODY)
    honoured = {field.encode_name for field in msgspec.structs.fields(kind)}
    others = {name: raw for name, raw in values.items() if name not in honoured}
    for name in sorted(others.keys() & kind.known.keys()):
        refuse(kind.known, name, msgspec.json.decode(others[name]))
    note_ignored(request, others.keys() - kind.known.keys())
    return await _decoded(request, kind, TEXT_BODY)


async def read_object(request: Request, limit: int | None) -> dict[str, object]:
    """Return the body as a JSON object. ApiError as for `read_json`."""
    check_media_type(request, "application/json")
    return await _decoded(request, dict[str, object], limit)


def note_ignored(request: Request, names: Iterable[str]) -> None:
    """Remember the names of ignored fields, for a header of the reply."""
    known = getattr(request.state, "ignored_fields", [])
    request.state.ignored_fields = sorted({*known, *names})


def ignored_header(request: Request) -> dict[str, str]:
    """Return the header that names the ignored fields of a request; empty if there are none."""
    names = getattr(request.state, "ignored_fields", [])[:MOST_NAMED]
    return {IGNORED: ", ".join(quote(name[:LONGEST_NAME]) for name in names)} if names else {}


async def _decoded(request: Request, kind: type[S], limit: int | None) -> S:
    body = await request.body()
    check_body(body, limit)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        field = re.search(r"`\$\.(\w+)", str(error))
        raise ApiError(400, str(error), param=field and field.group(1)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ApiError(400, f"the body is not valid JSON: {error}") from None


async def parse_form(request: Request) -> dict[str, str]:
    """Return the fields of a body in the form of HTML's forms; the last of equal names counts."""
    body = await request.body()
    check_body(body, FORM_BODY)
    try:
        text = body.decode("utf-8", errors="replace")
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=64))
    except ValueError as error:
        raise ApiError(400, f"the body is no valid form: {error}") from None


def check_media_type(request: Request, *known: str) -> None:
    """Raise ApiError 415 unless the body is declared as one of these types."""
    given = request.headers.get("content-type", known[0]).partition(";")[0].strip().lower()
    if given not in known:
        message = f"Content-Type must be {' or '.join(known)}, not {given or 'empty'}"
        raise ApiError(415, message)


class Mailbox:
    """Brings the events of engines to the requests of an event loop.

    The loop is woken once for all events that come before it looks.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._events: deque[Callable[[], None]] = deque()
        self._is_woken = False
        self._next = 0.0  # the time of the next delivery, by the clock of the loop

    def put(self, deliver: Callable[[S], None], event: S) -> None:
        """Call `deliver` with an event in the loop. Any thread may call this method."""
        self._events.append(partial(deliver, event))
        if not self._is_woken:
            self._is_woken = True
            with suppress(RuntimeError):  # the server has ended
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        wait = self._next - self._loop.time()
        if wait > 0:
            self._loop.call_later(wait, self._deliver)
        else:
            self._deliver()

    def _deliver(self) -> None:
        self._is_woken = False  # before the look: what comes after it wakes the loop again
        number = 0
        while self._events:
            self._events.popleft()()
            number += 1
        self._next = self._loop.time() + min(number * SPACING, LONGEST_SPACING)


_MAILBOXES: WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox] = WeakKeyDictionary()


def mailbox_of(loop: asyncio.AbstractEventLoop) -> Mailbox:
    """Return the mailbox of all requests of an event loop."""
    if loop not in _MAILBOXES:
        _MAILBOXES[loop] = Mailbox(loop)
    return _MAILBOXES[loop]


class Disconnected(ConnectionError):
    """The client closed the connection."""


class Exchange:
    """The jobs of one request; those that are unfinished when it is closed are cancelled.

    seconds: the time after which they fail. Use it in an `async with`, or `open` and `close` it.
    """

    def __init__(self, request: Request, seconds: float) -> None:
        self.deadline = time.monotonic() + seconds
        self._receive = request.receive
        self._mailbox = mailbox_of(asyncio.get_running_loop())
        self._events: asyncio.Queue[tuple[int, Event] | None] = asyncio.Queue()
        self._jobs: list[Job] = []
        self._watch: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begin to watch the connection. The body must have been read."""
        self._watch = asyncio.create_task(self._until_disconnected())

    async def close(self) -> None:
        """Cancel what is unfinished."""
        for job in self._jobs:
            job.cancelled = True
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch

    async def __aenter__(self) -> Exchange:
        await self.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def submit(self, engine: Engine, make: Callable[[Callable[[Event], None]], Job]) -> None:
        """Make a job that reports to this exchange, and submit it."""
        number = len(self._jobs)

        def report(event: Event) -> None:
            if self._events.qsize() > MOST_EVENTS:
                job.cancelled = True
            self._mailbox.put(self._events.put_nowait, (number, event))

        job = make(report)
        self._jobs.append(job)
        engine.submit(job)

    async def events(self) -> AsyncIterator[tuple[int, Event]]:
        """Yield (number of a job, event) until all jobs have finished. Raises the first error, and
        Disconnected if the client goes.

        The new tokens of an output that wait already come as one event.
        """
        unfinished = len(self._jobs)
        while unfinished:
            items = [await self._events.get()]
            while not self._events.empty():
                items.append(self._events.get_nowait())
            for item in _merged(items):
                if item is None:
                    raise Disconnected
                if isinstance(item[1], Failed):
                    raise item[1].error
                unfinished -= isinstance(item[1], Finished)
                yield item

    async def results(self) -> list[Finished]:
        """Return the results of all jobs, in order."""
        found: dict[int, Finished] = {}
        async for number, event in self.events():
            if isinstance(event, Finished):
                found[number] = event
        return [found[number] for number in range(len(self._jobs))]

    async def _until_disconnected(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        for job in self._jobs:
            job.cancelled = True
        self._events.put_nowait(None)


async def result_of(
    request: Request,
    served: ServedModel,
    inputs: Sequence[object],
    compute: Callable[[list[Any]], Search[Sequence[object]]],
    *,
    group: Hashable,
    cost: int,
) -> Any:
    """Return the results of one computation of a model, in the order of its inputs.

    group, compute: as in `Computation`. cost: the estimated number of tokens.
    """
    models: ServedModels = request.app.state.models
    async with Exchange(request, models.seconds) as exchange:
        exchange.submit(
            served.engine,
            lambda report: Computation(
                report=report,
                deadline=exchange.deadline,
                cost=cost,
                group=group,
                inputs=inputs,
                compute=compute,
            ),
        )
        (finished,) = await exchange.results()
    return finished.result


def _merged(items: Sequence[tuple[int, Event] | None]) -> list[tuple[int, Event] | None]:
    """Return the items with all new tokens of an output in the first of its events."""
    merged: list[tuple[int, Event] | None] = []
    place: dict[tuple[int, int], int] = {}  # job and output -> index of its event in `merged`
    grown: dict[tuple[int, int], Grown] = {}  # job and output -> that event
    for item in items:
        later = None if item is None else item[1]
        if item is None or not isinstance(later, Grown):
            merged.append(item)
            continue
        number, output = item[0], (item[0], later.index)
        if output in place:
            later = grown[output].followed_by(later)
            merged[place[output]] = number, later
        else:
            place[output] = len(merged)
            merged.append(item)
        grown[output] = later
    return merged
