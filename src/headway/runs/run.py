"""Training from a configuration, for any task: from files to the best model on disk."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch import nn

from headway.base.config_files import RUN_FILE, write_yaml
from headway.base.devices import Machine, MachineConfig, set_up_gpu
from headway.base.errors import DataError, HeadwayError, UsageError
from headway.base.files import lock, write_file
from headway.base.folders import INPUT
from headway.base.ranks import ALONE, Ranks
from headway.base.sharing import Interrupted, Share
from headway.bundle import Bundle
from headway.bundle.files import verify_files
from headway.data.bad_rows import LEFT_OUT, LEFT_OUT_FILE
from headway.evaluation.scores import Scores
from headway.models import parameter_count
from headway.runs.attention_over_time import FOLDER as GLIMPSES
from headway.runs.attention_over_time import FilmFolder
from headway.runs.card import write_card
from headway.runs.dry_run import DryRun, EvaluationLimit
from headway.runs.memory import peak_of_processes, states_of_process
from headway.runs.out_of_memory import memory_explained
from headway.runs.overlap import AT_ONCE
from headway.runs.recipes import AnyRunConfig
from headway.runs.report import PAGE, write_report
from headway.runs.resolve import Resolved
from headway.runs.start import begun
from headway.runs.together import check_same_data, for_processes, scores_of_first
from headway.tasks.job import AnyJob
from headway.tasks.registry import task_of_config
from headway.tasks.task import AnyTask
from headway.training import (
    CHECKPOINTS,
    MODEL,
    Averaging,
    Checkpointing,
    Evaluation,
    Event,
    Glimpses,
    MetricsLog,
    Objective,
    Observer,
    RecordedGradients,
    StepLog,
    StopRequest,
    TrainingState,
    agree,
    beside_others,
    fit,
    graceful_stop,
    learning_rate,
    prefetched,
)
from headway.training.loop import Stream
from headway.training.state import averaged
from headway.transforms import not_in_float8
from headway.transforms.recorder import CudaRecorder
from headway.transforms.replicate import Replicas
from headway.transforms.shard import Uncounted

LOGGED = {"plan", "train", "valid", "sample", "saved", "resumed", "finished"}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run. stop: why it ended (done, time, early stop, interrupted, dry run)."""

    folder: Path
    stop: str
    step: int
    best: float | None
    best_step: int
    seconds: float


def train(
    config: AnyRunConfig,
    folder: Path,
    *,
    listeners: Sequence[Callable[[Event], None]] = (),
    observers: Sequence[Observer] = (),
    history: Sequence[str] = (),
    dry_run: DryRun | None = None,
    ranks: Ranks = ALONE,
) -> Outcome:
    """Train in `folder`, or resume the run in it; resuming is bit-exact on the CPU of one machine.

    The folder is locked during training. A new folder is removed if the run fails before its first
    checkpoint. listeners: called with every event. history: lines above the configuration in
    run.yaml. dry_run: limits of training and evaluation, which override the configuration. ranks:
    the processes that train together, each of which calls this function; only the first one writes
    files, emits events and evaluates.
    """
    task = task_of_config(config)
    task.check(config)
    config = for_processes(config, folder, ranks)
    with (
        _owned(folder) if ranks.is_first else nullcontext(),
        memory_explained(folder),
        graceful_stop() as request,
    ):

        def emit(event: Event) -> None:
            if event["kind"] == LEFT_OUT:
                write_file(folder / LEFT_OUT_FILE, "\n".join([*event["rows"], ""]).encode())
            for listener in listeners:
                listener(event)
            if request:
                raise Interrupted

        go_on = EvaluationLimit(request, None if dry_run is None else dry_run.batches)
        start = begun(task, config, folder, history, emit, go_on, ranks)
        if start is None:
            return Outcome(folder, "interrupted", 0, None, 0, 0.0)
        resolved, run = start.resolved, start.run
        check_same_data(resolved.job, ranks)
        save = _checkpoints(run, resolved, folder)
        checkpoint_found, skipped = save.resume(run)
        _check_steps(run, resolved.budget.steps, folder)
        if ranks.is_first:
            # after the checkpoint has been found to fit: settings that are refused are not kept
            write_file(folder / RUN_FILE, write_yaml(resolved.job.config, history).encode())
            log = MetricsLog(folder / "metrics.jsonl")
            log.rewind(run.step, run.evaluated)
            run.listeners = [*listeners, partial(_keep, log)]
        _announce(run, resolved)
        if checkpoint_found is not None:
            _announce_resumed(run, checkpoint_found, skipped, folder / MODEL)
        all_observers = [*observers] if dry_run is None else [*observers, dry_run]
        return _train(task, resolved, run, save, all_observers, go_on, folder)


def _keep(log: MetricsLog, event: Event) -> None:
    """Keep an event in the log of a run, and flush the log before each checkpoint."""
    if event["kind"] in LOGGED:
        log(event)
    elif event["kind"] == "saving":
        log.flush()


@contextmanager
def _owned(folder: Path) -> Iterator[None]:
    """Keep other runs out of the folder of a run, and remove a new one whose run fails."""
    with _removed_if_new_and_failed(folder), lock(folder):
        yield


@contextmanager
def _removed_if_new_and_failed(folder: Path) -> Iterator[None]:
    """Remove a new folder if its run fails before the first checkpoint.

    A new folder may have the data that a command read from a pipe.
    """
    is_new = not folder.exists() or {path.name for path in folder.iterdir()} == {INPUT}
    has_parent = folder.parent.exists()
    try:
        yield
    except HeadwayError:
        if is_new and not (folder / CHECKPOINTS).exists():
            shutil.rmtree(folder, ignore_errors=True)
            if not has_parent:
                with suppress(OSError):  # another run may be in it by now
                    folder.parent.rmdir()
        raise


def _checkpoints(run: TrainingState, resolved: Resolved, folder: Path) -> Checkpointing:
    """The observer that saves checkpoints, each with the model of that step."""
    job, checkpoint = resolved.job, resolved.job.config.checkpoint
    ranks, seed = resolved.machine.ranks, job.config.training.seed
    return Checkpointing(
        folder / CHECKPOINTS,
        checkpoint.every or resolved.budget,
        checkpoint.keep,
        save_model=lambda model, path: job.bundle(model).save(path),
        replicas=run.shards or (None if ranks.is_alone else Replicas(run.model, ranks, seed)),
        in_background=True,
    )


def _check_steps(run: TrainingState, steps: int, folder: Path) -> None:
    if run.step > steps:
        raise UsageError(
            f"training.steps={steps}: the run has done {run.step:,} steps already",
            str(folder),
            f"--steps {run.step + steps} or another larger number",
        )


def _announce_resumed(run: TrainingState, checkpoint: Path, skipped: object, model: Path) -> None:
    """Announce the checkpoint from which a run goes on, and those that were skipped.

    Resets the best score if the best model is damaged or missing, so that it is saved again.
    """
    run.emit("resumed", path=str(checkpoint), skipped=skipped)
    try:
        if model.exists():
            verify_files(model)
        elif run.best is not None:
            raise DataError("there is no such folder", str(model))
    except DataError as error:
        text = f"the best model is damaged and will be saved again: {error.where}: {error.what}"
        run.emit("note", text=text)
        run.best, run.best_step = None, 0
        run.evaluated, run.evaluated_fraction = 0, 0.0


def _announce(run: TrainingState, resolved: Resolved) -> None:
    job, machine, pace = resolved.job, resolved.machine, resolved.pace
    training = job.config.training
    if not machine.ranks.is_alone:
        text = f"memory of a process: {states_of_process(run)}; activations are not included"
        run.emit("note", text=text)
    if machine.dtype == "float8" and (left := not_in_float8(run.model)):
        run.emit("note", text=f"float8: {left}; these stay in bfloat16")
    run.emit(
        "plan",
        parameters=parameter_count(run.model),
        machine=_described(machine, job.config.machine, run),
        steps=training.steps,
        time=training.time,
        seed=training.seed,
        buys=None if pace is None else pace.describe(training.time),
        **vars(job.summary),
        batches_per_epoch=job.batches.batches_per_epoch,
    )


def _described(machine: Machine, config: MachineConfig, run: TrainingState) -> str:
    """Describe the machine and what it decides about a run, for the terminal."""
    parts = config.micro_batches or 1
    return " · ".join(
        [
            str(machine),
            *(["CUDA graphs"] if config.graphs else []),
            *([f"batches in {parts} parts"] if parts > 1 else []),
            *(["each with a part of the model"] if run.shards is not None else []),
        ]
    )


def _train(
    task: AnyTask,
    resolved: Resolved,
    run: TrainingState,
    save: Checkpointing,
    observers: Sequence[Observer],
    go_on: EvaluationLimit,
    folder: Path,
) -> Outcome:
    """Train, evaluate and save, with the observers that the settings require before these ones."""
    job, machine, budget = resolved.job, resolved.machine, resolved.budget
    ranks, observed = machine.ranks, job.config.evaluation

    def evaluate(model: nn.Module) -> Scores:
        subject = (job.evaluated or job.bundle)(model)
        share = Share(go_on.from_here(), ranks)
        with machine.precision(), ranks.watch.long("an evaluation"):
            scores = task.score(subject, job.held_out, job.evaluation, share)
        for sample in scores.samples:
            run.emit("sample", **sample)
        return scores_of_first(scores, ranks)

    def keep_best(model: nn.Module) -> None:
        if ranks.is_first:
            with ranks.watch.long("the best model, which is saved"):
                job.bundle(model).save(folder / MODEL, overwrite=True)

    evaluation = Evaluation(
        evaluate,
        observed.metric,
        observed.every or budget,
        keep_best,
        observed.patience,
    )
    evaluation.catch_up(run)
    # a dry run has no report, and a model in parts is not gathered for pictures
    filmed = ranks.is_first and go_on.batches is None and run.shards is None
    glimpses = _glimpses(job, folder, run) if filmed else []
    budget.begin(run)
    if save.replicas is not None:
        agree(run, ranks)
    watching = [*observers, evaluation, *glimpses, save]
    with save.completed(run):
        _fit(run, resolved, watching, go_on.request, save.replicas)
        if run.stop != "interrupted":
            evaluation.evaluate(run)
            for observer in glimpses:
                observer.take(run)
        save.save(run)
    stop = run.stop or "done"
    outcome = Outcome(folder, stop, run.step, run.best, run.best_step, run.seconds)
    best = {"metric": observed.metric, "best": run.best, "best_step": run.best_step}
    if not ranks.is_alone:
        peaks = peak_of_processes(machine.device, ranks)
        run.emit("note", text=f"memory of the processes at the peak: {peaks}")
    run.emit("finished", stop=stop, **best, seconds=run.seconds)
    with averaged(run) as model:  # adapters cannot be merged in a model in parts
        if ranks.is_first:
            _report(run, folder, job.bundle(model), ranks)
    return outcome


def _report(run: TrainingState, folder: Path, bundle: Bundle, ranks: Ranks) -> None:
    """Write the report, and the card of the best model."""
    try:
        with ranks.watch.long("the report"):
            write_report(folder)
            if (folder / MODEL).is_dir():
                write_card(bundle, folder, folder / MODEL, largest=AT_ONCE)
    except HeadwayError as error:  # the training is saved; a failed report does not fail the run
        run.emit("note", text=f"no {PAGE}: {error}")


def _glimpses(job: AnyJob, folder: Path, run: TrainingState) -> list[Glimpses]:
    """The observer that films the run, after its first glimpse; none for a job without example."""
    if job.example is None:
        return []
    film = FilmFolder(folder / GLIMPSES, job.example)
    film.rewind(run.step)
    glimpses = Glimpses(lambda model, step, loss: film.keep(job.bundle(model), step, loss))
    glimpses.begin(run)
    return [glimpses]


def _of_this_process(run: TrainingState, job: AnyJob, ranks: Ranks) -> tuple[Objective, Stream]:
    """Return the loss and the batches of this process."""
    if run.shards is None:
        return job.objective, job.batches.shared(ranks, run.epoch, run.position)
    batches = job.batches.shared(ranks, run.epoch, run.position, Uncounted)
    return run.shards.objective(job.objective), batches


def _fit(
    run: TrainingState,
    resolved: Resolved,
    observers: Sequence[Observer],
    request: StopRequest,
    replicas: Replicas | None,
) -> None:
    job, machine, budget = resolved.job, resolved.machine, resolved.budget
    config, training = job.config, job.config.training
    recorded = None
    if config.machine.graphs:
        set_up_gpu(repeats_shapes=True)
        recorded = RecordedGradients(run.model, job.objective, CudaRecorder)
    objective, batches = _of_this_process(run, job, machine.ranks)
    with (
        prefetched(batches) if machine.prefetches else nullcontext(batches) as stream,
        beside_others(machine) as busy,
    ):
        fit(
            run,
            stream,
            objective,
            [
                *([job.objective] if isinstance(job.objective, Observer) else []),
                *([] if recorded is None else [recorded]),
                *busy,
                budget,
                Averaging(),
                StepLog(),
                *observers,
            ],
            steps=training.steps,
            learning_rate=lambda step: learning_rate(
                config.schedule, config.optimizer.lr, step, budget.total_steps(step, run.seconds)
            ),
            accumulate=job.accumulate,
            clip=training.clip,
            precision=machine.precision,
            request=request,
            recorded=recorded,
            replicas=replicas,
        )
