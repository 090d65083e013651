"""The start of a run: its settings, data and untrained model, in one process or in several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headway.base.config_files import RUN_FILE
from headway.base.errors import DataError
from headway.base.ranks import Ranks
from headway.base.settings import flat, override
from headway.base.sharing import Interrupted
from headway.runs.dry_run import DRY_RUN, EvaluationLimit
from headway.runs.memory import fitted_to_memory, is_sharded
from headway.runs.pace import state_of, untrained
from headway.runs.recipes import AnyRunConfig
from headway.runs.resolve import Resolved, as_decided, resolve
from headway.tasks.job import AnyJob, Emit
from headway.tasks.task import AnyTask
from headway.training import TrainingState
from headway.transforms.shard import Shards

DECIDED = "the settings and the data of process 0"
"""What the other processes wait for, for messages."""


@dataclass(frozen=True)
class Start:
    """A run before its first step, and its state."""

    resolved: Resolved
    run: TrainingState


def begun(
    task: AnyTask,
    config: AnyRunConfig,
    folder: Path,
    history: Sequence[str],
    emit: Emit,
    go_on: EvaluationLimit,
    ranks: Ranks,
) -> Start | None:
    """Decide the settings of a run and prepare its data and model; None if a signal interrupts it.

    The first process does so; the others wait, and use its settings and data.
    """
    if not ranks.is_first:
        return _as_first(task, config, folder, ranks)
    try:
        with ranks.watch.long("the preparation of the data"):
            resolved = resolve(task, config, folder, history, emit, ranks)
            _emit_baseline(resolved.job, go_on, emit)
            run, machine = untrained(resolved.job, resolved.machine), resolved.machine
            if not resolved.is_fitted:
                job = fitted_to_memory(task, config, resolved.job, run.model, machine, folder, emit)
                resolved = replace(resolved, job=job)
    except Interrupted:
        ranks.shared(None, DECIDED)
        return None
    in_parts = is_sharded(resolved.job.config, run.model, resolved.machine)
    decided = {
        "settings": flat(resolved.job.config),
        "seconds": resolved.budget.step_seconds,
        "is_sharded": in_parts,
    }
    ranks.shared(decided, DECIDED)
    return Start(resolved, _together(run, resolved, in_parts))


def _as_first(task: AnyTask, config: AnyRunConfig, folder: Path, ranks: Ranks) -> Start | None:
    """Return the run with the settings and the data of the first process."""
    decided: dict[str, Any] = ranks.shared({}, DECIDED)
    if not decided:
        return None
    if not (folder / RUN_FILE).is_file():
        raise DataError(
            f"process {ranks.rank} of {ranks.size} does not find the files of process 0",
            str(folder),
            "use a run folder on a file system that all machines share",
        )
    config = override(config, decided["settings"], "process 0")
    with ranks.watch.long("the reading of the data"):
        resolved = as_decided(task, config, folder, ranks, decided["seconds"])
        run = untrained(resolved.job, resolved.machine)
    return Start(resolved, _together(run, resolved, decided["is_sharded"]))


def _together(run: TrainingState, resolved: Resolved, in_parts: bool) -> TrainingState:
    """Return the state of a run with an optimizer that the processes share; or with parts, in which
    they divide the model."""
    ranks, seed = resolved.machine.ranks, resolved.job.config.training.seed
    if ranks.is_alone:
        return run
    shards = Shards(run.model, ranks, seed) if in_parts else None
    return replace(state_of(run.model, resolved.job, ranks), shards=shards)


def _emit_baseline(job: AnyJob, go_on: EvaluationLimit, emit: Emit) -> None:
    """Emit a note on the scores of the model that the run starts from.

    A dry run has no note if the evaluation needs more batches than it allows.
    """
    if job.baseline is None:
        return
    try:
        text = job.baseline(go_on.from_here())
    except Interrupted as interrupted:
        if interrupted.stop != DRY_RUN:
            raise
        return
    if text is not None:
        emit({"kind": "note", "text": text})
