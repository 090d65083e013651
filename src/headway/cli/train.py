"""`headway train`: trains a recipe on your data, with the settings that you change."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from headway.base.config_files import read_yaml
from headway.base.errors import UsageError
from headway.base.settings import COMMAND_LINE
from headway.cli.console import data_json, program, talk
from headway.cli.numbers import gigabytes, time_span
from headway.cli.progress import Screen
from headway.cli.streams import copied, in_run
from headway.tasks.registry import task_of_config

if TYPE_CHECKING:
    from headway.runs import AnyRunConfig, DryRun, Outcome
    from headway.training import Observer

SHORT = {
    "model": "model.size",
    "data": "data.train",
    "from": "training.start",
    "teacher": "training.teacher",
    "from-encoder": "training.encoder",
    "from-decoder": "training.decoder",
    "source": "data.source",
    "target": "data.target",
    "valid": "data.valid",
    "test": "data.test",
    "column": "data.column",
    "steps": "training.steps",
    "epochs": "training.epochs",
    "time": "training.time",
    "seed": "training.seed",
    "device": "machine.device",
    "dtype": "machine.dtype",
    "threads": "machine.threads",
    "fast": "machine.fast",
    "compile": "machine.compile",
    "graphs": "machine.graphs",
}
"""Short names of the most used settings."""


def train(
    *words: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)],
    run: str | None = None,
    resume: Path | None = None,
    config: Path | None = None,
    dry_run: bool = False,
    json: bool = False,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False,
) -> None:
    """Train a model or resume a run: headway train RECIPE [DATA] [--SETTING VALUE ...].

    RECIPE is one of the recipes below, or a task, which selects its first recipe. DATA is the
    training data, in plain files or .gz; headway train RECIPE --help shows the format. --from MODEL
    initialises from another model (fine-tuning), --teacher MODEL distils a student from a teacher.
    Every setting is a flag: --model.size small --optimizer.lr 1e-3 --steps 2000.

    A run of the same name and configuration is resumed from its last checkpoint.

    Parameters
    ----------
    run
        Name of the run; its folder is runs/NAME. If unset, the name of the recipe.
    resume
        Run folder to resume. Settings on the command line replace those of the run; the changes
        are recorded in its run.yaml.
    config
        YAML file of settings; flags override it.
    dry_run
        Train and evaluate a few batches, and report the memory and time that the run would need.
    json
        Print the outcome, or the report of a dry run, as one JSON object on standard output.
    quiet
        Show no progress.
    """
    arguments, flags = split_words(words)
    if run is not None and resume is not None:
        raise UsageError(
            f"--run {run} and --resume {resume}: a run is resumed in its own folder",
            hint=f"leave out --run; or start another run from its model with --from {resume}",
        )
    layers: list[tuple[str, Any]] = [] if config is None else [(str(config), read_yaml(config))]
    layers.append((COMMAND_LINE, flags))
    if resume is not None:
        settings, folder, history = _resumed(resume, arguments, layers)
    else:
        settings, folder, history = _new(run, arguments, layers)
    if dry_run:
        _try_out(settings, json=json, quiet=quiet)
        return
    outcome = run_training(settings, folder, history, quiet=quiet or json)
    if json:
        data_json({**vars(outcome), "folder": str(outcome.folder)})
    _say_what_is_next(outcome, settings, quiet)


def _say_what_is_next(outcome: Outcome, settings: AnyRunConfig, quiet: bool) -> None:
    if outcome.stop == "interrupted":
        talk.print(f"saved     resume with: {program()} train --resume {outcome.folder}")
        raise SystemExit(130)
    task = task_of_config(settings)
    derives = task.derives
    commands = task.next_commands if derives is None else derives.next_commands(settings)
    if not quiet:
        calls = (f"{program()} {command.format(run=outcome.folder)}" for command in commands)
        talk.print("next      " + " · ".join(calls), markup=False)


def _new(
    run: str | None, words: Sequence[str], layers: Sequence[tuple[str, Any]]
) -> tuple[AnyRunConfig, Path, list[str]]:
    from headway.runs import recipe, run_folder, with_settings

    words = _with_recipe(words, layers)
    settings = recipe(words[0], *layers)
    takes_many = isinstance(settings.data.train, tuple)
    if len(words) > 2 and not takes_many:
        raise UsageError(
            f"unexpected argument {words[2]!r}: expected a recipe and one path of training data"
        )
    if len(words) >= 2:
        if any("data.train" in values for origin, values in layers if origin == COMMAND_LINE):
            raise UsageError(
                f"training data are named twice: {words[1]} and --data",
                hint="name them after the recipe, or with --data",
            )
        data = words[1:] if takes_many else words[1]
        settings = with_settings(settings, (COMMAND_LINE, {"data.train": data}))
    folder = run_folder(run or settings.name)
    settings = in_run(settings, folder)
    with copied(folder):
        return settings, folder, _history(folder, settings)


def _with_recipe(words: Sequence[str], layers: Sequence[tuple[str, Any]]) -> Sequence[str]:
    """The arguments with a recipe in front: their own, or the one that the settings name.

    UsageError if neither names a recipe. With a recipe in the settings, a first argument that is no
    recipe but an existing path is data.
    """
    from headway.runs import resolved

    named = [values["recipe"] for _, values in layers if "recipe" in values]
    if words and (not named or resolved(words[0]) is not None or not Path(words[0]).exists()):
        return words
    if not named:
        raise UsageError(
            "the recipe is missing", hint="headway train translate DATA; or headway demo"
        )
    return [str(named[-1]), *words]


def split_words(
    words: Sequence[str], short: Mapping[str, str] = SHORT
) -> tuple[list[str], dict[str, Any]]:
    """The arguments without dashes, and the settings: --a.b VALUE, --a.b=VALUE or --a.b (true)."""
    arguments: list[str] = []
    flags: dict[str, Any] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            if word.startswith("-") and len(word) > 1:
                raise UsageError(f"unknown option {word}", hint="--help lists all options")
            arguments.append(word)
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else "true"
        flags[short.get(name, name.replace("-", "_"))] = value
    return arguments, flags


def run_training(
    settings: AnyRunConfig,
    folder: Path,
    history: Sequence[str] = (),
    *,
    observers: Sequence[Observer] = (),
    quiet: bool = False,
    dry_run: DryRun | None = None,
) -> Outcome:
    """Train a run and show its progress on standard error."""
    from headway.runs import train as train_run

    screen = Screen(quiet)
    all_observers = [screen, *observers]
    try:
        with copied(folder):
            return train_run(
                in_run(settings, folder),
                folder,
                listeners=[screen],
                observers=all_observers,
                history=history,
                dry_run=dry_run,
            )
    finally:
        screen.close()


def _history(folder: Path, settings: AnyRunConfig) -> list[str]:
    """The notes of the run in a folder. UsageError if it was configured differently."""
    from headway.runs import check_same

    check_same(folder, settings)
    return _notes(folder)


def _notes(folder: Path) -> list[str]:
    if not (folder / "run.yaml").is_file():
        return []
    lines = (folder / "run.yaml").read_text(encoding="utf-8").split("\n")
    return [line.removeprefix("# ") for line in lines if line.startswith("# ")]


def _resumed(
    folder: Path, words: Sequence[str], layers: Sequence[tuple[str, Any]]
) -> tuple[AnyRunConfig, Path, list[str]]:
    from headway.base.settings import differences
    from headway.runs import saved, with_settings

    if words:
        raise UsageError(
            f"unexpected argument {words[0]!r}: --resume uses the recipe and data of the run",
            hint="leave it out",
        )
    before = saved(folder)
    settings = with_settings(before, *layers)
    history = _notes(folder)
    for key, old, new in differences(before, settings):
        talk.print(f"          ! {key} changed from {old} to {new}", markup=False)
        history.append(f"{time.strftime('%Y-%m-%d %H:%M')} {key}: {old} -> {new}")
    return settings, folder, history


def _bought(settings: AnyRunConfig, tried: AnyRunConfig, trial: Path) -> list[str]:
    """Say what the time limit is enough for, and with which smaller model.

    tried: the configuration of the dry run in the folder `trial`, whose data are ready.
    """
    from headway.base.devices import prepare
    from headway.runs.pace import fitted_to_time, suggested_size
    from headway.tasks.sections import parse_time

    machine, config = prepare(tried.machine), replace(settings, machine=tried.machine)
    task, seconds = task_of_config(config), parse_time(settings.training.time)

    def job(config: AnyRunConfig) -> Any:
        return task.prepare(config, trial, machine, lambda event: None)

    fitted, pace = fitted_to_time(config, seconds, machine, job)
    if pace is None:
        return []
    lines = [pace.describe(settings.training.time)]
    if pace.updates < min(config.training.updates, fitted.config.training.steps):
        suggested = suggested_size(fitted.config, seconds, machine, job)
        if suggested is not None:
            size, other = suggested
            lines.append(
                f"--model {size}: about {other.updates:,} updates, {other.epochs:.2g} epochs"
            )
    return lines


def _try_out(settings: AnyRunConfig, *, json: bool, quiet: bool) -> None:
    """Run a few steps in a temporary folder, and report time and memory.

    The report is the result, not progress: it is printed with --quiet too.
    """
    import resource

    from headway.runs import DryRun, saved

    dry_run = DryRun()
    with tempfile.TemporaryDirectory() as folder:
        trial, tried = Path(folder) / "trial", dry_run.configured(settings)
        outcome = run_training(tried, trial, quiet=quiet or json, dry_run=dry_run)
        if outcome.stop == "interrupted":
            raise SystemExit(130)
        steps = saved(trial).training.steps or outcome.step
        bought = _bought(settings, saved(trial), trial) if settings.training.time else []
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    seconds = outcome.seconds / outcome.step * steps
    if json:
        report = {"steps": steps, "seconds": seconds, "memory_bytes": memory}
        data_json({**report, "time": bought} if bought else report)
        return
    talk.print(
        f"dry run   about {time_span(seconds)} for {steps:,} steps, without evaluations; "
        f"{gigabytes(memory)} GB of memory. Nothing was saved."
    )
    for line in bought:
        talk.print(f"          {line}", markup=False)
