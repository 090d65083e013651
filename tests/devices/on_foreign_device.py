"""Runs tasks and searches on the device of `tests/fixtures/foreign_device.py`, in this process.

`python -m tests.devices.on_foreign_device OUTPUT [tasks|third] [commands] [gradients] [MODEL ...]`
writes what it measured as JSON: of all tasks or of every third one, and of every search of these
models. The device cannot be removed from a process, so the tests start one that does everything.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tests.fixtures.foreign_device import DEVICE, Transfers, counted, register

register()


def _without_gradients(mode: bool = True) -> Any:
    """`torch.inference_mode`, in which a tensor of a class of our own can have no views."""
    return torch.no_grad() if mode else torch.enable_grad()


torch.inference_mode = _without_gradients  # type: ignore[misc, assignment]

import headway.base.devices  # noqa: E402
from headway.base.devices import Machine, MachineConfig  # noqa: E402


def _prepared(config: MachineConfig, *, rows: int = 16) -> Machine:
    return Machine(DEVICE, config.dtype, 1)


headway.base.devices.prepare = _prepared

from headway.training import loop  # noqa: E402
from tests.fixtures.searches import searches_of  # noqa: E402
from tests.fixtures.zoo import KERNELS, MODELS, VOCABULARY, images, some_rows, sources, with_kernel  # noqa: E402
from tests.safety_net.cases import CASES, with_prerequisites  # noqa: E402
from tests.safety_net.running import headway as command_line  # noqa: E402
from tests.safety_net.tiny_data import write_all  # noqa: E402
from tests.tasks.every import EVERY, RUNS  # noqa: E402

SHORT = ("--steps", "2", "--evaluation.every", "2", "--checkpoint.every", "2")
FEWER = {"translate": ("--evaluation.sentences", "1")}


def check_the_device() -> None:
    """A tensor of the CPU is refused, and what a GPU would wait for is counted."""
    x = torch.arange(6.0, device=DEVICE).view(2, 3)
    mixed: list[Callable[[], object]] = [lambda: x + torch.ones(3), lambda: torch.ones(2, 2) @ x]
    for refused in mixed:
        try:
            refused()
        except RuntimeError as error:
            assert "tensors on the CPU and on foreign" in str(error)
        else:
            raise AssertionError("a tensor of the CPU was not refused")
    weight = torch.ones(3, 1).to(DEVICE).requires_grad_()
    with counted() as transfers:
        loss = (x @ weight + 1).square().sum()  # numbers may be mixed in
        loss.backward()
        torch.ones(3).to(DEVICE, non_blocking=True)
    assert not transfers.waits and transfers.uploads.total() == 1
    assert weight.grad is not None
    assert torch.equal(weight.grad.cpu(), torch.tensor([[78.0], [112.0], [146.0]]))
    awaited: dict[str, Callable[[], object]] = {
        "item": lambda: loss.item(),
        "bool": lambda: bool(loss > 0),
        "tolist": lambda: x.tolist(),
        "cpu": lambda: x.cpu(),
        "mask": lambda: x[x > 1],
        "nonzero": lambda: x.nonzero(),
        "upload": lambda: torch.tensor([1, 2], device=DEVICE),
    }
    for name, action in awaited.items():
        with counted() as transfers:
            action()
        assert transfers.waits.total() == 1, (name, transfers)


def tasks(every: int = 1) -> dict[str, Any]:
    """For each task, or every n-th: the waits of its second training step, and the error of its
    run, if any."""
    steps: list[Transfers] = []
    plain = loop._Loop.step

    def step(*args: Any, **kwargs: Any) -> Any:
        with counted() as transfers:
            report = plain(*args, **kwargs)
        steps.append(transfers)
        return report

    loop._Loop.step = step
    measured: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        write_all(Path(name))
        of_task = {case.case: task for task, case in EVERY.items() if case.case in CASES}
        for case_name in with_prerequisites(list(of_task)[::every]):
            steps.clear()
            error = _error(lambda case_name=case_name: _run(case_name))
            waits = dict(steps[-1].waits) if steps else {}
            measured[of_task.get(case_name, case_name)] = {"error": error, "waits": waits}
    loop._Loop.step = plain
    return measured


def _run(name: str) -> None:
    """Train two steps, with an evaluation and a checkpoint, and predict."""
    case, run = RUNS[name], f"runs/{name}"
    for command in case.before:
        command_line(*command)
    command_line(
        "train", case.recipe, *case.train, *SHORT, *FEWER.get(name, ()), "--run", name, "--quiet"
    )
    command_line(*(word.replace("{run}", run) for word in case.prediction))


def commands() -> dict[str, str | None]:
    """For each task: the errors of inspecting, evaluating and resuming a run there."""
    errors: dict[str, str | None] = {}
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        write_all(Path(name))
        of_task = {case.case: (task, case) for task, case in EVERY.items() if case.case in CASES}
        for case_name in with_prerequisites(list(of_task)):
            _run(case_name)
            if case_name not in of_task:
                continue
            (task, case), run = of_task[case_name], f"runs/{case_name}"
            lines = [("train", "--resume", run, "--steps", "3", "--quiet")]
            if case.inspected:
                lines.append(("inspect", run, *case.inspected))
            if (options := CASES[case_name].evaluation) is not None:
                lines.append(("eval", run, *options, "--json"))
            for line in lines:
                errors[f"{task}: {line[0]}"] = _error(lambda line=line: command_line(*line))
    return errors


def gradients() -> dict[str, Any]:
    """For each model and kernel: the largest difference of a gradient from that of the CPU, and the
    waits of computing it."""
    measured: dict[str, Any] = {}
    for name, kernel in itertools.product(MODELS, KERNELS):
        of_device: list[list[torch.Tensor | None]] = []
        for device in ("cpu", DEVICE):
            torch.manual_seed(0)
            model = with_kernel(MODELS[name].build(), kernel)
            for parameter in model.parameters():
                torch.nn.init.normal_(parameter, std=0.2)
            model = model.to(device)
            with counted() as transfers:
                _outputs(name, model, device).square().mean().backward()
            gradients = [parameter.grad for parameter in model.parameters()]
            of_device.append([None if g is None else g.cpu() for g in gradients])
        pairs = [(a, b) for a, b in zip(*of_device, strict=True) if a is not None]
        difference = max(float((a - b).abs().max()) for a, b in pairs)
        waits = dict(transfers.waits)
        measured[f"{name}, {kernel}"] = {"difference": difference, "waits": waits}
    return measured


def _outputs(name: str, model: Any, device: str) -> torch.Tensor:
    """The logits of a model for some sources and targets."""
    rows = some_rows(3, seed=5)
    read = torch.randint(3, VOCABULARY, (3, 6), generator=torch.Generator().manual_seed(1))
    ids, keys = sources(rows)
    if name.startswith("gpt"):
        inputs: tuple[torch.Tensor | None, ...] = (ids,)
    elif name.startswith("captioner"):
        inputs = (*images(rows), read)
    else:
        inputs = (ids, read, keys)
    moved = (None if x is None else x.to(device, non_blocking=True) for x in inputs)
    outputs: torch.Tensor = model(*moved)
    return outputs


def _error(action: Callable[[], object]) -> str | None:
    """Run the action; return where and why it failed."""
    log = Path("headway-error.log")
    log.unlink(missing_ok=True)
    try:
        action()
    except Exception:
        return log.read_text() if log.exists() else traceback.format_exc()
    return None


def searches(names: Iterable[str]) -> dict[str, Any]:
    """For each model and search: waits per step of the model, and whether the outputs are those of
    the CPU."""
    measured = {}
    rows = some_rows(3, seed=5)
    for name in names:
        family = MODELS[name]
        torch.manual_seed(0)
        plain = family.build()
        torch.manual_seed(0)
        moved = family.build().to(DEVICE)
        for search, run in searches_of(name, rows).items():
            expected = run(plain)
            with _steps_counted(moved) as steps, counted() as transfers:
                actual = run(moved)
            measured[f"{name}: {search}"] = {
                "equal": actual == expected,
                "steps": len(steps),
                "waits": dict(transfers.waits),
            }
    return measured


@contextlib.contextmanager
def _steps_counted(model: Any) -> Iterator[list[int]]:
    """The lengths of the steps of the model inside the block."""
    steps: list[int] = []
    plain = model.step

    def step(tokens: Any, state: Any) -> Any:
        steps.append(tokens.shape[1])
        return plain(tokens, state)

    model.step = step
    yield steps
    del model.step


if __name__ == "__main__":
    output, *names = sys.argv[1:]
    check_the_device()
    third = partial(tasks, every=3)
    parts = {"tasks": tasks, "third": third, "commands": commands, "gradients": gradients}
    report = {name: parts[name]() for name in names if name in parts}
    report["searches"] = searches(name for name in names if name not in parts)
    Path(output).write_text(json.dumps(report), encoding="utf-8")
