"""Training steps with `--compile` and without, in turn: python -m bench.compiled

For each model: seconds until the first compiled step is done, the time of a step of either kind
(CPU seconds on a CPU, where one thread is used; medians over the rounds), and after how many steps
compiling has paid for itself. Empty TORCHINDUCTOR_CACHE_DIR first, or the compiler finds its former
output.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from headway.attention import Documents
from headway.base.devices import MachineConfig, prepare
from headway.models import GPT, GPTConfig, Translator, TranslatorConfig
from headway.transforms import compile, fast

VOCABULARY = 2000
SHAPE: dict[str, Any] = {"model_dim": 256, "num_heads": 4, "ffn_dim": 1024}
Batch = Callable[[Any, random.Random], Tensor]
"""A function of the model and a source of random sizes; it returns the hidden vectors."""


def _gpt() -> GPT:
    return GPT(GPTConfig(**SHAPE, num_layers=6, vocabulary=VOCABULARY, max_length=256))


def _translator(dropout: float) -> Translator:
    shape = {**SHAPE, "encoder_layers": 3, "decoder_layers": 3, "dropout": dropout}
    sizes = {"source_vocabulary": VOCABULARY, "target_vocabulary": VOCABULARY}
    return Translator(TranslatorConfig(**shape, **sizes))


def _ids(model: Any, rows: int, length: int) -> Tensor:
    return torch.randint(VOCABULARY, (rows, length), device=next(model.parameters()).device)


def language(model: GPT, chance: random.Random) -> Tensor:
    return model.hidden(_ids(model, 8, 256))


def packed(model: GPT, chance: random.Random) -> Tensor:
    tokens, lengths = _ids(model, 8, 256), []
    for _ in range(8):
        ends = sorted({*chance.sample(range(1, 256), 7), 256})
        lengths.append([end - start for start, end in zip([0, *ends], ends, strict=False)])
    return model.hidden(tokens, Documents(lengths, tokens.device))


def sentences(model: Translator, chance: random.Random) -> Tensor:
    source, target = chance.randint(10, 30), chance.randint(10, 30)
    return _translated(model, chance.randint(20, 40), source, target)


def equal_sentences(model: Translator, chance: random.Random) -> Tensor:
    return _translated(model, 32, 20, 20)


def _translated(model: Translator, rows: int, source: int, target: int) -> Tensor:
    ids = _ids(model, rows, source)
    keys = torch.arange(source, device=ids.device) < torch.randint(5, source + 1, (rows, 1)).to(
        ids.device
    )
    return model.decode(_ids(model, rows, target), model.encode(ids, keys), keys)


CASES: dict[str, tuple[Callable[[], Any], Batch, bool | None]] = {
    "GPT, 6 x 256, 8 x 256 tokens": (_gpt, language, None),
    "the same, packed documents": (_gpt, packed, None),
    "translator, 3 + 3 x 256, one shape": (lambda: _translator(0.0), equal_sentences, None),
    "the same, other shapes in each batch": (lambda: _translator(0.0), sentences, True),
    "the same, dropout 0.1": (lambda: _translator(0.1), sentences, True),
}
"""Model, batch, and whether shapes are dynamic."""


def measured(name: str, rounds: int, device: str) -> str:
    """Return one row of the table."""
    make, batch, dynamic = CASES[name]
    torch.compiler.reset()  # models of other rows count against the limit of recompilations
    torch.manual_seed(0)
    plain = fast(make()).to(device).train()
    compiled = compile(deepcopy(plain), dynamic=dynamic)
    clock = time.process_time if device == "cpu" else time.perf_counter

    def step(model: Any, seed: int) -> float:
        torch.manual_seed(seed)
        started = clock()
        batch(model, random.Random(seed)).square().mean().backward()
        if device == "cuda":
            torch.cuda.synchronize()
        return clock() - started

    began, began_cpu = time.perf_counter(), clock()
    for seed in range(3):  # the second shape compiles again
        step(compiled, seed)
    first, first_cpu = time.perf_counter() - began, clock() - began_cpu
    step(plain, 0)
    pairs = [(step(plain, seed), step(compiled, seed)) for seed in range(3, 3 + rounds)]
    before, after = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    even = f"{math.ceil(first / (before - after)):,} steps" if ratio > 1 else "never"
    times = f"{1e3 * before:,.0f} | {1e3 * after:,.0f} | {ratio:.2f}"
    return f"| {name} | {first:.0f} ({first_cpu:.0f}) | {times} | {even} |"


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m bench.compiled", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    options = parser.parse_args()
    threads = 1 if options.device == "cpu" else None
    print(prepare(MachineConfig(device=options.device, compile=True, threads=threads)))
    print(
        "| model | compiling, s (its own process) | plain, ms | compiled, ms | plain / compiled "
        "| pays after |\n|---|--:|--:|--:|--:|--:|"
    )
    for name in CASES:
        print(measured(name, options.rounds, options.device), flush=True)


if __name__ == "__main__":
    main()
