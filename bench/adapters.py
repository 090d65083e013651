"""Adapters over a base of small numbers (QLoRA), compared with LoRA over a base of float32.

    python -m bench.adapters FIRST SECOND --threads 1

A language model of bytes is trained on the first text. Then adapters of rank 8 in all of its
attention and feed-forward layers are trained on the second one, over the model's weights in each
dtype: the same batches for all, one step of each by turns. The table has the loss on the last tenth
of the second text in nats per byte, the median time of a step, relative to the neighbouring step
over float32, and the size of the frozen weights. A text is a file of UTF-8, or such a file
compressed by gzip.
"""

from __future__ import annotations

import argparse
import statistics
import time
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.base.devices import MachineConfig, prepare
from headway.cli.doctor import describe
from headway.data.formats.lines import read_raw_lines
from headway.models import GPT, GPTConfig
from headway.transforms import fast, lora, quantize

KINDS = ("float32", "int8", "int4", "bfloat16")
ROWS, LENGTH, RANK = 16, 128, 8


def read(path: Path) -> tuple[Tensor, Tensor]:
    """Return the bytes of a text, and those of its last tenth apart."""
    contents = bytearray(b"".join(read_raw_lines(path)))
    text = torch.frombuffer(contents, dtype=torch.uint8).long()
    held_out = len(text) // 10
    if held_out <= LENGTH:
        raise SystemExit(f"{path}: {len(text):,} bytes, but at least {11 * LENGTH:,} are needed")
    return text[:-held_out], text[-held_out:]


def batch(text: Tensor, seed: int) -> Tensor:
    """Return rows of the text at random places."""
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randint(len(text) - LENGTH, (ROWS, 1), generator=generator)
    return text[starts + torch.arange(LENGTH + 1)]


def loss_of(model: GPT, rows: Tensor) -> Tensor:
    return F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


class Training:
    """A model, its optimiser, and the seconds of its steps."""

    def __init__(self, model: GPT, lr: float) -> None:
        self.model = fast(model).train()
        parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(parameters, lr=lr)
        self.seconds: list[float] = []

    def step(self, rows: Tensor) -> None:
        started = time.perf_counter()
        self.optimizer.zero_grad()
        loss_of(self.model, rows).backward()
        self.optimizer.step()
        self.seconds.append(time.perf_counter() - started)

    @torch.no_grad()
    def loss(self, text: Tensor) -> float:
        """Return the mean loss on a text, in nats per byte."""
        self.model.eval()
        losses = [loss_of(self.model, batch(text, seed)).item() for seed in range(20)]
        self.model.train()
        return statistics.mean(losses)

    @property
    def frozen_bytes(self) -> int:
        return sum(p.nbytes for p in self.model.parameters() if not p.requires_grad)


def trained(text: Tensor, steps: int, shape: dict[str, Any]) -> GPT:
    """Return the base: a language model that was trained on a text."""
    torch.manual_seed(0)
    base = Training(GPT(GPTConfig(**shape, vocabulary=256, max_length=LENGTH)), lr=2e-3)
    for seed in range(steps):
        base.step(batch(text, seed))
    return base.model


def adapted(base: GPT, kind: str) -> Training:
    """Return the training of adapters over the base in a dtype; they begin the same for all."""
    model = deepcopy(base)
    if kind != "float32":
        quantize(model, kind)
    torch.manual_seed(1)
    return Training(lora(model, rank=RANK), lr=2e-3)


def measure(base: GPT, text: Tensor, held_out: Tensor, steps: int) -> list[str]:
    """Return the rows of the table."""
    trainings = {kind: adapted(base, kind) for kind in KINDS}
    before = {kind: training.loss(held_out) for kind, training in trainings.items()}
    for seed in range(steps):
        rows = batch(text, seed)
        for training in trainings.values():
            training.step(rows)
    float32 = trainings["float32"]
    reference = float32.loss(held_out)
    lines = []
    for kind, training in trainings.items():
        loss = training.loss(held_out)
        pairs = zip(training.seconds, float32.seconds, strict=True)
        ratio = statistics.median(mine / theirs for mine, theirs in pairs)
        lines.append(
            f"| {kind} | {before[kind]:.4f} | {loss:.4f} | {loss / reference - 1:+.2%} "
            f"| {1e3 * statistics.median(training.seconds):,.0f} | {ratio:.2f} "
            f"| {training.frozen_bytes / 1e6:.1f} |"
        )
    return lines


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m bench.adapters", description=__doc__)
    parser.add_argument("first", type=Path, help="text that the base is trained on")
    parser.add_argument("second", type=Path, help="text that the adapters are trained on")
    parser.add_argument("--width", type=int, default=256, help="model width")
    parser.add_argument("--layers", type=int, default=6, help="number of layers")
    parser.add_argument("--base-steps", type=int, default=600, help="steps of the base")
    parser.add_argument("--steps", type=int, default=200, help="steps of each adapter")
    parser.add_argument("--threads", type=int, default=None, help="number of CPU threads")
    arguments = parser.parse_args()
    machine = prepare(MachineConfig(device="cpu", threads=arguments.threads))
    print(f"{machine}, {describe()['cpu instructions']}")
    shape = {
        "model_dim": arguments.width,
        "num_heads": max(1, arguments.width // 64),
        "ffn_dim": 4 * arguments.width,
        "num_layers": arguments.layers,
    }
    base = trained(read(arguments.first)[0], arguments.base_steps, shape)
    print("| base | loss before | after | to float32 | ms a step | to float32 | frozen, MB |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for line in measure(base, *read(arguments.second), arguments.steps):
        print(line)


if __name__ == "__main__":
    main()
