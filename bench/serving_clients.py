"""The clients of `bench.serving`: requests over HTTP, and what they measure.

They run in a process of their own, as clients do: in the process of the server they would hold up
its engine whenever they read an event.
"""

from __future__ import annotations

import http.client
import itertools
import json
import random
import socket
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.fixtures.small_encoder import TEXTS

STREAMS, TOKENS = 16, 64
VOCABULARY = 4000
SECONDS_OF_STREAMS = "16 streams: seconds"
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

    def stream(self, prompt: Sequence[int], tokens: int, **fields: Any) -> list[float]:
        """Return the times of the events of a greedy completion, from its start.

        The reply is counted, not parsed: the client shall take little of the server's cores.
        """
        fields = {"model": "gpt", "temperature": 0, "stream": True, **fields}
        fields |= {"prompt": list(prompt), "max_tokens": tokens, "min_tokens": tokens}
        body = json.dumps(fields).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        begun, times, reply = time.perf_counter(), [], b""
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(head.encode() + body)
            while not reply.endswith(b"\r\n0\r\n\r\n"):
                part = connection.recv(2**16)
                times += [time.perf_counter() - begun] * part.count(b"data: {")
                reply += part
                assert part, reply
        assert reply.startswith(b"HTTP/1.1 200 "), reply
        return times


def prompts(count: int, length: int, seed: int) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(VOCABULARY) for _ in range(length)] for _ in range(count)]


def seconds(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def together(client: Client, asked: Sequence[Sequence[int]], tokens: int) -> None:
    with ThreadPoolExecutor(len(asked)) as pool:
        list(pool.map(lambda prompt: client.stream(prompt, tokens), asked))


def throughput(client: Client, number: int) -> dict[str, float]:
    """16 streams at once against one after the other."""
    asked = prompts(STREAMS, 12, number)
    alone = seconds(lambda: [client.stream(prompt, TOKENS) for prompt in asked])
    at_once = seconds(lambda: together(client, asked, TOKENS))
    return {
        "16 streams: times faster than one by one": alone / at_once,
        SECONDS_OF_STREAMS: at_once,
        "16 streams: tokens per second": STREAMS * TOKENS / at_once,
    }


def prefix(client: Client, number: int) -> dict[str, float]:
    """Time to the first token of prompts of 960 tokens with 80 % in the prefix cache."""
    shared = prompts(1, 768, 1000 + number)[0]
    ends = prompts(4, 192, 2000 + number)
    client.stream([*shared, *ends[0]], 1)
    cold = statistics.median(client.stream(p, 1)[0] for p in prompts(3, 960, 3000 + number))
    warm = statistics.median(client.stream([*shared, *end], 1)[0] for end in ends[1:])
    return {"prefix cache: time to first token, part of without": warm / cold}


def pause(client: Client, number: int) -> dict[str, float]:
    """Longest time between two tokens of streams while a prompt of 960 tokens is read."""
    asked = prompts(4, 12, 4000 + number)
    with ThreadPoolExecutor(5) as pool:
        streams = [pool.submit(client.stream, prompt, 200) for prompt in asked]
        time.sleep(0.3)
        pool.submit(client.stream, prompts(1, 960, 5000 + number)[0], 1).result()
        waits = [
            later - earlier
            for stream in streams
            for earlier, later in itertools.pairwise(stream.result())
        ]
    return {
        "beside a long prompt: longest pause in ms": 1000 * max(waits),
        "beside a long prompt: usual pause in ms": 1000 * statistics.median(waits),
    }


def poisson(client: Client, number: int) -> dict[str, float]:
    """Latencies at 70 % of the capacity of 16 streams, with random arrivals."""
    asked = prompts(STREAMS, 12, 6000 + number)
    unloaded = statistics.median(client.stream(prompt, TOKENS)[0] for prompt in asked[:5])
    rate = 0.7 * STREAMS / seconds(lambda: together(client, asked, TOKENS))
    draw, firsts, gaps, threads = random.Random(number), [], [], []

    def one(prompt: Sequence[int]) -> None:
        times = client.stream(prompt, TOKENS)
        firsts.append(times[0])
        gaps.extend(b - a for a, b in itertools.pairwise(times))

    for prompt in prompts(60, 12, 7000 + number):
        threads.append(threading.Thread(target=one, args=(prompt,)))
        threads[-1].start()
        time.sleep(draw.expovariate(rate))
    for thread in threads:
        thread.join()
    p95 = statistics.quantiles(firsts, n=20)[-1]
    p99 = statistics.quantiles(gaps, n=100)[-1]
    return {
        "70 % load: p95 time to first token, times unloaded": p95 / unloaded,
        "70 % load: p99 between tokens, times the median": p99 / statistics.median(gaps),
    }


def one_shot(client: Client, number: int) -> dict[str, float]:
    """96 classifications from 32 clients at once against one by one."""
    draw = random.Random(number)
    texts = [" ".join(draw.choices(TEXTS, k=1)) for _ in range(96)]

    def ask(text: str) -> Any:
        return json.loads(client.post("/classify", {"inputs": text}).read())

    alone = seconds(lambda: [ask(text) for text in texts])

    def at_once() -> None:
        with ThreadPoolExecutor(32) as pool:
            list(pool.map(ask, texts))

    return {"32 clients: times faster than one by one": alone / seconds(at_once)}


def translations(client: Client, number: int) -> dict[str, float]:
    """Greedy translations of short and long texts, from 8 clients at once against one by one."""
    draw = random.Random(number)
    texts = [" ".join(draw.choices(WORDS, k=draw.choice([3, 3, 24]))) for _ in range(48)]
    times: list[float] = []

    def ask(text: str) -> None:
        fields = {"inputs": text, "parameters": {"beam": 1}}
        spent = seconds(lambda: client.post("/translate", fields).read())
        if len(text.split()) == 3:
            times.append(spent)

    alone = seconds(lambda: [ask(text) for text in texts])
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


PARTS: dict[str, Callable[[Client, int], dict[str, float]]] = {
    "throughput": throughput,
    "prefix": prefix,
    "pause": pause,
    "poisson": poisson,
    "one_shot": one_shot,
    "translations": translations,
}


def measure(port: int, part: str, number: int) -> dict[str, float]:
    """Return the figures of one part against the server at a port."""
    return PARTS[part](Client(port), number)
