"""Speed of fast twins, compared with their plain classes: python -m bench.fast

Forward and backward in float32 on a CPU, in one process that alternates between plain and fast;
medians over the rounds. Generation is decoding with a whole model, whose caches and layers are
twins too.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from headway.attention import (
    Additive,
    Bilinear,
    Documents,
    Dot,
    GroupedQueryAttention,
    Mask,
    MultiHeadAttention,
    ScaledDot,
    SlidingWindow,
)
from headway.base.devices import MachineConfig, prepare
from headway.blocks import GRU, LSTM, Dropout, GatedFeedForward
from headway.decoding import Limits, fast_greedy_search, run
from headway.models import GPT, GPTConfig, Translator, TranslatorConfig
from headway.training import cross_entropy_sum
from headway.transforms import fast
from headway.transforms.fast.cross_entropy import chunked_cross_entropy

B, T, D, H = 64, 32, 256, 8
Case = tuple[nn.Module, Callable[[nn.Module], Tensor]]


def inputs(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def kernel(layer: nn.Module, rows: int = B, length: int = T) -> Case:
    q, k, v = (inputs(rows, H, length, D // H) for _ in range(3))
    return layer, lambda module: module(q, k, v, Mask(causal=True))


def cases() -> dict[str, Case]:
    """Return the timed cases by name: a plain module, and a function that calls it."""
    x, long = inputs(B, T, D), inputs(4, 512, D)
    state = torch.zeros(1, B, D)
    packed = Mask(causal=True, documents=Documents([[64] * 8] * 4))
    return {
        "Linear, 2,048 x 256 x 1,024": (nn.Linear(D, 4 * D), lambda m: m(x)),
        "Dropout, 64 x 32 x 256": (Dropout(0.1), lambda m: m(x)),
        "GatedFeedForward, 256 to 682": (GatedFeedForward(D, 682), lambda m: m(x)),
        "MultiHeadAttention, 64 x 32": (
            MultiHeadAttention(D, H),
            lambda m: m(x, x, Mask(causal=True)),
        ),
        "MultiHeadAttention, 4 x 8 packed documents of 64": (
            MultiHeadAttention(D, H),
            lambda m: m(long, long, packed),
        ),
        "GroupedQueryAttention, 64 x 32": (
            GroupedQueryAttention(D, H, 2),
            lambda m: m(x, x, Mask(causal=True)),
        ),
        "ScaledDot, 64 x 32": kernel(ScaledDot()),
        "ScaledDot, 16 x 197": kernel(ScaledDot(), 16, 197),
        "ScaledDot, 2 x 1,024": kernel(ScaledDot(), 2, 1024),
        "Dot, 64 x 32": kernel(Dot()),
        "Bilinear, 64 x 32": kernel(Bilinear(H, D // H, D // H)),
        "Additive, 64 x 32": kernel(Additive(H, D // H, D // H, D // H)),
        "SlidingWindow of 128, 2 x 2,048": kernel(SlidingWindow(128), 2, 2048),
        "GRU, 64 x 32": (GRU(D, D, batch_first=True), lambda m: m(x, state)[0]),
        "LSTM, 64 x 32": (LSTM(D, D, batch_first=True), lambda m: m(x, (state, state))[0]),
    }


def seconds(run: Callable[[], Any]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def compared(name: str, plain: Callable[[], Any], twin: Callable[[], Any], rounds: int) -> None:
    """Print one row of the table."""
    plain(), twin()
    pairs = [(seconds(plain), seconds(twin)) for _ in range(rounds)]
    slow, quick = (statistics.median(side) for side in zip(*pairs, strict=True))
    print(f"| {name} | {1e3 * slow:,.1f} | {1e3 * quick:,.1f} | {slow / quick:.2f} |", flush=True)


def backward(module: nn.Module, call: Callable[[nn.Module], Tensor]) -> Callable[[], None]:
    return lambda: call(module).sum().backward()


def decoding(model: Any) -> Callable[[], Any]:
    sources, limits = torch.randint(3, 1000, (8, 24)), Limits(1, 2, [32] * 8)
    model_inputs = (sources, None) if isinstance(model, Translator) else (sources,)
    return lambda: run(model, fast_greedy_search(model, model_inputs, limits))


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    print(prepare(MachineConfig(device="cpu")))
    print("| plain class | plain, ms | fast, ms | plain / fast |\n|---|--:|--:|--:|")
    torch.manual_seed(0)
    for name, (plain, call) in cases().items():
        twin = fast(deepcopy(plain))
        compared(name, backward(plain, call), backward(twin, call), rounds)
    hidden, weight = inputs(2048, D), inputs(8000, D)
    targets = torch.randint(8000, (2048,))
    losses = [
        lambda function=function: function(hidden, weight, targets, 0.1)[0].backward()
        for function in (cross_entropy_sum, chunked_cross_entropy)
    ]
    compared("cross_entropy_sum, 2,048 x 8,000", losses[0], losses[1], rounds)
    shape = {"model_dim": D, "num_heads": H, "ffn_dim": 4 * D}
    models: dict[str, Any] = {
        "GPT, 8 x 32 tokens generated": GPT(GPTConfig(**shape, num_layers=4, max_length=128)),
        "Translator, 8 x 32 tokens": Translator(
            TranslatorConfig(**shape, source_vocabulary=8000, target_vocabulary=8000)
        ),
        "RNN translator, 8 x 32 tokens": Translator(
            TranslatorConfig(
                **shape,
                encoder="rnn",
                decoder="rnn",
                source_vocabulary=8000,
                target_vocabulary=8000,
            )
        ),
    }
    for name, model in models.items():
        plain = model.eval()
        twin = fast(deepcopy(plain))
        with torch.inference_mode():
            compared(name, decoding(plain), decoding(twin), rounds)


if __name__ == "__main__":
    main()
