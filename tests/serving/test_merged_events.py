"""Events of a busy server: few wake-ups of its loop, and the news of an output as one event."""

import asyncio
import threading

from headway.serving.engine import Finished, Grown
from headway.serving.http import exchange
from headway.serving.http.exchange import Mailbox
from tests.fixtures.coroutines import run


def grown(index, text, token, reason=None):
    return Grown(index, text, (token,), (-1.0 * token,), (), reason)


def test_the_news_of_an_output_that_wait_are_one_event():
    done = Finished([])
    items = [
        (0, grown(0, "a", 1)),
        (0, grown(1, "x", 7)),
        (0, grown(0, "b", 2)),
        (1, grown(0, "c", 3)),
        (0, grown(0, "", 4, "end")),
        (1, done),
        None,
    ]
    merged = exchange._merged(items)
    assert merged[0] == (0, Grown(0, "ab", (1, 2, 4), (-1.0, -2.0, -4.0), (), "end"))
    assert merged[1:] == [items[1], items[3], items[5], None]


def test_a_loop_is_woken_once_for_the_events_that_come_before_it_looks(monkeypatch):
    arrived, woken = [], []

    async def main():
        loop = asyncio.get_running_loop()
        mailbox = Mailbox(loop)
        call = loop.call_soon_threadsafe

        def counted(*arguments):
            woken.append(1)
            return call(*arguments)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)

        def put(first):
            for number in range(first, first + 100):
                mailbox.put(arrived.append, number)

        for first in (0, 100):
            thread = threading.Thread(target=put, args=[first])
            thread.start()
            thread.join()  # the loop cannot look meanwhile
            while len(arrived) < first + 100:
                await asyncio.sleep(0.001)

    run(main())
    assert arrived == list(range(200)) and len(woken) == 2
