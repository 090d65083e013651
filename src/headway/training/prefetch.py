"""Prefetching: batches are made in a thread while a GPU computes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Any

from headway.training.loop import Stream

AHEAD = 2
"""Batches that are ready before they are used."""
_WAIT = 0.1  # seconds, after which both sides look whether the other has ended


@contextmanager
def prefetched(stream: Stream, ahead: int = AHEAD) -> Iterator[Stream]:
    """Iterate over the same batches inside the `with` block, made by a thread.

    Each batch comes with the position of the next one, so that a run that stops after any batch
    resumes with the following one: what was made ahead is dropped. An error of the stream is raised
    where its batch would be.
    """
    queue: Queue[Any] = Queue(ahead)
    is_over = Event()
    thread = Thread(target=_fill, args=(queue, stream, is_over), daemon=True)
    thread.start()
    try:
        yield _taken(queue, thread)
    finally:
        is_over.set()
        thread.join()


class _Failed:
    """The error that ended the stream; None if it had no more batches."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def _fill(queue: Queue[Any], stream: Stream, is_over: Event) -> None:
    ending = _Failed(None)
    try:
        for item in stream:
            if not _put(queue, item, is_over):
                return
    except BaseException as error:
        ending = _Failed(error)
    _put(queue, ending, is_over)


def _put(queue: Queue[Any], item: Any, is_over: Event) -> bool:
    """Return whether the item was taken over before the block was left."""
    while not is_over.is_set():
        try:
            queue.put(item, timeout=_WAIT)
        except Full:
            continue
        return True
    return False


def _taken(queue: Queue[Any], thread: Thread) -> Stream:
    while True:
        try:
            item = queue.get(timeout=_WAIT)
        except Empty:
            if thread.is_alive():
                continue
            return
        if isinstance(item, _Failed):
            if item.error is not None:
                raise item.error
            return
        yield item
