"""Headway in Python: train, evaluate and load models, and list the tasks.

run = headway.train("tagging", data="names.conll", start="MiniLM/", steps=500)
run.bundle.tag(["Ada met Charles"])
headway.evaluate(run.bundle, "test.conll")["f1"]
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from headway.base.errors import UsageError
from headway.base.metrics_file import read_metrics
from headway.bundle import Bundle
from headway.bundle.arguments import checked
from headway.evaluation.scores import Scores
from headway.runs import AnyRunConfig, check_same, recipe, run_folder, saved, with_settings
from headway.runs.evaluation import evaluate_model
from headway.tasks.opening import load as load
from headway.tasks.registry import tasks as tasks
from headway.terminal.training import train_on_screen
from headway.training import Event

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class Run:
    """A training run on disk. stop: the reason why it ended: "done", "time", "early stop" or
    "interrupted"."""

    folder: Path
    stop: str

    @cached_property
    def config(self) -> AnyRunConfig:
        """The configuration of the run, including the settings that the data determined."""
        return saved(self.folder)

    @cached_property
    def bundle(self) -> Bundle:
        """The best model of the run."""
        return load(self.folder)

    @cached_property
    def scores(self) -> Scores:
        """The scores of the best model on the held-out data of the run, as in `headway eval`."""
        return evaluate_model(self.bundle, self.folder).scores

    def history(self, kind: str = "valid") -> list[dict[str, object]]:
        """The events of the log of one kind: "valid" for evaluations, "train" for steps."""
        return read_metrics(self.folder / "metrics.jsonl", kind)


@checked
def train(
    name: str,
    *,
    data: Paths | None = None,
    start: str | os.PathLike[str] | None = None,
    teacher: str | os.PathLike[str] | None = None,
    steps: int | None = None,
    run: str | None = None,
    settings: Mapping[str, object] | None = None,
    listeners: Sequence[Callable[[Event], None]] = (),
    quiet: bool = False,
) -> Run:
    """Train a model, or resume a run of the same name and settings.

    name: a recipe (`headway train --help`), or a task (`tasks()`), which selects its first recipe.
    data: file or files of training data. start: the model to initialise from (fine-tuning).
    teacher: the model to distil, for the recipe "distil". steps: number of updates. run: name of
    the run, whose folder is runs/NAME; if unset, the name of the recipe. settings: further settings
    by dotted name: {"optimizer.lr": 1e-4}. listeners: called with every event of the log. quiet:
    show no progress on standard error.

    UsageError for invalid settings, or if the run in the folder has other settings; DataError for
    invalid training data.
    """
    changes: dict[str, object] = dict(settings or {})
    if start is not None:
        changes["training.start"] = os.fspath(start)
    if teacher is not None:
        changes["training.teacher"] = os.fspath(teacher)
    if steps is not None:
        changes["training.steps"] = steps
    config = recipe(name, ("headway.train", changes))
    if data is not None:
        paths = _paths(data)
        takes_many = isinstance(config.data.train, tuple)
        if len(paths) > 1 and not takes_many:
            raise UsageError(
                f"{name} accepts one file or folder of training data, and there are {len(paths)}"
            )
        train_on = tuple(map(str, paths)) if takes_many else str(paths[0])
        config = with_settings(config, ("headway.train", {"data.train": train_on}))
    folder = run_folder(run or config.name)
    check_same(folder, config)
    outcome = train_on_screen(config, folder, listeners=listeners, quiet=quiet)
    return Run(folder, outcome.stop)


@checked
def evaluate(
    model: Bundle | Run | str | os.PathLike[str], data: Paths | None = None, **options: object
) -> Scores:
    """Evaluate a model with the metrics of its task, as `headway eval` does.

    model: a bundle, a run, or the folder of a run or model. data: files of examples with their
    references or labels; if unset, the held-out data of the run, which needs a run or its folder.
    options: options of the evaluation of the task, such as `beam` for translation.

    UsageError for an unknown option; DataError for an invalid example.
    """
    paths = None if data is None else _paths(data)
    if isinstance(model, Bundle):
        return evaluate_model(model, None, paths, options).scores
    folder = model.folder if isinstance(model, Run) else Path(model)
    bundle = model.bundle if isinstance(model, Run) else load(folder)
    return evaluate_model(bundle, folder, paths, options).scores


def _paths(data: Paths) -> list[Path]:
    paths = [data] if isinstance(data, str | os.PathLike) else data
    return [Path(path) for path in paths]
