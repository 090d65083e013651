"""Training on a GPU, beside what its matrix products allow and beside other code."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bench.gpu_rounds import Measurement
from bench.gpu_scale import Limit, Run, Scale
from bench.gpu_sides import available, built, gpt2
from bench.plain_gpt import PlainGPT
from headway.base.devices import Machine, float8_obstacle
from headway.models import GPT
from headway.models.cost import training_flops
from headway.tasks.language_modeling.packing import TextBatch
from headway.training import (
    OptimizerConfig,
    RecordedGradients,
    TextObjective,
    TrainingState,
    fit,
    optimizer,
)
from headway.transforms import compile, fast, float8


def training(
    measurement: Measurement, rates: Limit, size: str, rows: int, goal: float | None
) -> None:
    """Training of a GPT-2: Headway, also compiled, by CUDA graphs and in float8; transformers; a
    plain loop.

    rows: sequences of a batch. goal: for the part of the matrix rate.
    """
    scale = measurement.scale
    config = scale.gpt(size)
    read, targets = _tokens(scale, size, rows)

    def ours(**options: bool) -> Callable[[], Run]:
        return partial(built_training, scale, size, rows, **options)

    def plain() -> Run:
        model = built(lambda: PlainGPT(config), scale)
        return _looped(model, _compiled(model, scale), (read, targets), scale)

    def transformers() -> Run:
        model = gpt2(config, scale)
        forward = _compiled(model, scale)
        return _looped(
            model, lambda a, b: _loss(forward(input_ids=a).logits, b), (read, targets), scale
        )

    sides = {
        "Headway": ours(),
        "Headway by graphs": ours(by_graphs=True),
        "Headway compiled": ours(compiled=True),
        "plain loop compiled": plain,
        "transformers compiled": transformers,
    }
    if float8_obstacle(scale.device) is None:
        sides["Headway float8"] = ours(in_float8=True)
        sides["Headway float8 compiled"] = ours(compiled=True, in_float8=True)
    work = scale.steps * targets.numel()
    most = rates.matrix_rate / training_flops(config, scale.length)
    name = f"training {size}, T {scale.length}, batch {rows}"
    measurement.compare(name, available(sides, scale), work, "tokens/s", (most, goal))


def _tokens(scale: Scale, size: str, rows: int) -> tuple[Tensor, Tensor]:
    """Return a batch of tokens to read and the tokens after them."""
    torch.manual_seed(0)
    shape = (rows, scale.length + 1)
    ids = torch.randint(scale.gpt(size).vocabulary, shape, device=scale.device)
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def built_training(
    scale: Scale,
    size: str,
    rows: int,
    *,
    compiled: bool = False,
    in_float8: bool = False,
    by_graphs: bool = False,
) -> Run:
    """Return a run of Headway's training of a GPT-2."""
    read, targets = _tokens(scale, size, rows)
    batch = TextBatch(read, targets, None, (), targets.numel())
    model = fast(built(lambda: GPT(scale.gpt(size)), scale))
    if in_float8:
        float8(model)
    if compiled:
        compile(model)
    return _fitted(model, batch, TextObjective(), scale, by_graphs=by_graphs)


def _compiled(function: Any, scale: Scale) -> Any:
    return torch.compile(function, dynamic=False) if scale.compiled else function


def _fitted(
    model: nn.Module, batch: Any, objective: Any, scale: Scale, *, by_graphs: bool = False
) -> Run:
    """Headway's own training loop for `scale.steps` steps. CUDA graphs are recorded on a GPU only:
    a CPU computes as always."""
    recorded = None
    if by_graphs and scale.device == "cuda":
        recorded = RecordedGradients(model, objective)
    run = TrainingState(model, optimizer(model, OptimizerConfig(lr=1e-4)))
    machine = Machine(scale.device, "bfloat16", 1)

    def train() -> None:
        run.stop = None
        stream = ((0, 0, batch) for _ in itertools.count())
        steps = run.step + scale.steps
        fit(
            run,
            stream,
            objective,
            steps=steps,
            precision=machine.precision,
            recorded=recorded,
        )

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
