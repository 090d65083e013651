"""Training and evaluating the variants of a plan, one after the other."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headway.base.devices import prepare as prepare_machine
from headway.base.errors import HeadwayError
from headway.base.files import lock, read_json, write_file
from headway.base.metrics_file import read_metrics
from headway.base.settings import override
from headway.base.sharing import WHOLE
from headway.comparisons.plans import Plan
from headway.evaluation.scores import Metric, Scores
from headway.models import parameter_count
from headway.runs.recipes import AnyRunConfig, Layer, check_same, recipe
from headway.runs.run import Outcome
from headway.tasks.opening import load
from headway.tasks.registry import task_of_config
from headway.tasks.task import AnyTask

FORMAT = 3  # the version of comparison.json

Trainer = Callable[[AnyRunConfig, Path], Outcome]


@dataclass(frozen=True)
class Measured:
    """The results of one finished run.

    metrics, counts, details: its scores on the test data, or on the held-out data if there is none.
    validations: the metrics of each evaluation during training, with its step and seconds.
    """

    name: str
    variant: str
    seed: int
    parameters: int
    metrics: list[Metric]
    counts: dict[str, int]
    details: dict[str, object]
    steps: int
    seconds: float
    targets_per_second: float
    validations: list[dict[str, float]]

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Measured:
        """The result from the dictionary that `asdict` returned."""
        return cls(**{**saved, "metrics": [Metric(**metric) for metric in saved["metrics"]]})


@dataclass(frozen=True)
class Comparison:
    """The results of a comparison: finished runs, errors of failed runs by name, and whether it was
    interrupted."""

    plan: Plan
    task: AnyTask
    measured: list[Measured]
    failed: dict[str, str]
    interrupted: bool

    def by_variant(self) -> dict[str, list[Measured]]:
        """The finished runs of each variant by its name, one for each seed."""
        return {
            variant.name: runs
            for variant in self.plan.variants
            if (runs := [run for run in self.measured if run.variant == variant.name])
        }

    def metrics(self) -> dict[str, Metric]:
        """The metrics of all runs, by name."""
        metrics: dict[str, Metric] = {}
        for run in self.measured:
            for metric in run.metrics:
                metrics.setdefault(metric.name, metric)
        return metrics


def settings_of(plan: Plan, common: Sequence[Layer]) -> dict[str, AnyRunConfig]:
    """The configuration of every run, checked before any is trained.

    common: layers of settings over those of the plan, such as those of the command line. UsageError
    for an invalid setting.
    """
    configs = {}
    for variant, seed, name in plan.runs():
        layers = [
            # a time limit changes neither the batch nor the size of a variant
            ("the comparison", {"training.updates": 0, "training.sizes": ()}),
            ("the plan", plan.common),
            *common,
            (f"variant {variant.name}", variant.changes),
        ]
        config = recipe(plan.recipe, *layers, ("seeds", {"training.seed": seed}))
        task_of_config(config).check(config)
        configs[name] = config
    return configs


def compare(
    plan: Plan,
    configs: Mapping[str, AnyRunConfig],
    folder: Path,
    train: Trainer,
    *,
    options: Mapping[str, object] = {},
    announce: Callable[[str, int, int], None] = lambda name, number, total: None,
) -> Comparison:
    """Train and evaluate each run in `folder`/NAME; a second call resumes the comparison.

    Finished runs are not trained again, and evaluated ones not evaluated again. The error of a run
    that fails is recorded, and the others continue. train: trains a configuration in a folder.
    options: options of the evaluation, of which the task uses those that it has. announce: called
    with the name of each run before its training, its number, and the number of runs.
    """
    measured: list[Measured] = []
    failed: dict[str, str] = {}
    task = task_of_config(next(iter(configs.values())))
    with lock(folder):
        for name, config in configs.items():
            check_same(folder / name, config)
        runs = list(plan.runs())
        for number, (variant, _, name) in enumerate(runs, start=1):
            path, config = folder / name, configs[name]
            try:
                if not is_finished(path):
                    announce(name, number, len(runs))
                    if train(config, path).stop == "interrupted":
                        return Comparison(plan, task, measured, failed, True)
                measured.append(_measured(path, config, variant.name, options))
            except Exception as error:
                failed[name] = str(error) if isinstance(error, HeadwayError) else repr(error)
    return Comparison(plan, task, measured, failed, False)


def is_finished(folder: Path) -> bool:
    """Whether the run in `folder` has finished, and was not interrupted."""
    ends = read_metrics(folder / "metrics.jsonl", "finished")
    return bool(ends) and ends[-1].get("stop") != "interrupted"


def _measured(
    folder: Path, config: AnyRunConfig, variant: str, options: Mapping[str, object]
) -> Measured:
    """Evaluate a finished run, or read the results of an evaluation with the same options."""
    task = task_of_config(config)
    names = {field.name for field in dataclasses.fields(task.evaluation)}
    chosen = {name: value for name, value in options.items() if name in names}
    if task.compares is not None:
        chosen |= task.compares.options(config)
    path, key = folder / "comparison.json", {"format": FORMAT, "options": chosen}
    if path.is_file():
        saved = read_json(path)
        if isinstance(saved, dict) and {name: saved.get(name) for name in key} == key:
            return Measured.from_json(saved["measured"])
    measured = _measure(
        folder, config, variant, override(task.evaluation(), chosen, "the comparison")
    )
    text = json.dumps({**key, "measured": asdict(measured)}, ensure_ascii=False)
    write_file(path, (text + "\n").encode())
    return Measured.from_json(json.loads(text)["measured"])


def _measure(folder: Path, config: AnyRunConfig, variant: str, options: object) -> Measured:
    machine, task = prepare_machine(config.machine), task_of_config(config)
    bundle = load(folder, machine.device)
    with machine.precision():
        scores = _scores(task, bundle, task.held_out(bundle, folder, config, options), options)
    log = folder / "metrics.jsonl"
    valid, train = read_metrics(log, "valid"), read_metrics(log, "train")
    return Measured(
        name=folder.name,
        variant=variant,
        seed=config.training.seed,
        parameters=parameter_count(bundle.model),
        metrics=list(scores.metrics),
        counts=dict(scores.counts),
        details=dict(scores.details),
        steps=valid[-1]["step"],
        seconds=valid[-1]["seconds"],
        targets_per_second=_mean([row["targets_per_second"] for row in train]),
        validations=[_numbers(row) for row in valid],
    )


def _scores(task: AnyTask, bundle: Any, examples: Any, options: object) -> Scores:
    if task.compares is not None:
        return task.compares.evaluate(bundle, examples, options)
    return task.evaluate(bundle, examples, options, WHOLE)


def _numbers(row: Mapping[str, object]) -> dict[str, float]:
    """The numbers of an event of the log, without Boolean values."""
    return {
        name: float(value)
        for name, value in row.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
