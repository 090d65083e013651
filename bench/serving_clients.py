"""The clients of `bench.serving`: requests over HTTP, and what they measure.

One thread reads all streams, so that the clients take little of the cores that they share with the
server.
"""

from __future__ import annotations

import http.client
import itertools
import json
import random
import selectors
import socket
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tests.fixtures.small_encoder import TEXTS

STREAMS, TOKENS = 16, 64
VOCABULARY = 4000
WORDS = ["the", "fox", "eats", "lemon", "two", "dogs", "play", "in", "red", "garden", "bread"]


class Client:
    """Requests to the server at one port, over connections that stay open, one for each thread."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._local = threading.local()

    def post(self, path: str, body: dict[str, Any]) -> http.client.HTTPResponse:
        if not hasattr(self._local, "connection"):
            self._local.connection = http.client.HTTPConnection("127.0.0.1", self.port)
        try:
            response = self._send(path, body)
        except (BrokenPipeError, ConnectionResetError, http.client.RemoteDisconnected):
            self._local.connection.close()  # the server had closed it, idle: the next opens anew
            response = self._send(path, body)
        assert response.status == 200, response.read()
        return response

    def _send(self, path: str, body: dict[str, Any]) -> http.client.HTTPResponse:
        headers = {"content-type": "application/json"}
        connection: http.client.HTTPConnection = self._local.connection
        connection.request("POST", path, json.dumps(body), headers)
        return connection.getresponse()


@dataclass(frozen=True)
class Request:
    """A request for a streamed completion. prompt: a text, or the tokens of one. after: seconds
    from the start to sending it."""

    prompt: str | Sequence[int]
    tokens: int
    after: float = 0.0
    model: str = "gpt"


class Stream:
    """A greedy completion under way, with the times of its events since its request."""

    def __init__(self, port: int, request: Request) -> None:
        fields = {"model": request.model, "temperature": 0, "stream": True}
        fields |= {"prompt": request.prompt, "max_tokens": request.tokens}
        if not isinstance(request.prompt, str):  # of a model that might end
            fields["min_tokens"] = request.tokens
        body = json.dumps(fields).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.times: list[float] = []
        self._begun, self._reply = time.perf_counter(), b""
        self.connection = socket.create_connection(("127.0.0.1", port))
        self.connection.sendall(head.encode() + body)

    def read(self) -> bool:
        """Read what has arrived; return whether the stream has ended.

        The reply is counted, not parsed: parsing takes more time.
        """
        part = self.connection.recv(2**16)
        self.times += [time.perf_counter() - self._begun] * part.count(b"data: {")
        self._reply += part
        assert part and self._reply.startswith(b"HTTP/1.1 200 "), self._reply
        return self._reply.endswith(b"\r\n0\r\n\r\n")


def streamed(port: int, requests: Sequence[Request]) -> list[list[float]]:
    """Send each request at its time; return the times of its events, in the order of requests."""
    begun, streams = time.perf_counter(), dict[int, Stream]()
    unsent = sorted(range(len(requests)), key=lambda number: requests[number].after)
    with selectors.DefaultSelector() as selector:
        while unsent or selector.get_map():
            wait = requests[unsent[0]].after - (time.perf_counter() - begun) if unsent else None
            if wait is not None and wait <= 0:
                number = unsent.pop(0)
                streams[number] = Stream(port, requests[number])
                selector.register(streams[number].connection, selectors.EVENT_READ, number)
                continue
            for key, _ in selector.select(wait):
                stream = streams[key.data]
                if stream.read():
                    selector.unregister(stream.connection)
                    stream.connection.close()
    return [streams[number].times for number in range(len(requests))]


def first_token(port: int, prompt: Sequence[int], tokens: int = 1) -> float:
    """Return the seconds to the first token of one completion."""
    return streamed(port, [Request(prompt, tokens)])[0][0]


def gaps(streams: Sequence[Sequence[float]]) -> list[float]:
    """Return the seconds between the events of each stream."""
    return [later - earlier for times in streams for earlier, later in itertools.pairwise(times)]


def prompts(count: int, length: int, seed: int) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(VOCABULARY) for _ in range(length)] for _ in range(count)]


def seconds(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def prefix(port: int, number: int) -> dict[str, float]:
    """Time to the first token of prompts of 960 tokens with 80 % in the prefix cache."""
    shared = prompts(1, 768, 1000 + number)[0]
    ends = prompts(4, 192, 2000 + number)
    first_token(port, [*shared, *ends[0]])
    cold = statistics.median(first_token(port, p) for p in prompts(3, 960, 3000 + number))
    warm = statistics.median(first_token(port, [*shared, *end]) for end in ends[1:])
    return {"prefix cache: time to first token, part of without": warm / cold}


def pause(port: int, number: int) -> dict[str, float]:
    """Longest time between two tokens of streams while a prompt of 960 tokens is read."""
    requests = [Request(prompt, 200) for prompt in prompts(4, 12, 4000 + number)]
    long = Request(prompts(1, 960, 5000 + number)[0], 1, after=0.3)
    waits = gaps(streamed(port, [*requests, long])[:-1])
    return {
        "beside a long prompt: longest pause in ms": 1000 * max(waits),
        "beside a long prompt: usual pause in ms": 1000 * statistics.median(waits),
    }


def poisson(port: int, number: int) -> dict[str, float]:
    """Latencies at 70 % of the capacity of 16 streams, with random arrivals."""
    requests = [Request(prompt, TOKENS) for prompt in prompts(STREAMS, 12, 6000 + number)]
    unloaded = statistics.median(first_token(port, r.prompt, TOKENS) for r in requests[:5])
    rate = 0.7 * STREAMS / seconds(lambda: streamed(port, requests))
    draw, after = random.Random(number), 0.0
    arriving = list[Request]()
    for prompt in prompts(60, 12, 7000 + number):
        arriving.append(Request(prompt, TOKENS, after))
        after += draw.expovariate(rate)
    streams = streamed(port, arriving)
    waits = gaps(streams)
    p95 = statistics.quantiles([times[0] for times in streams], n=20)[-1]
    p99 = statistics.quantiles(waits, n=100)[-1]
    return {
        "70 % load: p95 time to first token, times unloaded": p95 / unloaded,
        "70 % load: p99 between tokens, times the median": p99 / statistics.median(waits),
    }


def one_shot(port: int, number: int) -> dict[str, float]:
    """96 classifications from 32 clients at once against one by one."""
    client = Client(port)
    draw = random.Random(number)
    texts = [" ".join(draw.choices(TEXTS, k=1)) for _ in range(96)]

    def ask(text: str) -> Any:
        return json.loads(client.post("/classify", {"inputs": text}).read())

    alone = seconds(lambda: [ask(text) for text in texts])

    def at_once() -> None:
        with ThreadPoolExecutor(32) as pool:
            list(pool.map(ask, texts))

    return {"32 clients: times faster than one by one": alone / seconds(at_once)}


def translations(port: int, number: int) -> dict[str, float]:
    """Greedy translations of short and long texts, from 8 clients at once against one by one."""
    client = Client(port)
    draw = random.Random(number)
    texts = [" ".join(draw.choices(WORDS, k=draw.choice([3, 3, 24]))) for _ in range(48)]
    times: list[float] = []

    def ask(text: str) -> None:
        fields = {"inputs": text, "parameters": {"beam": 1}}
        spent = seconds(lambda: client.post("/translate", fields).read())
        if len(text.split()) == 3:
            times.append(spent)

    def one_by_one() -> None:
        for text in texts:
            ask(text)

    alone = seconds(one_by_one)
    short_alone = statistics.median(times)
    times.clear()

    def at_once() -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(ask, texts))

    return {
        "8 clients that translate: times faster than one by one": alone / seconds(at_once),
        "8 clients that translate: time of a short text, times that alone": statistics.median(times)
        / short_alone,
    }


PARTS: dict[str, Callable[[int, int], dict[str, float]]] = {
    "prefix": prefix,
    "pause": pause,
    "poisson": poisson,
    "one_shot": one_shot,
    "translations": translations,
}


def measure_part(port: int, part: str, number: int) -> dict[str, float]:
    """Return the figures of one part against the server at a port."""
    return PARTS[part](port, number)
