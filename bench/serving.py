"""The model server under load: throughput, latency, prefix cache, one-shot tasks.

    python -m bench.serving --rounds 3 [--size mini|gpt2-small] [--only NAME ...]

The model has random weights: speed does not depend on them. Everything runs on this machine, each
ratio inside one run, A B A B. The requests come from threads of the same process.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import random
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from tests.fixtures.small_encoder import TEXTS, encoder
from tests.fixtures.translators import make

from headway.bundle import TextBundle
from headway.decoding import GenerationConfig
from headway.models import GPT, BertClassifier, GPTConfig
from headway.models.bert import Bert, BertConfig
from headway.serving.engine import Engine, EngineSettings, Event, Finished, Generation
from headway.serving.http.server import Address, ModelServer
from headway.serving.model_server import ServerSettings, serve_bundles
from headway.settings import override
from headway.tasks.classification.bundle import ClassifierBundle, ClassInput
from headway.tasks.classification.reader import ClassReader
from headway.tasks.translation.bundle import TranslatorBundle
from headway.text import CharacterTokenizer
from headway.transforms.fast import prepare_for_inference

STREAMS, TOKENS = 16, 64
VOCABULARY = 4000
WORDS = ["the", "fox", "eats", "lemon", "two", "dogs", "play", "in", "red", "garden", "bread"]


class Client:
    """Requests to the server at one port, over connections that stay open, one for each thread."""

    def __init__(self, port: int, engine: Engine) -> None:
        self.port, self.engine = port, engine
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
        """Return the times of the events of a greedy completion, from its start."""
        begun, times = time.perf_counter(), []
        body = {"prompt": list(prompt), "max_tokens": tokens, "min_tokens": tokens}
        body |= {"model": "gpt", "temperature": 0, "stream": True, **fields}
        response = self.post("/v1/completions", body)
        for line in response:
            if line.startswith(b"data: {"):
                times.append(time.perf_counter() - begun)
        return times


def started(bundles: dict[str, Any], settings: EngineSettings) -> tuple[Client, ModelServer]:
    """Start a server in a thread."""
    found: list[Any] = []
    is_ready = threading.Event()

    def ready(address: str, server: ModelServer) -> None:
        port = int(address.rsplit(":", 1)[1].strip("/"))
        found.extend((Client(port, server.models.named("gpt").engine), server))
        is_ready.set()

    chosen = ServerSettings(address=Address(port=0), engine=settings)
    threading.Thread(target=serve_bundles, args=(bundles, chosen, ready)).start()
    is_ready.wait()
    while not found[1].started:
        time.sleep(0.01)
    return found[0], found[1]


def model_of(size: str) -> TextBundle:
    # every token is a character, so that every token is an event
    tokenizer = CharacterTokenizer.train(["".join(map(chr, range(0x4E00, 0x4E00 + VOCABULARY)))])
    shape = {**GPTConfig.sizes[size], "max_length": 1024, "vocabulary": tokenizer.size}
    config = override(GPTConfig(), shape, "bench")
    torch.manual_seed(0)
    bundle = TextBundle(GPT(config).eval(), tokenizer)
    prepare_for_inference(bundle.model)
    return bundle


def classifier() -> ClassifierBundle:
    base = encoder(max_length=64)
    config = override(
        BertConfig(), {**BertConfig.sizes["mini"], "vocabulary": base.tokenizer.size}, "bench"
    )
    model = BertClassifier(Bert(config), 4, "first").eval()
    prepare_for_inference(model)
    return ClassifierBundle(model, ClassReader(base.tokenizer, ("a", "b", "c", "d"), 64))


def translator() -> TranslatorBundle:
    bundle = make(model_dim=256, num_heads=4, ffn_dim=1024, encoder_layers=3, decoder_layers=3)
    prepare_for_inference(bundle.model.eval())
    return bundle


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


def in_process(engine: Engine, asked: Sequence[Sequence[int]]) -> None:
    """Submit the same requests to the engine, without HTTP, and wait for all events."""
    left = threading.Semaphore(0)

    def report(event: Event) -> None:
        if isinstance(event, Finished):
            left.release()

    config = GenerationConfig(max_tokens=TOKENS, min_tokens=TOKENS, temperature=0.0)
    for prompt in asked:
        job = Generation(
            report=report,
            deadline=time.monotonic() + 600,
            cost=1,
            prompt=prompt,
            config=config,
            shown=True,
        )
        engine.submit(job)
    for _ in asked:
        left.acquire()


def throughput(client: Client, bundle: TextBundle, number: int) -> dict[str, float]:
    """16 streams at once against one after the other, and against the engine without HTTP."""
    asked = prompts(STREAMS, 12, number)
    alone = seconds(lambda: [client.stream(prompt, TOKENS) for prompt in asked])
    at_once = seconds(lambda: together(client, asked, TOKENS))
    without = seconds(lambda: in_process(client.engine, asked))
    return {
        "16 streams: times faster than one by one": alone / at_once,
        "16 streams: part of the speed without HTTP": without / at_once,
        "16 streams: tokens per second": STREAMS * TOKENS / at_once,
    }


def prefix(client: Client, bundle: TextBundle, number: int) -> dict[str, float]:
    """Time to the first token of prompts of 960 tokens with 80 % in the prefix cache."""
    shared = prompts(1, 768, 1000 + number)[0]
    ends = prompts(4, 192, 2000 + number)
    client.stream([*shared, *ends[0]], 1)
    cold = statistics.median(client.stream(p, 1)[0] for p in prompts(3, 960, 3000 + number))
    warm = statistics.median(client.stream([*shared, *end], 1)[0] for end in ends[1:])
    return {"prefix cache: time to first token, part of without": warm / cold}


def pause(client: Client, bundle: TextBundle, number: int) -> dict[str, float]:
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
    block = prompts(1, 64, 1)[0]
    state = bundle.model.start(torch.zeros(1, 0, dtype=torch.long))
    with torch.inference_mode():
        chunk = seconds(lambda: bundle.model.extend(torch.tensor([block]), state))
    return {
        "beside a long prompt: longest pause in ms": 1000 * max(waits),
        "beside a long prompt: usual pause in ms": 1000 * statistics.median(waits),
        "beside a long prompt: ms of a block of 64 tokens": 1000 * chunk,
    }


def poisson(client: Client, bundle: TextBundle, number: int) -> dict[str, float]:
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


def one_shot(client: Client, bundle: TextBundle, number: int) -> dict[str, float]:
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


def translations(client: Client, bundle: TextBundle, number: int) -> dict[str, float]:
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


PARTS: dict[str, Callable[[Client, TextBundle, int], dict[str, float]]] = {
    "throughput": throughput,
    "prefix": prefix,
    "pause": pause,
    "poisson": poisson,
    "one_shot": one_shot,
    "translations": translations,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", default="mini")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    chosen = parser.parse_args()
    torch.set_num_threads(1)  # only the engines compute with several, as in `headway serve`
    bundle, classes = model_of(chosen.size), classifier()
    classes.predict([ClassInput(text="warm")])
    models = {"gpt": bundle, "classes": classes, "translator": translator()}
    engine = EngineSettings(slots=STREAMS, threads=chosen.threads)
    client, server = started(models, engine)
    client.stream(prompts(1, 12, 0)[0], 4)
    rows: dict[str, list[float]] = {}
    for number in range(chosen.rounds):
        for name in chosen.only:
            for row, value in PARTS[name](client, bundle, number).items():
                rows.setdefault(row, []).append(value)
    server.handle_exit(15, None)
    print(f"{chosen.size}, {chosen.threads} threads, {chosen.rounds} rounds")
    for row, values in rows.items():
        spread = f"{min(values):.2f} to {max(values):.2f}"
        print(f"{row:60} {statistics.median(values):8.2f}   ({spread})")


if __name__ == "__main__":
    main()
