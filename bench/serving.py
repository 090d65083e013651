"""`headway serve` under load: GPT-2 of 124 M parameters over HTTP, beside other ways to write.

Clients at once ask for streamed greedy completions, one client alone and many together. The peers
are the same model in one process (`headway.load(folder).generate`), `generate` of transformers and
`transformers serve`. Everything runs on this machine; the clients are a process of their own, on
the same cores. On a GPU some goals are figures, not ratios: their "peer" is the goal.

    python -m bench.serving --rounds 3 [--size mini|gpt2-small] [--only NAME ...]

measures what explains the speed of a server: prefix cache, pauses, random arrivals, one-shot tasks.
These models have random weights, and each ratio is from one run, A B A B.
"""

from __future__ import annotations

import argparse
import atexit
import http.client
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import torch
from tests.fixtures.small_encoder import encoder
from tests.fixtures.translators import make

import headway
from bench.commands import HEADWAY
from bench.decoding import write_models
from bench.goals import RATES, goal, kind
from bench.peers import torch_device
from bench.report import COMMANDS, Row, row
from bench.serving_clients import (
    PARTS,
    VOCABULARY,
    Request,
    measure_part,
    prompts,
    seconds,
    streamed,
)
from bench.sides import Answer, Settings, Side, Worker, environment, interleave
from headway.base.settings import override
from headway.bundle import TextBundle
from headway.models import GPT, Bert, BertClassifier, BertConfig, GPTConfig
from headway.tasks.classification.model import ClassifierBundle
from headway.tasks.classification.reader import ClassReader
from headway.text import CharacterTokenizer

BY = COMMANDS
REQUIRES = {
    "transformers_generate": ("transformers",),
    "transformers_serve": ("transformers", "fastapi", "uvicorn", "openai"),
}
PEERS = {
    "generate": ("Headway in one process", "serve beside generate in one process"),
    "transformers_generate": ("transformers generate", "serve beside transformers generate"),
    "transformers_serve": ("transformers serve", "serve beside transformers serve"),
    "figures": ("the goal", ""),
}
PROMPT = 12
STARTING = 300.0
"""Seconds after which a server that does not answer is given up."""


def measure(ours: Side, peer: Side, rounds: int, device: str) -> Iterator[Row]:
    """Measure many clients and one, beside a peer; on a GPU also the figures that are goals."""
    name = peer.name.rpartition(", ")[2]
    peer_name, what = PEERS[name]
    if name == "figures":
        if kind() == "gpu":
            yield from _figures(ours, rounds, device)
        return
    for streams in (_many(), *([1] if name == "transformers_serve" else [])):
        pairs = interleave(ours, peer, rounds, streams=streams)
        title = f"headway serve, GPT-2 124 M, streams at once: {streams}"
        note = f"the server answers {pairs[0][0]['start']:.1f} s after its start"
        yield row(title, pairs, "tokens/s", peer_name, device, goal=goal(what), note=note)


def _many() -> int:
    return 64 if kind() == "gpu" else 16


def _figures(ours: Side, rounds: int, device: str) -> Iterator[Row]:
    for unit, goals in RATES.items():
        is_wait = unit.startswith("ms")
        for streams, figure in goals.items():
            ours.ask(streams=streams)
            answers = [ours.ask(streams=streams) for _ in range(rounds)]
            work = [{**a, "work": a["first"], "seconds": 1.0} if is_wait else a for a in answers]
            pairs = [(answer, {"work": figure, "seconds": 1.0}) for answer in work]
            title = f"headway serve, GPT-2 124 M, {unit}: {streams}"
            yield row(title, pairs, unit, "the goal", device, less_is_better=is_wait, goal=1.0)


class Server:
    """A command that serves models over HTTP, and its port. It ends with this process.

    words: the command; PORT in it is the number of a free port. RuntimeError if it does not start.
    """

    def __init__(self, words: Sequence[str], folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        numbered = [str(self.port) if word == "PORT" else word for word in words]
        self.process = subprocess.Popen(
            numbered, cwd=folder, env=environment(), stdout=subprocess.DEVNULL
        )
        atexit.register(self.close)
        began = time.perf_counter()
        while not self._answers():
            if self.process.poll() is not None or time.perf_counter() - began > STARTING:
                self.close()
                raise RuntimeError(f"{' '.join(numbered[:3])} does not serve")
            time.sleep(0.1)
        self.start_seconds = time.perf_counter() - began

    def _answers(self) -> bool:
        with suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        return False

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


def ours(settings: Settings) -> Worker:
    """`headway serve FOLDER`."""
    folder = Path(settings.folder)
    write_models(folder)
    words = [*HEADWAY, "serve", str(folder / "gpt"), "--port", "PORT"]
    return _served(settings, Server(words, folder), "gpt")


def transformers_serve(settings: Settings) -> Worker:
    model = str(Path(settings.folder) / "gpt")
    program = Path(sys.executable).with_name("transformers")
    words = [str(program), "serve", model, "--port", "PORT", "--continuous-batching"]
    device = ["--device", "cpu"] if torch_device() == "cpu" else []
    return _served(settings, Server([*words, *device], Path(settings.folder)), model)


def _served(settings: Settings, server: Server, model: str) -> Worker:
    numbers = count()

    def work(question: dict[str, Any]) -> Answer:
        asked = [
            Request(text, settings.work, model=model)
            for text in texts(question["streams"], next(numbers))
        ]
        began = time.perf_counter()
        times = streamed(server.port, asked)
        spent = time.perf_counter() - began
        first = 1000 * max(stream[0] for stream in times)
        answer = {"work": len(asked) * settings.work, "seconds": spent, "first": first}
        return {**answer, "start": server.start_seconds}

    return work


def texts(number: int, seed: int) -> list[str]:
    """Return prompts of words, each of which is a token; those of another seed are others, so that
    a server has not read them before."""
    return [" ".join(f"t{i + 2}" for i in prompt) for prompt in prompts(number, PROMPT, seed)]


def generate(settings: Settings) -> Worker:
    """Headway in one process."""
    bundle: Any = headway.load(Path(settings.folder) / "gpt")
    length = {"max_tokens": settings.work, "temperature": 0.0}
    return _written(settings, lambda texts: bundle.generate(texts, **length))


def transformers_generate(settings: Settings) -> Worker:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = Path(settings.folder) / "gpt"
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder).to(torch_device())

    def write(texts: list[str]) -> object:
        read = tokenizer(texts, return_tensors="pt", return_token_type_ids=False).to(model.device)
        return model.generate(**read, max_new_tokens=settings.work, do_sample=False).tolist()

    return _written(settings, write)


def _written(settings: Settings, write: Callable[[list[str]], object]) -> Worker:
    def work(question: dict[str, Any]) -> Answer:
        asked = texts(question["streams"], 0)
        return {"work": len(asked) * settings.work, "seconds": seconds(lambda: write(asked))}

    return work


def figures(settings: Settings) -> Worker:
    return lambda question: {}  # no side: the goals are figures


def model_of(size: str) -> TextBundle:
    # every token is a character, so that every token is an event
    tokenizer = CharacterTokenizer.train(["".join(map(chr, range(0x4E00, 0x4E00 + VOCABULARY)))])
    shape = {**GPTConfig.sizes[size], "max_length": 1024, "vocabulary": tokenizer.size}
    config = override(GPTConfig(), shape, "bench")
    torch.manual_seed(0)
    return TextBundle(GPT(config).eval(), tokenizer)


def classifier() -> ClassifierBundle:
    base = encoder(max_length=64)
    config = override(
        BertConfig(), {**BertConfig.sizes["mini"], "vocabulary": base.tokenizer.size}, "bench"
    )
    model = BertClassifier(Bert(config), 4, "first").eval()
    return ClassifierBundle(model, ClassReader(base.tokenizer, ("a", "b", "c", "d"), 64))


def block_of_a_prompt(bundle: Any) -> float:
    """Return the seconds for a block of 64 tokens."""
    state = bundle.model.start(torch.zeros(1, 0, dtype=torch.long))
    with torch.inference_mode():
        return seconds(lambda: bundle.model.extend(torch.tensor(prompts(1, 64, 1)), state))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", default="mini")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    chosen = parser.parse_args()
    bundles = {
        "gpt": model_of(chosen.size),
        "classes": classifier(),
        "translator": make(
            model_dim=256, num_heads=4, ffn_dim=1024, encoder_layers=3, decoder_layers=3
        ),
    }
    rows: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, bundle in bundles.items():
            bundle.save(folder / name)
        server = Server([*HEADWAY, "serve", *bundles, "--port", "PORT"], folder)
        loaded = headway.load(folder / "gpt", "cpu") if "pause" in chosen.only else None
        for number in range(chosen.rounds):
            for part in chosen.only:
                found = measure_part(server.port, part, number)
                if part == "pause":
                    block = 1000 * block_of_a_prompt(loaded)
                    found["beside a long prompt: ms of a block of 64 tokens"] = block
                for row, value in found.items():
                    rows.setdefault(row, []).append(value)
        server.close()
    print(f"{chosen.size}, {chosen.rounds} rounds")
    for row, values in rows.items():
        spread = f"{min(values):.2f} to {max(values):.2f}"
        print(f"{row:60} {statistics.median(values):8.2f}   ({spread})")


if __name__ == "__main__":
    main()
