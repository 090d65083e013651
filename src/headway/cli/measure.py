"""`headway doctor --measure`: what this machine does, in at most two minutes.

Every figure is computed by the code that a user's command runs: the layers of a loaded model, the
training of a recipe, the generation of a trained model. The texts are made up.
"""

import os
import random
import tempfile
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from headway.base.devices import (
    Machine,
    MachineConfig,
    bfloat16_instructions,
    multiplies_bfloat16,
    prepare,
)
from headway.base.files import write_file
from headway.base.threads import VARIABLES
from headway.bundle import TextGenerating
from headway.runs import DryRun, recipe, saved, train
from headway.runs.dry_run import DRY_RUN
from headway.tasks.opening import load
from headway.terminal.console import say
from headway.training import CHECKPOINTS, MODEL, StepReport, TrainingState
from headway.transforms.fast.table import prepare_for_inference
from headway.transforms.quantize import quantize

NUMBERS = ("float32", "bfloat16", "int8", "int4")
"""The numbers of the weights whose products are measured."""
RECIPES: dict[str, dict[str, object]] = {"translate": {}, "gpt": {}}
"""The recipes whose training is measured, with changes of their settings (tests make them tiny)."""

LEXICON = 6000
"""Number of words of the made-up sentences."""
MOST_STEPS = 1000
"""The most steps of a training: a fast GPU takes fewer seconds for them."""


@dataclass(frozen=True)
class Sizes:
    """How much is measured, and how long.

    read: number of bytes that are read, more than all caches hold; also that of the matrices of a
    product.
    inputs, outputs: of a layer. rows: of a product of many vectors. seconds: of a product.
    sentences: of the texts to train on. training: seconds of steps of a recipe, after `warm_up`
    steps. tokens: of a text that is written.
    """

    read: int = 2**27
    inputs: int = 1024
    outputs: int = 4096
    rows: int = 256
    seconds: float = 0.5
    sentences: int = 3000
    training: float = 10.0
    warm_up: int = 3
    tokens: int = 96


SIZES = Sizes()


@dataclass(frozen=True)
class Product:
    """A layer's product in some numbers.

    read: gigabytes of weights per second with one vector; share: its part of a plain read by as
    many threads. computed: gigaFLOPs per second with many vectors.
    """

    numbers: str
    read: float
    share: float
    computed: float


@dataclass(frozen=True)
class Training:
    """The training of a recipe: target tokens per second by the settings that `auto` chose."""

    recipe: str
    rate: float
    dtype: str
    threads: int | None


@dataclass(frozen=True)
class Choice:
    """What `auto` chooses for a setting, and why."""

    setting: str
    value: object
    reason: str


@dataclass(frozen=True)
class Measured:
    """What a machine does. reads: gigabytes per second of a plain read, by what reads. writing:
    tokens per second of one text, by the numbers of the weights."""

    device: str
    reads: dict[str, float]
    products: list[Product]
    training: list[Training]
    writing: dict[str, float]
    auto: list[Choice]


def measure(sizes: Sizes) -> Measured:
    """Measure reading, products, training and writing, and say on standard error what is measured.

    The device, dtype and threads are those that commands choose by default.
    """
    most = torch.get_num_threads()
    machine = prepare(MachineConfig(dtype="float32"))
    say(f"measure   a plain read of {sizes.read / 1e6:.0f} MB")
    numbers = sorted({1, most, machine.threads}) if machine.device == "cpu" else [machine.threads]
    reads = {_readers(machine.device, n): plain_read(machine.device, n, sizes) for n in numbers}
    torch.set_num_threads(machine.threads)
    read = reads[_readers(machine.device, machine.threads)]
    products = []
    for name in NUMBERS:
        say(f"measure   products of one vector and of {sizes.rows} in {name}")
        products.append(product(name, machine, read, sizes))
    with tempfile.TemporaryDirectory() as folder:
        training, runs = [], {}
        for name in RECIPES:
            say(f"measure   training by the recipe {name}")
            runs[name] = Path(folder, name)
            training.append(trained(name, runs[name], sizes))
        torch.set_num_threads(machine.threads)  # training may have chosen another number
        writing = written(runs["gpt"], sizes)
    return Measured(
        machine.device, reads, products, training, writing, choices(machine, training[-1])
    )


def _readers(device: str, threads: int) -> str:
    return f"{threads} thread{'s' if threads > 1 else ''}" if device == "cpu" else device


def plain_read(device: str, threads: int, sizes: Sizes) -> float:
    """Return the gigabytes per second at which `threads` threads sum numbers in memory."""
    torch.set_num_threads(threads)
    numbers = torch.ones(sizes.read // 4, device=device)
    return sizes.read / 1e9 / fastest(numbers.sum, sizes.seconds, device)


@torch.inference_mode()
def product(numbers: str, machine: Machine, read: float, sizes: Sizes) -> Product:
    """Measure linear layers as `headway.load` prepares them. read: that of a plain read."""
    torch.manual_seed(0)
    first = nn.ModuleList([nn.Linear(sizes.inputs, sizes.outputs, bias=False)])
    if numbers != "float32":
        quantize(first, numbers)
    weight_bytes = sum(p.numel() * p.element_size() for p in first.parameters())
    count = max(2, sizes.read // weight_bytes)
    copies = nn.ModuleList(deepcopy(first[0]) for _ in range(count)).to(machine.device)
    layers = list(prepare_for_inference(copies))
    one, many = (
        torch.rand(rows, sizes.inputs, device=machine.device) * 2 - 1 for rows in (1, sizes.rows)
    )

    def by_each(x: torch.Tensor, some: int) -> None:
        for layer in layers[:some]:
            layer(x)

    few = min(4, count)
    alone = fastest(lambda: by_each(one, count), sizes.seconds, machine.device)
    together = fastest(lambda: by_each(many, few), sizes.seconds, machine.device)
    flops = 2 * few * sizes.rows * sizes.inputs * sizes.outputs
    rate = count * weight_bytes / 1e9 / alone
    return Product(numbers, rate, rate / read, flops / 1e9 / together)


def fastest(call: Callable[[], object], seconds: float, device: str) -> float:
    """Return the seconds of the fastest of the calls that fit into `seconds`, after a first one.

    What else the machine does makes a call slower, never faster.
    """
    best, end = float("inf"), None
    while end is None or time.perf_counter() < end:
        began = time.perf_counter()
        call()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        now = time.perf_counter()
        if end is None:
            end = now + seconds
        best = min(best, now - began)
    return best


@dataclass
class _Pace:
    """An observer that times the steps after the first ones, and then ends the run."""

    sizes: Sizes
    counted: list[StepReport] = field(default_factory=list)

    def after_step(self, run: TrainingState, report: StepReport) -> None:
        if run.step > self.sizes.warm_up:
            self.counted.append(report)
        spent = sum(counted.seconds for counted in self.counted)
        if self.counted and spent >= self.sizes.training:
            run.stop = DRY_RUN


def trained(name: str, folder: Path, sizes: Sizes) -> Training:
    """Train a recipe for a few seconds, as `headway train` does, with made-up sentences."""
    pairs = sentence_pairs(sizes.sentences, seed=1)
    path = folder.with_suffix(".tsv" if name == "translate" else ".txt")
    if name == "translate":
        text = "source\ttarget\n" + "".join(f"{a}\t{b}\n" for a, b in pairs)
    else:
        text = "".join(f"{a}\n" for a, _ in pairs)
    write_file(path, text.encode())
    settings: dict[str, object] = {"data.train": str(path), **RECIPES[name]}
    dry_run, pace = DryRun(steps=MOST_STEPS, batches=0), _Pace(sizes)
    config = dry_run.configured(recipe(name, ("headway doctor", settings)))
    train(config, folder, observers=[pace], dry_run=dry_run)
    machine = saved(folder).machine
    rate = sum(r.targets for r in pace.counted) / sum(r.seconds for r in pace.counted)
    return Training(name, rate, machine.dtype, machine.threads)


def written(run: Path, sizes: Sizes) -> dict[str, float]:
    """Return the tokens per second of one text by the model of a run, in each kind of numbers."""
    model = next((run / CHECKPOINTS).glob(f"step-*/{MODEL}"))
    rates = {}
    for name in NUMBERS:
        say(f"measure   a text of {sizes.tokens} tokens by the recipe {run.name}, in {name}")
        bundle = load(model, dtype=None if name == "float32" else name)
        assert isinstance(bundle, TextGenerating)

        def write(bundle: TextGenerating = bundle) -> None:
            bundle.generate([""], temperature=0.0, max_tokens=sizes.tokens, min_tokens=sizes.tokens)

        rates[name] = sizes.tokens / fastest(write, sizes.seconds, str(bundle.device))
    return rates


def choices(machine: Machine, training: Training) -> list[Choice]:
    """Return what `auto` chose for predictions and for training, with the reasons."""
    is_gpu = machine.device != "cpu"
    variable = next((name for name in VARIABLES if os.environ.get(name)), None)
    threads = f"{variable} is set" if variable else "the fastest number in small products just now"
    names = ", ".join(bfloat16_instructions() or ()) or "the device"
    has_bfloat16 = multiplies_bfloat16(machine.device)
    dtype = f"{names} multiplies bfloat16" if has_bfloat16 else "no instructions for bfloat16"
    return [
        Choice(
            "device", machine.device, "torch can use it" if is_gpu else "torch finds no GPU to use"
        ),
        Choice("dtype, training", training.dtype, dtype),
        Choice("dtype, predictions", machine.dtype, "predictions are the same on every machine"),
        Choice("threads, training", training.threads, threads),
        Choice("threads, predictions", machine.threads, threads),
    ]


def sentence_pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """Make up sentence pairs of 6 to 22 Zipf-distributed words, translated word by word."""
    words = random.Random(0)
    letters, vowels = "bdfghklmnprstvz", "aeiou"

    def word() -> str:
        parts = words.choices(letters, k=3), words.choices(vowels, k=3)
        return "".join(a + b for a, b in zip(*parts, strict=True))[: words.randint(3, 6)]

    lexicon = [(word(), word()) for _ in range(LEXICON)]
    weights = [1 / (rank + 2) for rank in range(LEXICON)]
    draw = random.Random(seed)
    pairs = []
    for _ in range(count):
        length = min(22, max(6, round(draw.gauss(12, 3.5))))
        chosen = draw.choices(lexicon, weights, k=length)
        pairs.append((" ".join(a for a, _ in chosen) + " .", " ".join(b for _, b in chosen) + " ."))
    return pairs


def lines(measured: Measured) -> list[str]:
    """Return the table of what was measured, line by line."""
    reads = ", ".join(f"{rate:.1f} GB/s by {who}" for who, rate in measured.reads.items())
    rows = [
        ("", "one vector", "of a plain read", "many vectors"),
        *(
            (p.numbers, f"{p.read:.1f} GB/s", f"{p.share:.2f}", f"{p.computed:,.0f} GFLOP/s")
            for p in measured.products
        ),
        ("", "", "", ""),
        ("training", "target tokens/s", "dtype", "threads"),
        *((t.recipe, f"{t.rate:,.0f}", t.dtype, str(t.threads or "")) for t in measured.training),
        ("", "", "", ""),
        ("writing", "tokens/s", "one text by the model of the recipe gpt", ""),
        *((name, f"{rate:,.0f}", "", "") for name, rate in measured.writing.items()),
        ("", "", "", ""),
        ("auto", "chooses", "because", ""),
        *((c.setting, str(c.value), c.reason, "") for c in measured.auto),
    ]
    table = [f"{a:<22}{b:<18}{c:<18}{d}".rstrip() for a, b, c, d in rows]
    return [f"{'plain read':<22}{reads}", "", *table]
