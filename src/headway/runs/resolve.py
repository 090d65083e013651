"""What a run decides before its first step: its settings, machine, data, batch size and budget."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headway.base.config_files import RUN_FILE, write_yaml
from headway.base.devices import Machine, select_device
from headway.base.devices import prepare as prepare_machine
from headway.base.errors import UsageError
from headway.base.files import remove_unfinished_files, write_file
from headway.base.ranks import ALONE, Ranks
from headway.base.settings import flat, override
from headway.runs.data_files import NAME as DATA_FILES
from headway.runs.data_files import changed_files, data_files, remember_files
from headway.runs.memory import ignore, prepared_job
from headway.runs.pace import Pace, fitted_to_time
from headway.runs.recipes import (
    AnyRunConfig,
    changes_of,
    decided_by_machine,
    is_trained,
    saved_or_none,
)
from headway.tasks.job import AnyJob, Emit
from headway.tasks.task import AnyTask
from headway.training import Budget
from headway.training.budget import parse_time

TRAINING_ROWS = 512
"""Number of vectors of the products by which the number of threads of a run is chosen."""

PREPARED = ("data", "*.json", "metrics.jsonl", "glimpses", "report.html")
"""What a run has in its folder before its first checkpoint, besides run.yaml."""
READ_WHILE_TRAINING = frozenset(
    {
        "data.weights",
        "data.temperature",
        "data.bpe_dropout",
        "data.unigram_alpha",
        "data.noise_drop",
        "data.noise_mask",
        "data.noise_shuffle",
        "data.corruption_length",
        "data.test",
    }
)
"""Settings of the data on which prepared data do not depend."""


@dataclass(frozen=True)
class Resolved:
    """A run before its first step.

    job: its configuration has a value for every setting that the machine, the data or the time
    limit decide; of a run that is not `is_fitted`, those remain that the memory of its model
    decides (`fitted_to_memory`). pace: the measured speed of a new run with a time limit.
    """

    job: AnyJob
    machine: Machine
    budget: Budget
    is_fitted: bool
    pace: Pace | None


def resolve(
    task: AnyTask,
    config: AnyRunConfig,
    folder: Path,
    history: Sequence[str],
    emit: Emit,
    ranks: Ranks = ALONE,
) -> Resolved:
    """Decide all settings of a run, set up the machine, and prepare the data in the run folder.

    Exact results depend on what the machine decides, so a resumed run keeps its recorded values; a
    new run measures them. Of several processes, only the first one calls this function, and the
    others `as_decided`. UsageError if a trained run would get other data.
    """
    before = saved_or_none(folder)
    trained = is_trained(folder)
    config, machine = _on_this_machine(config, before, trained)
    machine = replace(machine, ranks=ranks)
    note = _prepared_folder(folder, config, before, trained, history)
    if note:
        emit({"kind": "note", "text": note})
    is_measured = config.training.time is not None and not trained
    if not is_measured:
        job, pace = prepared_job(task, config, folder, machine, emit), None
    else:
        job, pace = fitted_to_time(task, config, folder, machine, emit)
    check_divisible(job, ranks)
    budget = _budget(job, 0.0 if pace is None else pace.step_seconds)
    return Resolved(job, machine, budget, trained or is_measured, pace)


def check_divisible(job: AnyJob, ranks: Ranks) -> None:
    """Raise UsageError if several processes cannot share the batches of a job."""
    if not ranks.is_alone and not job.is_divisible:
        raise UsageError(
            "the loss of this recipe compares all examples of a batch with each other, so "
            f"{ranks.size} processes cannot share a batch",
            hint="train it with one process, without --processes",
        )


def as_decided(
    task: AnyTask, config: AnyRunConfig, folder: Path, ranks: Ranks, step_seconds: float
) -> Resolved:
    """Return the run with the settings that the first process has decided and with its data."""
    machine = replace(prepare_machine(config.machine, rows=TRAINING_ROWS), ranks=ranks)
    job = prepared_job(task, config, folder, machine, ignore)
    return Resolved(job, machine, _budget(job, step_seconds), is_fitted=True, pace=None)


def _budget(job: AnyJob, step_seconds: float) -> Budget:
    training = job.config.training
    seconds = parse_time(training.time) if training.time else None
    return Budget(training.steps, seconds, step_seconds)


def _on_this_machine(
    config: AnyRunConfig, before: AnyRunConfig | None, trained: bool
) -> tuple[AnyRunConfig, Machine]:
    """Set up the machine, and return the configuration with the settings that it decides.

    before: the configuration in the run folder. The batch size of a run that is not trained is
    measured again.
    """
    decided = decided_by_machine(config)
    if not trained:
        decided &= {"machine.threads", "machine.dtype"}
    recorded = {} if before is None else flat(before)
    changes = {key: recorded[key] for key in decided if recorded.get(key) is not None}
    config = override(config, changes, RUN_FILE)
    if recorded.get("machine.graphs") and select_device(config.machine.device) != "cuda":
        # the run goes on without a GPU; its results are the same without graphs
        config = override(config, {"machine.graphs": False}, "this machine")
    machine = prepare_machine(config.machine, rows=TRAINING_ROWS)
    measured: dict[str, object] = {"machine.dtype": machine.dtype}
    if machine.device == "cpu":
        measured["machine.threads"] = machine.threads
    return override(config, measured, "this machine"), machine


def _prepared_folder(
    folder: Path,
    config: AnyRunConfig,
    before: AnyRunConfig | None,
    trained: bool,
    history: Sequence[str],
) -> str | None:
    """Make a run folder ready for data of these settings; return a note on what was removed, or on
    files of the data that have changed.

    Data of a run that has saved neither a checkpoint nor a model are removed if any setting or file
    has changed, and the new settings are written.
    """
    for path in (folder, folder / "data"):
        if path.is_dir():
            remove_unfinished_files(path)  # of a killed process
    files = data_files(config)
    changed = changed_files(folder, files)
    comparable = before if type(before) is type(config) else None
    if trained:
        if comparable is not None:
            _check_same_data(folder, comparable, config)
        if changed:
            return (
                f"{', '.join(changed)}: changed since this run began; start another run to train "
                "with it from the beginning (--run NAME)"
            )
        return None
    is_same = comparable is not None and not changes_of(comparable, config) and not changed
    removed = [] if is_same else [path for name in PREPARED for path in folder.glob(name)]
    for path in removed:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    write_file(folder / RUN_FILE, write_yaml(config, history).encode())
    if not (folder / DATA_FILES).is_file():
        remember_files(folder, files)
    return "removed the data that an unfinished run had prepared" if removed else None


def _check_same_data(folder: Path, before: AnyRunConfig, config: AnyRunConfig) -> None:
    """The position in the data is part of a checkpoint, and its tokenizer of the model."""
    changes = changes_of(before, config, prefix="data.", ignored=READ_WHILE_TRAINING)
    if changes:
        raise UsageError(
            f"the data of a trained run cannot be changed: {changes}",
            str(folder),
            "start another run with --run NAME; for most recipes from this model, with --from "
            f"{folder}",
        )
