"""`headway train`: trains a recipe on your data, with the settings that you change."""

import os
import resource
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from headway.base.config_files import RUN_FILE, read_yaml
from headway.base.errors import UsageError
from headway.base.ranks import LAUNCHED, Ranks, started
from headway.base.settings import COMMAND_LINE, COPIES, declared, differences, setting
from headway.cli.flags import QUIET, WORDS, as_flags, spelled, split_words
from headway.cli.processes import launch, number_of_processes
from headway.cli.streams import copied
from headway.runs import (
    AnyRunConfig,
    DryRun,
    Layer,
    Outcome,
    check_same,
    recipe,
    resolved,
    run_folder,
    saved,
    with_settings,
)
from headway.runs.loggers import loggers
from headway.runs.pace import bought
from headway.tasks.registry import task_of_config
from headway.terminal.console import data_json, program, report, say, say_next, talk
from headway.terminal.numbers import gigabytes, time_span
from headway.terminal.training import train_on_screen


@as_flags
class TrainFlags:
    run: str | None = setting(
        None, "Name of the run; its folder is runs/NAME. If unset, the name of the recipe."
    )
    resume: Path | None = setting(
        None,
        "Run folder to resume. Settings on the command line replace those of the run; the changes "
        "are recorded in its run.yaml.",
    )
    config: Path | None = setting(None, "YAML file of settings; flags override it.")
    processes: int | Literal["auto"] | None = setting(
        None,
        "Number of processes that train together, each on its part of every batch; auto is the "
        "number of GPUs. If unset, 1, or those that torchrun has started.",
        gt=0,
        le=COPIES,
    )
    dry_run: bool = setting(
        False,
        "Train and evaluate a few batches, and report the memory and time that the run would need.",
    )
    find_lr: bool = setting(
        False,
        "Train about 100 updates with a rising learning rate, and suggest a rate; nothing is "
        "saved. The test takes at most as many steps and as much time as the run.",
    )
    plot: Path | None = setting(None, "New file for the curve of --find-lr: .svg, .png or .pdf.")
    log: tuple[Literal["tensorboard", "wandb", "mlflow", "trackio"], ...] = setting(
        (),
        "Also write the log for other tools, separated by commas: tensorboard, wandb (offline), "
        "mlflow, trackio. Their files are in the folder logs of the run.",
    )
    json: bool = setting(
        False,
        "Print the outcome, or the report of a dry run or of --find-lr, as one JSON object on "
        "standard output.",
    )
    quiet: Annotated[bool, QUIET] = setting(False, "Show no progress.")


INTERRUPTED = 130
"""Exit code of a run that a signal has stopped."""

SWITCHES = {"-q"} | {
    spelled(name) for name, field in declared(TrainFlags).items() if field.type is bool
}
"""Flags of `train` and `compare` without a value; all others are followed by one."""


def train(
    *words: Annotated[str, WORDS],
    flags: TrainFlags = TrainFlags(),
) -> None:
    """Train a model or resume a run: headway train RECIPE [DATA] [--SETTING VALUE ...].

    RECIPE is one of the recipes below, or a task, which selects its first recipe. DATA is the
    training data, in plain files or .gz; headway train RECIPE --help shows the format. --from MODEL
    initialises from another model (fine-tuning), --teacher MODEL distils a student from a teacher.
    Every setting is a flag: --model.size small --optimizer.lr 1e-3 --steps 2000.

    A run of the same name and configuration is resumed from its last checkpoint.
    """
    size = number_of_processes(flags.processes)
    with started(report) as ranks:
        _train(words, flags, size, ranks)


def _train(words: Sequence[str], flags: TrainFlags, size: int, ranks: Ranks) -> None:
    """Train as `train` does, in one of the processes `ranks`; or start `size` processes that do."""
    arguments, changes = split_words(words)
    if flags.run is not None and flags.resume is not None:
        raise UsageError(
            f"--run {flags.run} and --resume {flags.resume}: a run is resumed in its own folder",
            hint=f"leave out --run; or start another run from its model with --from {flags.resume}",
        )
    layers: list[Layer] = (
        [] if flags.config is None else [(str(flags.config), read_yaml(flags.config))]
    )
    layers.append((COMMAND_LINE, changes))
    if flags.resume is None:
        settings = configured(_with_recipe(arguments, layers), layers)
        folder = run_folder(flags.run or settings.name)
    else:
        settings, folder = _resumed(flags.resume, arguments, layers), flags.resume
    quiet = flags.quiet or flags.json
    if (trial := _trial(flags)) and (size > 1 or not ranks.is_alone):
        raise UsageError(
            f"{trial} measures one process",
            hint="leave out --processes or torchrun: each process needs less than one alone",
        )
    if flags.find_lr:
        _find_rate(settings, arguments, changes, flags)
        return
    with copied(settings, folder) as settings_of_run:
        if size > 1:
            raise SystemExit(_launch(settings, settings_of_run, folder, flags, size))
        history = _history(folder, settings_of_run, flags.resume is not None, ranks)
        if flags.dry_run:
            _try_out(settings_of_run, json=flags.json, quiet=quiet)
            return
        with loggers(flags.log if ranks.is_first else (), folder) as listeners:
            outcome = train_on_screen(
                settings_of_run,
                folder,
                listeners=listeners,
                history=history,
                quiet=quiet,
                ranks=ranks,
            )
    if not ranks.is_first:
        raise SystemExit(INTERRUPTED if outcome.stop == "interrupted" else 0)
    if flags.json:
        data_json({**vars(outcome), "folder": str(outcome.folder)})
    _say_what_is_next(outcome, settings, ranks, flags.quiet)


def _trial(flags: TrainFlags) -> str | None:
    """The flag by which nothing is saved, or None. UsageError for flags that exclude each other."""
    if flags.dry_run and flags.find_lr:
        raise UsageError("--dry-run and --find-lr: only one of them can be measured at a time")
    if flags.find_lr and flags.resume is not None:
        raise UsageError(
            f"--find-lr and --resume {flags.resume}: the test begins with a new model",
            hint=f"leave out --resume; or start another run from its model: --from {flags.resume}",
        )
    if flags.plot is not None and not flags.find_lr:
        raise UsageError(
            f"--plot {flags.plot}: training has no plot",
            hint="headway report RUN; or add --find-lr",
        )
    return "--dry-run" if flags.dry_run else "--find-lr" if flags.find_lr else None


def _find_rate(
    settings: AnyRunConfig,
    arguments: Sequence[str],
    changes: Mapping[str, object],
    flags: TrainFlags,
) -> None:
    """Suggest a learning rate for the settings, which a test in a temporary folder finds."""
    from headway.cli.find_rate import Request, find_rate  # the help of `train` needs no plots

    quiet = flags.quiet or flags.json
    request = Request(
        arguments, changes, flags.run, flags.config, flags.plot, json=flags.json, quiet=quiet
    )
    with tempfile.TemporaryDirectory() as folder:
        test_folder = Path(folder) / "test"
        with copied(settings, test_folder) as settings_of_test:
            if settings_of_test is not settings:
                raise UsageError(
                    "--find-lr: data from a pipe can be read only once",
                    hint="write it to a file, and name that file",
                )
            end = find_rate(settings, test_folder, request)
    if end == "interrupted":
        raise SystemExit(INTERRUPTED)


def _launch(
    settings: AnyRunConfig, with_copies: AnyRunConfig, folder: Path, flags: TrainFlags, size: int
) -> int:
    """Start the processes of a run after the checks that need none; return the exit code."""
    if with_copies is not settings:
        raise UsageError(
            f"--processes {size}: several processes cannot read the data from a pipe",
            hint="write it to a file, and name that file",
        )
    if flags.resume is None:
        check_same(folder, settings)
    task_of_config(settings).check(settings)
    return launch(size)


def check_named(words: Sequence[str]) -> None:
    """UsageError if the words of a command that asks for help name no recipe."""
    if (name := unknown_recipe(words)) is not None:
        recipe(name)


def unknown_recipe(words: Sequence[str]) -> str | None:
    """The first argument among the words, unless one of them is a recipe."""
    arguments, _ = split_words([word for word in words if word not in SWITCHES])
    return None if any(map(resolved, words)) else next(iter(arguments), None)


def _say_what_is_next(outcome: Outcome, settings: AnyRunConfig, ranks: Ranks, quiet: bool) -> None:
    if outcome.stop == "interrupted":
        command = f"{program()} train --resume {outcome.folder}"
        if LAUNCHED in os.environ:
            command += f" --processes {ranks.size}"
        elif not ranks.is_alone:
            command = "the command that started the processes"
        talk.print(f"saved     resume with: {command}")
        raise SystemExit(INTERRUPTED)
    task = task_of_config(settings)
    derives = task.derives
    commands = task.next_commands if derives is None else derives.next_commands(settings)
    if not quiet:
        run = outcome.folder
        film = [f"report {run} --open", f"report {run} -o film.webp"] if _has_film(run) else []
        say_next([*(command.format(run=run) for command in commands), *film])


def _has_film(run: Path) -> bool:
    return (run / "report.html").is_file() and (run / "glimpses").is_dir()


def configured(words: Sequence[str], layers: Sequence[Layer]) -> AnyRunConfig:
    """The configuration of a new run. words: a recipe, and its training data if they are named."""
    settings = recipe(words[0], *layers)
    takes_many = isinstance(settings.data.train, tuple)
    if len(words) > 2 and not takes_many:
        raise UsageError(
            f"unexpected argument {words[2]!r}: expected a recipe and one path of training data"
        )
    if len(words) == 1:
        return settings
    if any("data.train" in values for origin, values in layers if origin == COMMAND_LINE):
        raise UsageError(
            f"training data are named twice: {words[1]} and --data",
            hint="name them after the recipe, or with --data",
        )
    data = words[1:] if takes_many else words[1]
    return with_settings(settings, (COMMAND_LINE, {"data.train": data}))


def _with_recipe(words: Sequence[str], layers: Sequence[Layer]) -> Sequence[str]:
    """The arguments with a recipe in front: their own, or the one that the settings name.

    UsageError if neither names a recipe. With a recipe in the settings, a first argument that is no
    recipe but an existing path is data.
    """
    named = [values["recipe"] for _, values in layers if "recipe" in values]
    if words and (not named or resolved(words[0]) is not None or not Path(words[0]).exists()):
        return words
    if not named:
        raise UsageError(
            "the recipe is missing", hint="headway train translate DATA; or headway demo"
        )
    return [str(named[-1]), *words]


def _resumed(folder: Path, words: Sequence[str], layers: Sequence[Layer]) -> AnyRunConfig:
    """The configuration of the run in a folder, with changed settings."""
    if words:
        raise UsageError(
            f"unexpected argument {words[0]!r}: --resume uses the recipe and data of the run",
            hint="leave it out",
        )
    return with_settings(saved(folder), *layers)


def _history(folder: Path, settings: AnyRunConfig, is_resumed: bool, ranks: Ranks) -> list[str]:
    """The notes at the head of a run's run.yaml, and one for each setting that --resume changes.

    The first process prints the changes. UsageError if the run was configured differently and is
    not named by --resume.
    """
    if not is_resumed:
        check_same(folder, settings)
    run = folder / RUN_FILE
    lines = run.read_text(encoding="utf-8").split("\n") if run.is_file() else []
    history = [line.removeprefix("# ") for line in lines if line.startswith("# ")]
    for key, old, new in differences(saved(folder), settings) if is_resumed else ():
        if ranks.is_first:
            say(f"          ! {key} changed from {old} to {new}")
        history.append(f"{time.strftime('%Y-%m-%d %H:%M')} {key}: {old} -> {new}")
    return history


def _try_out(settings: AnyRunConfig, *, json: bool, quiet: bool) -> None:
    """Run a few steps in a temporary folder, and report time and memory.

    The report is the result, not progress: it is printed with --quiet too.
    """
    dry_run = DryRun()
    with tempfile.TemporaryDirectory() as folder:
        trial = Path(folder) / "trial"
        config = dry_run.configured(settings)
        outcome = train_on_screen(config, trial, dry_run=dry_run, quiet=quiet)
        if outcome.stop == "interrupted":
            raise SystemExit(INTERRUPTED)
        tried = saved(trial)
        steps = tried.training.steps or outcome.step
        lines = bought(replace(settings, machine=tried.machine), trial)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    seconds = outcome.seconds / outcome.step * steps
    if json:
        report = {"steps": steps, "seconds": seconds, "memory_bytes": memory}
        data_json({**report, "time": lines} if lines else report)
        return
    talk.print(
        f"dry run   about {time_span(seconds)} for {steps:,} steps, without evaluations; "
        f"{gigabytes(memory)} GB of memory. Nothing was saved."
    )
    for line in lines:
        say(f"          {line}")
