"""The model server under load: throughput, latency, prefix cache, one-shot tasks.

    python -m bench.serving --rounds 3 [--size mini|gpt2-small] [--only NAME ...]

The model has random weights: speed does not depend on them. Everything runs on this machine, each
ratio inside one run, A B A B. The requests come from a process of their own, on the same cores as
the server.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch
from tests.fixtures.small_encoder import encoder
from tests.fixtures.translators import make

from bench.serving_clients import (
    PARTS,
    SECONDS_OF_STREAMS,
    STREAMS,
    TOKENS,
    VOCABULARY,
    measure,
    prompts,
    seconds,
)
from headway.base.settings import override
from headway.bundle import TextBundle
from headway.decoding import GenerationConfig
from headway.models import GPT, BertClassifier, GPTConfig
from headway.models.bert import Bert, BertConfig
from headway.serving.engine import Engine, EngineSettings, Event, Finished, Generation
from headway.serving.http.server import Address, ModelServer
from headway.serving.model_server import ServerSettings, serve_bundles
from headway.tasks.classification.model import ClassifierBundle, ClassInput
from headway.tasks.classification.reader import ClassReader
from headway.tasks.translation.bundle import TranslatorBundle
from headway.text import CharacterTokenizer
from headway.transforms.fast.table import prepare_for_inference


def started(bundles: dict[str, Any], settings: EngineSettings) -> tuple[int, ModelServer]:
    """Start a server in a thread; return its port, and the server."""
    found: list[Any] = []
    is_ready = threading.Event()

    def ready(address: str, server: ModelServer) -> None:
        found.extend((int(address.rsplit(":", 1)[1].strip("/")), server))
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


def without_http(engine: Engine, number: int) -> float:
    """Return the seconds of the engine for the requests of the part "throughput"."""
    return seconds(lambda: in_process(engine, prompts(STREAMS, 12, number)))


def block_of_a_prompt(bundle: TextBundle) -> float:
    """Return the seconds for a block of 64 tokens."""
    state = bundle.model.start(torch.zeros(1, 0, dtype=torch.long))
    with torch.inference_mode():
        return seconds(lambda: bundle.model.extend(torch.tensor(prompts(1, 64, 1)), state))


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
    settings = EngineSettings(slots=STREAMS, threads=chosen.threads)
    port, server = started(models, settings)
    rows: dict[str, list[float]] = {}
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as clients:
        for number in range(chosen.rounds):
            for part in chosen.only:
                found = clients.submit(measure, port, part, number).result()
                if part == "throughput":
                    alone = without_http(server.models.named("gpt").engine, number)
                    ratio = alone / found.pop(SECONDS_OF_STREAMS)
                    found["16 streams: part of the speed without HTTP"] = ratio
                if part == "pause":
                    block = 1000 * block_of_a_prompt(bundle)
                    found["beside a long prompt: ms of a block of 64 tokens"] = block
                for row, value in found.items():
                    rows.setdefault(row, []).append(value)
    server.handle_exit(15, None)
    print(f"{chosen.size}, {chosen.threads} threads, {chosen.rounds} rounds")
    for row, values in rows.items():
        spread = f"{min(values):.2f} to {max(values):.2f}"
        print(f"{row:60} {statistics.median(values):8.2f}   ({spread})")


if __name__ == "__main__":
    main()
