"""Prefetching: batches are made in a thread while a GPU computes."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from headway.training.loop import Stream

AHEAD = 3
"""Batches that are made before they are used."""


@contextmanager
def prefetched(stream: Stream, ahead: int = AHEAD) -> Iterator[Stream]:
    """Iterate over the same batches inside the `with` block, made by a thread.

    Each batch comes with the position of the next one, so that a run that stops after any batch
    resumes with the following one: what was made ahead is dropped. An error of the stream is raised
    where its batch would be.
    """
    thread = ThreadPoolExecutor(1)
    made = deque(thread.submit(next, stream, None) for _ in range(ahead))

    def taken() -> Stream:
        while (item := made.popleft().result()) is not None:
            made.append(thread.submit(next, stream, None))
            yield item

    try:
        yield taken()
    finally:
        thread.shutdown(cancel_futures=True)
