"""`python -m bench.gpu`: speed on a GPU, beside what the GPU itself can do and beside other code.

Training (bfloat16 mixed precision, AdamW, sequences of 1,024 tokens, random weights) is stated as
model FLOP utilisation: the FLOPs that the model needs (`headway.models.cost`), divided by those of
large bfloat16 matrix products measured in the same run. Generation (bfloat16) is stated as a share
of the tokens per second at which the measured memory bandwidth could read the weights and the keys
and values. Both are also compared with `transformers` and with a plain compiled loop
(`bench/plain_gpt.py`), in alternating rounds of one process.

A side that fails is named with its error and does not stop the others. Without a GPU there are no
figures: the exit code is 2. `--dry-run` runs everything on the CPU with tiny sizes, to see that it
runs; its figures mean nothing and are not kept.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import asdict, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bench.gpu_rounds import Measurement
from bench.gpu_scale import DRY, PROMPT, Limit, Run, Scale, is_without_gpu, limit
from bench.plain_gpt import Generator, PlainGPT
from bench.report import as_json, table, today
from bench.sides import ROOT
from headway.data.batches import TranslationBatch
from headway.data.packing import TextBatch
from headway.decoding import Limits, MostProbable, Sampling, greedy_search, sample
from headway.files import write_file
from headway.float8_gpus import float8_obstacle
from headway.machine import Machine
from headway.models import GPT, GPTConfig, Translator, parameter_count
from headway.models.cost import training_flops
from headway.training import (
    OptimizerConfig,
    TextObjective,
    TrainingState,
    TranslationObjective,
    fit,
    optimizer,
)
from headway.transforms import compile, fast, float8, replay_steps
from headway.transforms.fast import prepare_for_inference

CLAIMS = ("training-124m", "training-350m", "training-translator", "decoding-124m", "decoding-xl")


def training(measurement: Measurement, rates: Limit, size: str, goal: float) -> None:
    """Training of a GPT-2: Headway, also compiled and in float8; transformers; a plain loop."""
    scale = measurement.scale
    config = scale.gpt(size)
    read, targets = _tokens(scale, size)

    def ours(compiled: bool, in_float8: bool = False) -> Run:
        return built_training(scale, size, compiled=compiled, in_float8=in_float8)

    def plain() -> Run:
        model = _built(lambda: PlainGPT(config), scale)
        return _looped(model, _compiled(model, scale), (read, targets), scale)

    def transformers() -> Run:
        model = _gpt2(config, scale)
        forward = _compiled(model, scale)
        return _looped(
            model, lambda a, b: _loss(forward(input_ids=a).logits, b), (read, targets), scale
        )

    sides = {
        "Headway": lambda: ours(False),
        "Headway compiled": lambda: ours(True),
        "plain loop compiled": plain,
        "transformers compiled": transformers,
    }
    if float8_obstacle(scale.device) is None:
        sides["Headway float8"] = lambda: ours(False, in_float8=True)
        sides["Headway float8 compiled"] = lambda: ours(True, in_float8=True)
    work = scale.steps * targets.numel()
    most = rates.matrix_rate / training_flops(config, scale.length)
    name = f"training {size}, T {scale.length}, batch {len(read)}"
    measurement.compare(name, _available(sides, scale), work, "tokens/s", (most, goal))


def _tokens(scale: Scale, size: str) -> tuple[Tensor, Tensor]:
    """Return a batch of tokens to read and the tokens after them."""
    rows = scale.rows if size == "gpt2-small" else max(1, scale.rows // 2)
    torch.manual_seed(0)
    shape = (rows, scale.length + 1)
    ids = torch.randint(scale.gpt(size).vocabulary, shape, device=scale.device)
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def built_training(
    scale: Scale, size: str, *, compiled: bool = False, in_float8: bool = False
) -> Run:
    """Return a run of Headway's training of a GPT-2."""
    read, targets = _tokens(scale, size)
    batch = TextBatch(read, targets, None, (), targets.numel())
    model = fast(_built(lambda: GPT(scale.gpt(size)), scale))
    if in_float8:
        float8(model)
    if compiled:
        compile(model)
    return _fitted(model, batch, TextObjective(), scale)


def translator_training(measurement: Measurement, rates: Limit) -> None:
    """Training of the big translator on pairs of 64 and 64 tokens."""
    scale = measurement.scale
    config, length = scale.translator(), 64 if scale.device == "cuda" else 7
    torch.manual_seed(0)
    ids = torch.randint(4, config.source_vocabulary, (3, scale.pairs, length), device=scale.device)
    indices = tuple(range(scale.pairs))
    batch = TranslationBatch(ids[0], None, ids[1], ids[2], indices, ids[2].numel())

    def ours(compiled: bool) -> Run:
        model = fast(_built(lambda: Translator(config), scale))
        if compiled:
            compile(model)
        return _fitted(model, batch, TranslationObjective(0, 0.1), scale)

    sides = {"Headway": lambda: ours(False), "Headway compiled": lambda: ours(True)}
    model = Translator(config)
    tables = sum(m.weight.numel() for m in model.modules() if isinstance(m, nn.Embedding))
    output = config.target_vocabulary * config.model_dim
    # A pair of a source and a target token passes all matrices once, and the output projection.
    matrices = parameter_count(model) - tables + output
    attention = 3 * 4 * length * config.model_dim * 6  # forward FLOPs; three attentions a layer
    most = rates.matrix_rate / (6 * matrices + 3 * attention)
    work = scale.steps * ids[2].numel()
    name = f"training translator big, {scale.pairs} pairs of {length} tokens"
    measurement.compare(name, _available(sides, scale), work, "target tokens/s", (most, None))


def decoding(measurement: Measurement, rates: Limit, size: str, goals: dict[int, float]) -> None:
    """Greedy generation after prompts of 32 tokens. goals: by batch size; without any, all sizes
    of the scale are measured, and what CUDA graphs save."""
    scale = measurement.scale
    config = scale.gpt(size)
    ours, by_graphs = built_generator(scale, config)
    dtype = ours.output.weight.dtype
    plain = _built(lambda: PlainGPT(config), scale, dtype).eval()
    weights = sum(p.numel() * p.element_size() for p in ours.parameters())
    for batch in tuple(goals) or scale.batches:
        prompts = torch.randint(config.vocabulary, (batch, PROMPT), device=scale.device)
        length = PROMPT + scale.written / 2  # of the keys and values that a step reads, on average
        kept = 2 * config.num_layers * config.model_dim * length * batch * dtype.itemsize
        sides = {
            "Headway": lambda prompts=prompts: partial(
                _sampled, by_graphs, prompts.tolist(), scale
            ),
            "Headway greedy search": lambda prompts=prompts: partial(
                searched, by_graphs, prompts, scale
            ),
            "plain loop compiled": lambda prompts=prompts: partial(
                Generator(plain, len(prompts), PROMPT + scale.written, compiled=scale.compiled),
                prompts,
                scale.written,
            ),
            "transformers static cache": lambda prompts=prompts: _generated(
                config, dtype, prompts, scale
            ),
        }
        if not goals:
            sides["Headway without graphs"] = lambda prompts=prompts: partial(
                searched, ours, prompts, scale
            )
        most = batch * rates.bandwidth / (weights + kept)
        name = f"generation {size} bfloat16, batch {batch}"
        work = batch * scale.written
        goal = goals.get(batch)
        measurement.compare(name, _available(sides, scale), work, "tokens/s", (most, goal))


def built_generator(scale: Scale, config: GPTConfig) -> tuple[GPT, GPT]:
    """Return a model in bfloat16, and one with the same weights that decodes by CUDA graphs."""
    dtype = torch.bfloat16 if scale.device == "cuda" else torch.float32
    torch.manual_seed(0)
    model = _built(lambda: GPT(config), scale, dtype).eval()
    prepare_for_inference(model)  # as `headway.load` does, and `replay_steps`
    return model, replay_steps(copy(model))


def _available(sides: dict[str, Callable[[], Run]], scale: Scale) -> dict[str, Callable[[], Run]]:
    """Leave out what is not installed, and what is to be left out."""
    without = [*scale.without, *(["transformers"] if find_spec("transformers") is None else [])]
    return {
        name: build for name, build in sides.items() if not any(part in name for part in without)
    }


def _compiled(function: Any, scale: Scale) -> Any:
    return torch.compile(function, dynamic=False) if scale.compiled else function


def _built(model: Callable[[], Any], scale: Scale, dtype: torch.dtype = torch.float32) -> Any:
    """Build a model on the device: random weights of a large one take long on a CPU."""
    with torch.device(scale.device):
        return model().to(scale.device, dtype)


def _fitted(model: nn.Module, batch: Any, objective: Any, scale: Scale) -> Run:
    """Headway's own training loop for `scale.steps` steps."""
    run = TrainingState(model, optimizer(model, OptimizerConfig(lr=1e-4)))
    machine = Machine(scale.device, "bfloat16", 1)

    def train() -> None:
        run.stop = None
        stream = ((0, 0, batch) for _ in itertools.count())
        steps = run.step + scale.steps
        fit(run, stream, objective, [], steps=steps, precision=machine.precision)

    return train


def _looped(model: nn.Module, loss: Any, inputs: tuple[Tensor, Tensor], scale: Scale) -> Run:
    """The shortest loop with the same work."""
    model.train()
    parameters = list(model.parameters())
    update = torch.optim.AdamW(parameters, lr=1e-4, fused=True)

    def train() -> None:
        for _ in range(scale.steps):
            update.zero_grad(set_to_none=True)
            with torch.autocast(scale.device, dtype=torch.bfloat16):
                value = loss(*inputs)
            value.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            update.step()
        value.item()

    return train


def _loss(logits: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def _gpt2(config: GPTConfig, scale: Scale, dtype: torch.dtype = torch.float32) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    shape = GPT2Config(
        vocab_size=config.vocabulary,
        n_positions=config.max_length,
        n_embd=config.model_dim,
        n_layer=config.num_layers,
        n_head=config.num_heads,
        n_inner=config.ffn_dim,
        embd_pdrop=0.0,
        resid_pdrop=0.0,
        attn_pdrop=0.0,
    )
    return _built(lambda: GPT2LMHeadModel(shape), scale, dtype)


def _sampled(model: GPT, prompts: list[list[int]], scale: Scale) -> object:
    """`headway generate` at temperature 0: tokens are read after each step."""
    sampling = Sampling(eos=-1, max_tokens=scale.written, rules=[MostProbable()])
    return sample(model, prompts, sampling, [[0]] * len(prompts))


def searched(model: GPT, prompts: Tensor, scale: Scale) -> object:
    """Greedy search: tokens are read after several steps."""
    lengths = [scale.written - 1] * len(prompts)
    limits = Limits(prompts[:, -1].tolist(), -1, lengths)
    return greedy_search(model, (prompts[:, :-1], None), limits)


def _generated(config: GPTConfig, dtype: torch.dtype, prompts: Tensor, scale: Scale) -> Run:
    model = _gpt2(config, scale, dtype).eval()
    model.generation_config.eos_token_id = None
    options: dict[str, Any] = {"do_sample": False, "max_new_tokens": scale.written}
    if scale.compiled:
        options["cache_implementation"] = "static"  # which transformers compiles by itself
    mask = torch.ones_like(prompts)
    return lambda: model.generate(prompts, attention_mask=mask, pad_token_id=0, **options)


def measure(
    scale: Scale,
    claims: Sequence[str],
    seconds: float,
    keep: Callable[[Measurement, Limit], None] = lambda found, rates: None,
) -> tuple[Measurement, Limit]:
    """Measure these claims until the time is over. keep: called after each of them."""
    measurement = Measurement(scale, seconds)
    rates = limit(scale)
    work: dict[str, Run] = {
        "training-124m": lambda: training(measurement, rates, "gpt2-small", 0.5),
        "training-350m": lambda: training(measurement, rates, "gpt2-medium", 0.55),
        "training-translator": lambda: translator_training(measurement, rates),
        "decoding-124m": lambda: decoding(measurement, rates, "gpt2-small", {}),
        "decoding-xl": lambda: decoding(measurement, rates, "gpt2-xl", {1: 0.4}),
    }
    # compiled functions are called all the same, as they are, so that a dry run finds wrong calls
    stance = nullcontext() if scale.compiled else torch.compiler.set_stance("force_eager")
    with stance:
        for claim in claims:
            if measurement.is_over:
                measurement.failures[claim] = "not measured: the time was over"
                continue
            with measurement.kept_going(claim):
                work[claim]()
            keep(measurement, rates)
    return measurement, rates


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    if not options.dry_run and is_without_gpu():
        return 2
    scale = DRY if options.dry_run else Scale()
    scale = replace(scale, without=tuple(options.without))
    if options.rounds is not None:
        scale = replace(scale, rounds=options.rounds)
    path = options.output or ROOT / "bench" / "results" / f"gpu-{today()}.json"

    def keep(found: Measurement, rates: Limit) -> None:
        """Write what was measured so far: a run may be stopped before it ends."""
        if not options.dry_run:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, _results(path, found, rates, arguments).encode())

    found, rates = measure(scale, options.only or CLAIMS, 60 * options.minutes, keep)
    print(
        f"{found.device}: {rates.matrix_rate / 1e12:,.4g} TFLOP/s in bfloat16 matrix products, "
        f"{rates.bandwidth / 1e12:,.4g} TB/s in a copy. Beside the device, the ratio is the share "
        "of what it allows."
    )
    print(table(found.rows))
    for name, error in found.failures.items():
        print(f"{name}: {error.strip().splitlines()[-1]}")
    if options.dry_run:
        print("A dry run: these figures mean nothing.")
        return 1 if found.failures else 0
    keep(found, rates)
    print(f"written to {path.name}")
    return 0


def _results(path: Path, found: Measurement, rates: Limit, arguments: Sequence[str]) -> str:
    """Return the content of the file of results, with the rows that an earlier call of this day
    measured on the same device and this one did not."""
    earlier: dict[str, Any] = {}
    if path.exists():
        earlier = json.loads(path.read_text(encoding="utf-8"))
    conditions = {**asdict(rates), "device": found.device, "failures": found.failures}
    command = " ".join(["python", "-m", "bench.gpu", *arguments])
    results = json.loads(as_json(found.rows, command, conditions))
    if earlier.get("conditions", {}).get("device") == found.device:
        names = {(row["name"], row["peer_name"]) for row in results["rows"]}
        kept = [r for r in earlier["rows"] if (r["name"], r["peer_name"]) not in names]
        results["rows"] = kept + results["rows"]
    return json.dumps(results, indent=1, ensure_ascii=False) + "\n"


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes on the CPU; no figures")
    parser.add_argument("--only", nargs="+", choices=CLAIMS, help="measure these claims only")
    parser.add_argument(
        "--without",
        nargs="+",
        default=[],
        metavar="PART",
        help="leave out the sides whose names contain one of these, such as float8",
    )
    parser.add_argument("--rounds", type=int, help="alternating rounds of each side (default 5)")
    parser.add_argument(
        "--minutes", type=float, default=8.0, help="time after which no other side is begun"
    )
    parser.add_argument("--output", type=Path, help="file of results (default bench/results/)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
