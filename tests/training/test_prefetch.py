"""Prefetching: the same batches in the same order, errors where they occur, no thread left."""

import threading
import time

import pytest

from headway.training.prefetch import prefetched


def numbered(made, count=10**6, fail_at=None):
    for number in range(count):
        if number == fail_at:
            raise ValueError("a damaged line")
        made.append(number)
        yield 0, number + 1, f"batch {number}"


def test_the_batches_are_those_of_the_stream_in_their_order():
    with prefetched(numbered([], count=50)) as stream:
        assert list(stream) == list(numbered([], count=50))


def test_batches_are_made_ahead_and_no_further():
    made = []
    with prefetched(numbered(made), ahead=3) as stream:
        next(stream)
        deadline = time.monotonic() + 60
        while len(made) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)  # one taken, three ready
        time.sleep(0.05)
        assert len(made) == 4


def test_an_error_is_raised_where_its_batch_would_be():
    with prefetched(numbered([], fail_at=3)) as stream:
        assert [next(stream)[1] for _ in range(3)] == [1, 2, 3]
        with pytest.raises(ValueError, match="a damaged line"):
            next(stream)


def test_no_thread_is_left_after_the_block_whatever_ends_it():
    before = threading.active_count()
    with prefetched(numbered([])) as stream:
        next(stream)
    with pytest.raises(KeyError), prefetched(numbered([])):
        raise KeyError
    assert threading.active_count() == before
