"""On a device that refuses tensors of the CPU, every task trains and predicts, every search finds
the outputs of the CPU, and a GPU is awaited as rarely as is promised."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headway.decoding.fast_greedy import STEPS_UNREAD
from tests.fixtures.zoo import MODELS

ROOT = Path(__file__).resolve().parents[2]
FEW = ["translator rotary", "gpt modern"]
MEASURED: dict[str, Any] = {}


def measured(names: Sequence[str], folder: Path) -> dict[str, Any]:
    """What `on_foreign_device` measured, in one process for all tests that need the same."""
    key = " ".join(names)
    if key not in MEASURED:
        output = folder / "measured.json"
        paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        done = subprocess.run(
            [sys.executable, "-m", "tests.devices.on_foreign_device", str(output), *names],
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        MEASURED[key] = json.loads(output.read_text(encoding="utf-8"))
    return dict(MEASURED[key])


def test_a_third_of_the_tasks_trains_and_predicts_there_and_awaits_it_once_a_step(tmp_path):
    of_tasks = measured(["third", *FEW], tmp_path)["third"]
    assert len(of_tasks) > 4
    check_tasks(of_tasks)


@pytest.mark.slow
def test_every_task_trains_saves_evaluates_and_predicts_there_and_awaits_it_once_a_step(tmp_path):
    from tests.tasks.every import EVERY, OUTSIDE

    of_tasks = measured(["tasks"], tmp_path)["tasks"]
    assert of_tasks.keys() >= EVERY.keys() - set(OUTSIDE)
    check_tasks(of_tasks)


def test_searches_of_some_models_find_the_same_and_await_it_as_promised(tmp_path):
    check_searches(measured(["third", *FEW], tmp_path)["searches"], FEW)


@pytest.mark.slow
def test_searches_of_all_models_find_the_same_and_await_it_as_promised(tmp_path):
    check_searches(measured(list(MODELS), tmp_path)["searches"], list(MODELS))


@pytest.mark.slow
def test_every_run_is_inspected_evaluated_and_resumed_there(tmp_path):
    errors = measured(["commands"], tmp_path)["commands"]
    assert len(errors) > 25
    for name, error in errors.items():
        assert error is None, f"{name}: {error}"


@pytest.mark.slow
def test_gradients_of_every_model_and_kernel_are_the_cpus_and_await_nothing(tmp_path):
    gradients = measured(["gradients"], tmp_path)["gradients"]
    assert len(gradients) > 150
    for name, found in gradients.items():
        assert found["difference"] < 1e-3 and not found["waits"], f"{name}: {found}"


def check_tasks(of_tasks: dict[str, Any]) -> None:
    for name, task in of_tasks.items():
        assert task["error"] is None, f"{name}: {task['error']}"
        if name != "reward":  # it samples answers in each step, and reads their tokens
            assert sum(task["waits"].values()) == 1, f"{name}: {task['waits']}"


def check_searches(searches: dict[str, Any], models: Sequence[str]) -> None:
    """Greedy search reads tokens every few steps, beam search and sampling once a step, diverse
    beam search once for each group. Prompts of different lengths cost two more."""
    assert {name.partition(":")[0] for name in searches} == set(models)
    for name, found in searches.items():
        model, _, search = name.partition(": ")
        assert found["equal"], f"{name}: other outputs than on the CPU"
        most = {
            "greedy": math.ceil(found["steps"] / STEPS_UNREAD),
            "diverse beam": 2 * found["steps"],
            "speculative": math.inf,  # accepted and refused token by token
        }.get(search, found["steps"])
        most += 2 * model.startswith("gpt")
        assert sum(found["waits"].values()) <= most, f"{name}: {found}"
