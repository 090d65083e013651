"""Checkpoints of a run: a killed run resumes bit-exactly on a CPU.

Training goes on while a checkpoint is written: the run waits for the copy of its state, and a
thread writes that.
"""

import itertools
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headway.base.errors import DataError, HeadwayError
from headway.base.files import remove_unfinished_files
from headway.base.folders import newest_verified
from headway.base.ranks import ALONE, Ranks
from headway.base.watch import NO_WATCH
from headway.training.budget import Budget
from headway.training.state import StepReport, TrainingState
from headway.training.state_files import (
    SaveModel,
    begun_save,
    copy_fits,
    load_state,
    tensors_of_all,
)
from headway.transforms.replicate import Replicas

CHECKPOINTS = "checkpoints"
"""The folder of checkpoints in the folder of a run."""

LOST = 600.0
"""Maximum time of training between checkpoints in seconds, unless they are some steps apart."""

SAVING = 0.05
"""Maximum fraction of a time limit that checkpoints take, the first and the last one excepted."""


@dataclass
class Checkpointing:
    """Observer that saves `folder/step-N`; it keeps the newest `keep`.

    every: number of steps between checkpoints, or the budget of the run, whose parts they end; no
    more than ten minutes of training are lost then.

    save_model: called for the checkpoints before the first evaluation, since the run has no best
    model until then. If None, checkpoints hold the training state only. replicas: the copies of the
    model in several processes: all check that theirs are equal, and the first one saves.

    in_background: training waits for the copy of its state only, if there is memory for one, and a
    thread writes that. An error of the thread is raised after the next step, at the next save or at
    the end of the block `completed`.
    """

    folder: Path
    every: int | Budget
    keep: int = 2
    save_model: SaveModel | None = None
    replicas: Replicas | None = None
    in_background: bool = False
    saved_fraction: float = 0.0
    saved_seconds: float = 0.0
    saved_step: int | None = None
    seconds: float = 0.0
    saves: int = 0
    _unfinished: tuple[int, Future[list[str]]] | None = None
    _writers: Ranks | None = None
    _is_noted: bool = False

    def after_step(self, run: TrainingState, report: StepReport) -> None:
        if self._unfinished is not None and self._unfinished[1].done():
            self._finish(run)
        if self._is_due(run):
            self.save(run)

    def _is_due(self, run: TrainingState) -> bool:
        if isinstance(self.every, int):
            return run.step % self.every == 0
        if run.seconds - self.saved_seconds >= LOST:
            return True
        with_next = self.seconds * (1 + 1 / max(1, self.saves))
        is_affordable = self.every.seconds is None or with_next <= SAVING * run.seconds
        is_due = self.every.parts(run.fraction) > self.every.parts(self.saved_fraction)
        return is_due and (is_affordable or not self.saves)

    def save(self, run: TrainingState) -> None:
        """Save a checkpoint of this step, unless there is one; the one before is complete then."""
        if self.saved_step == run.step:
            return
        started = time.monotonic()
        self._finish(run)
        if self.replicas is None:
            self._write(run)
        else:
            self._write_together(run, self.replicas)
        seconds = time.monotonic() - started
        if self.replicas is not None:
            (seconds,) = self.replicas.ranks.of_first([seconds], "the time of a checkpoint")
        self.saved_fraction, self.saved_seconds = run.fraction, run.seconds
        self.seconds, self.saves = self.seconds + seconds, self.saves + 1
        self.saved_step = run.step

    def _write_together(self, run: TrainingState, replicas: Replicas) -> None:
        """Check that all processes have the same state, and let the first write it, or all."""
        ranks = replicas.ranks
        replicas.check_equal(tensors_of_all(run), f"after step {run.step}")
        with ranks.watch.long("a checkpoint"):
            if ranks.is_first or run.shards is not None:
                self._write(run)

    def _write(self, run: TrainingState) -> None:
        path = self.folder / f"step-{run.step}"
        ranks = ALONE if run.shards is None else run.shards.ranks
        if ranks.shared(path.exists(), "whether there is a checkpoint"):
            return
        run.emit("saving")
        if self.in_background and self._writers is None:
            self._writers = ranks.for_thread()
        is_copied = self.in_background and copy_fits(run)
        save_model = self.save_model if run.best is None else None
        write = begun_save(run, path, save_model, is_copied=is_copied, writers=self._writers)
        if is_copied:
            thread = ThreadPoolExecutor(1)
            written = thread.submit(self._complete, write, run.step, ranks.is_first)
            self._unfinished = run.step, written
            thread.shutdown(wait=False)
            return
        if self.in_background and not self._is_noted:
            self._is_noted = True
            text = "checkpoints are written while training waits: no memory is free for a copy"
            run.emit("note", text=text)
        self._report(run, run.step, self._complete(write, run.step, ranks.is_first))

    def _complete(self, write: Callable[[], None], last: int, is_first: bool) -> list[str]:
        """Write the checkpoint of step `last`, and let the first process remove old ones.

        Returns messages about those that cannot be removed.
        """
        write()
        if not is_first:
            return []
        messages = []
        # Older checkpoints are deleted only now that this one is durable.
        names = (re.fullmatch(r"step-(\d+)", p.name) for p in self.folder.iterdir())
        steps = sorted(int(name[1]) for name in names if name is not None)
        for step in [step for step in steps if step <= last][: -self.keep]:
            try:
                shutil.rmtree(self.folder / f"step-{step}")
            except OSError as error:
                messages.append(
                    f"an old checkpoint, step-{step}, cannot be removed: {error.strerror}"
                )
        return messages

    def _finish(self, run: TrainingState) -> None:
        """Wait for the checkpoint that is being written, if any, and raise the error of its
        thread."""
        if self._unfinished is None:
            return
        (step, written), self._unfinished = self._unfinished, None
        watch = NO_WATCH if self.replicas is None else self.replicas.ranks.watch
        with watch.long("a checkpoint"):
            messages = written.result()
        self._report(run, step, messages)

    def _report(self, run: TrainingState, step: int, messages: Sequence[str]) -> None:
        for text in messages:
            run.emit("note", text=text)
        run.emit("saved", step=step, path=str(self.folder / f"step-{step}"))

    @contextmanager
    def completed(self, run: TrainingState) -> Iterator[None]:
        """A block of training, after which no checkpoint is unfinished, even if it fails."""
        try:
            yield
        except BaseException:
            try:
                self._finish(run)
            except HeadwayError as error:  # the first error is that of the block
                run.emit("note", text=f"the last checkpoint is not complete: {error}")
            raise
        self._finish(run)

    def resume(self, run: TrainingState) -> tuple[Path | None, list[str]]:
        """Load the newest checkpoint whose hashes verify.

        Returns its folder, or None if there is no checkpoint, and a message for each damaged one
        that was newer. Those are renamed: the run will save other checkpoints of the same steps,
        and must not delete older ones because damaged ones are newer. DataError if all are damaged.
        """
        if self.replicas is not None:
            return self._resume_together(run, self.replicas)
        return self._resume(run)

    def _resume_together(
        self, run: TrainingState, replicas: Replicas
    ) -> tuple[Path | None, list[str]]:
        """Let the first process choose the checkpoint and set damaged ones aside."""
        ranks = replicas.ranks
        newest, skipped = None, list[str]()
        with ranks.watch.long("the search for a checkpoint"):
            if ranks.is_first:
                newest, skipped = self._resume(run)
        name = ranks.shared(None if newest is None else newest.name, "the checkpoint to resume")
        if name is not None and not ranks.is_first:
            newest = self.folder / name
            self._load(run, newest)
        replicas.check_equal(tensors_of_all(run), "before the first step")
        return newest, skipped

    def _load(self, run: TrainingState, newest: Path) -> None:
        load_state(run, newest)
        self.saved_fraction, self.saved_seconds = run.fraction, run.seconds
        self.saved_step = run.step

    def _resume(self, run: TrainingState) -> tuple[Path | None, list[str]]:
        if not self.folder.exists():
            return None, []
        remove_unfinished_files(self.folder)
        newest, damaged = newest_verified(self.folder, "step-*")
        if newest is None and damaged:
            reasons = [f"{path.name}: {reason}" for path, reason in damaged.items()]
            raise DataError(
                "every checkpoint is damaged, so the run cannot be resumed: " + "; ".join(reasons),
                str(self.folder),
                "restore one of them from a copy; or move this folder away to train from the "
                "beginning",
            )
        if newest is not None:
            self._load(run, newest)
        return newest, [
            f"{path.name} (now {_set_aside(path).name}): {reason}"
            for path, reason in damaged.items()
        ]


def _set_aside(damaged: Path) -> Path:
    """Rename a damaged checkpoint so that it counts as none, and return its new path."""
    names = (f"damaged-{number}-{damaged.name}" for number in itertools.count(1))
    paths = (damaged.with_name(name) for name in names)
    return damaged.rename(next(path for path in paths if not path.exists()))
