"""Two servers with OpenAI's API side by side, such as `headway serve` and `transformers serve`.

    headway serve FOLDER --port 8001
    transformers serve FOLDER --port 8002 --device cpu [--continuous-batching]
    python -m bench.serving_peer 8001 NAME 8002 FOLDER [--streams 16] [--tokens 64] [--rounds 4]

Clients at once, and one client alone, ask each server for greedy completions, by turns A B A B. The
tokens that a server reports are counted. Both servers compute on the cores of this machine, one at
a time.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import time
from concurrent.futures import ThreadPoolExecutor


def complete(port: int, model: str, number: int, tokens: int) -> int:
    """Return the number of tokens of a completion."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    prompt = f"the fox number {number} eats"
    body = {"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0}
    headers = {"content-type": "application/json"}
    connection.request("POST", "/v1/completions", json.dumps(body), headers)
    response = connection.getresponse()
    reply = response.read()
    connection.close()
    if response.status != 200:
        raise SystemExit(f"port {port}: status {response.status}: {reply.decode()}")
    reported: int = json.loads(reply)["usage"]["completion_tokens"]
    return reported


def speed(port: int, model: str, streams: int, tokens: int) -> float:
    """Return the tokens per second of several clients at once."""
    begun = time.perf_counter()
    with ThreadPoolExecutor(streams) as pool:
        numbers = pool.map(lambda n: complete(port, model, n, tokens), range(streams))
        total = sum(numbers)
    return total / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, kind in (("port", int), ("model", str), ("peer_port", int), ("peer_model", str)):
        parser.add_argument(name, type=kind)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=4)
    chosen = parser.parse_args()
    servers = [(chosen.port, chosen.model), (chosen.peer_port, chosen.peer_model)]
    for server in servers:
        complete(*server, 0, 4)
    for streams in (chosen.streams, 1):
        rounds = [
            [speed(*server, streams, chosen.tokens) for server in servers]
            for _ in range(chosen.rounds)
        ]
        first, second = (statistics.median(column) for column in zip(*rounds, strict=True))
        ratios = sorted(ours / theirs for ours, theirs in rounds)
        spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
        print(
            f"{streams:3} clients: {first:.0f} and {second:.0f} tokens/s, "
            f"{statistics.median(ratios):.2f} times as fast ({spread})"
        )


if __name__ == "__main__":
    main()
