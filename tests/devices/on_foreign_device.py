"""Runs tasks and searches on the device of `tests/fixtures/foreign_device.py`, in this process.

`python -m tests.devices.on_foreign_device OUTPUT [tasks] [MODEL ...]` writes what it measured as
JSON: of all tasks, and of every search of these models. The device cannot be removed from a
process, so the tests start one that does everything.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from tests.fixtures.foreign_device import DEVICE, Transfers, counted, register

register()
# Views made in inference mode cannot be taken of tensors of a class of our own.
torch.inference_mode = torch.no_grad  # type: ignore[misc, assignment]

import headway.machine  # noqa: E402
from headway.machine import Machine, MachineConfig  # noqa: E402


def _prepared(config: MachineConfig) -> Machine:
    return Machine(DEVICE, config.dtype, 1)


headway.machine.prepare = _prepared

from headway.decoding import (  # noqa: E402
    Limits,
    ModelDraft,
    MostProbable,
    Sampling,
    TopP,
    beam_search,
    greedy_search,
    sample,
)
from headway.decoding.sampling import open_rows  # noqa: E402
from headway.decoding.speculative import speculative_steps  # noqa: E402
from headway.training import loop  # noqa: E402
from tests.fixtures.zoo import BOS, EOS, MODELS, Family, limits, some_rows  # noqa: E402
from tests.safety_net.cases import CASES, with_prerequisites  # noqa: E402
from tests.safety_net.running import headway as command_line  # noqa: E402
from tests.safety_net.tiny_data import write_all  # noqa: E402
from tests.tasks.every import EVERY, RUNS  # noqa: E402

LONGEST = 12  # tokens of an output
SHORT = ("--steps", "2", "--evaluation.every", "2", "--checkpoint.every", "2")


def tasks() -> dict[str, Any]:
    """For each task: the waits of its second training step, and the error of its run, if any."""
    steps: list[Transfers] = []
    plain = loop._step

    def step(*args: Any, **kwargs: Any) -> Any:
        with counted() as transfers:
            report = plain(*args, **kwargs)
        steps.append(transfers)
        return report

    loop._step = step
    measured: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        write_all(Path(name))
        of_task = {case.case: task for task, case in EVERY.items() if case.case in CASES}
        for case_name in with_prerequisites(list(of_task)):
            steps.clear()
            error = _error(lambda case_name=case_name: _run(case_name))
            waits = dict(steps[-1].waits) if steps else {}
            measured[of_task.get(case_name, case_name)] = {"error": error, "waits": waits}
    loop._step = plain
    return measured


def _run(name: str) -> None:
    """Train two steps, with an evaluation and a checkpoint, and predict."""
    case, run = RUNS[name], f"runs/{name}"
    for command in case.before:
        command_line(*command)
    command_line("train", case.recipe, *case.train, *SHORT, "--run", name, "--quiet")
    command_line(*(word.replace("{run}", run) for word in case.prediction))


def _error(action: Callable[[], object]) -> str | None:
    """Run the action; return where and why it failed."""
    log = Path("headway-error.log")
    log.unlink(missing_ok=True)
    try:
        action()
    except Exception:
        return log.read_text() if log.exists() else traceback.format_exc()
    return None


SEARCHES: dict[str, Callable[[Any, Family, list[list[int]], Limits], list[Any]]] = {
    "greedy": lambda model, family, rows, bounds: [
        hypothesis.tokens
        for hypothesis in greedy_search(model, _inputs(model, family, rows), bounds)
    ],
    "beam": lambda model, family, rows, bounds: [
        [hypothesis.tokens for hypothesis in best]
        for best in beam_search(
            model, _inputs(model, family, rows), bounds, width=3, num_best=2, alpha=0.6
        )
    ],
    "diverse beam": lambda model, family, rows, bounds: [
        [hypothesis.tokens for hypothesis in best]
        for best in beam_search(
            model,
            _inputs(model, family, rows),
            bounds,
            width=4,
            num_best=2,
            groups=2,
            diversity=0.5,
        )
    ],
}
SAMPLINGS = {
    "greedy sampling": Sampling(eos=EOS, max_tokens=LONGEST, rules=(MostProbable(),)),
    "sampling": Sampling(eos=EOS, max_tokens=LONGEST, rules=(TopP(0.9),), alternatives=2),
}
"""Of language models alone, which start from prompts."""


def searches(names: Iterable[str]) -> dict[str, Any]:
    """For each model and search: waits per step of the model, and whether the outputs are those of
    the CPU."""
    measured = {}
    rows = some_rows(4, seed=5)
    for name in names:
        family = MODELS[name]
        torch.manual_seed(0)
        plain = family.build()
        torch.manual_seed(0)
        moved = family.build().to(DEVICE)
        bounds = limits(rows, longest=LONGEST)
        runs = {
            search: lambda model, decode=decode, family=family, bounds=bounds: decode(
                model, family, rows, bounds
            )
            for search, decode in SEARCHES.items()
        }
        if name.startswith("gpt"):
            runs |= {
                search: lambda model, how=how: [row.tokens for (row,) in _sampled(model, rows, how)]
                for search, how in SAMPLINGS.items()
            }
            runs["speculative"] = lambda model: _speculated(model, rows)
        for search, run in runs.items():
            expected = run(plain)
            with _steps_counted(moved) as steps, counted() as transfers:
                actual = run(moved)
            measured[f"{name}: {search}"] = {
                "equal": actual == expected,
                "steps": len(steps),
                "waits": dict(transfers.waits),
            }
    return measured


def _inputs(model: Any, family: Family, rows: list[list[int]]) -> tuple[Any, ...]:
    device = next(model.parameters()).device
    return tuple(
        None if x is None else x.to(device, non_blocking=True) for x in family.inputs(rows)
    )


def _sampled(model: Any, rows: list[list[int]], how: Sampling) -> list[Any]:
    return sample(model, [[BOS, *row] for row in rows], how, [[3]] * len(rows))


def _speculated(model: Any, rows: list[list[int]]) -> list[list[int]]:
    how = SAMPLINGS["sampling"]
    opened = open_rows(model, [[BOS, *row] for row in rows], [[3]] * len(rows), how)
    for _ in speculative_steps(model, opened, how, ModelDraft(model, 3)):
        pass
    return [row.tokens for row in opened]


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
    of_tasks = tasks() if "tasks" in names else {}
    report = {"tasks": of_tasks, "searches": searches(name for name in names if name != "tasks")}
    Path(output).write_text(json.dumps(report), encoding="utf-8")
