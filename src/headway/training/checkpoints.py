"""Checkpoints of the whole training state: a killed run resumes bit-exactly on a CPU."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import torch
from torch import nn

from headway.base.errors import DataError
from headway.base.files import read_json, remove_unfinished_files, write_file
from headway.base.folders import new_folder, newest_verified
from headway.base.ranks import ALONE, Ranks
from headway.base.shapes import Tensor
from headway.base.tensors import read_tensors, write_tensors
from headway.training.budget import Budget
from headway.training.state import COUNTERS, StepReport, TrainingState, averaged
from headway.transforms.replicate import Replicas
from headway.transforms.shard import part_of, whole_tensor
from headway.transforms.tracing import sharded

SaveModel = Callable[[nn.Module, Path], None]
"""Saves the model that is being trained, with all that its verbs need, in a new folder."""
CHECKPOINTS = "checkpoints"
"""The folder of checkpoints in the folder of a run."""
MODEL = "model"
"""The folder of a usable model, in the folder of a run or in a checkpoint."""


def save_state(run: TrainingState, folder: Path, save_model: SaveModel | None = None) -> None:
    """Write the training state to `folder` durably and atomically, with a manifest of hashes.

    save_model: saves the model, too, in a form that verbs can use. All processes of a sharded run
    call this function: each writes a file with its part of the tensors, which are whole.
    """
    ranks = ALONE if run.shards is None else run.shards.ranks
    with _folder_of_all(folder, ranks) as path:
        if save_model is not None:
            with averaged(run) as model:
                if ranks.is_first:
                    save_model(model, path / MODEL)
        part = "" if ranks.is_alone else f"-{ranks.rank + 1}-of-{ranks.size}"
        with ranks.waiting(f"the tensors of {folder.name}"):
            tensors = _part_of(_tensors(run), ranks)
        write_tensors(path / f"state{part}.safetensors", tensors)
        if not ranks.is_first:
            return
        counters = {name: getattr(run, name) for name in COUNTERS}
        groups = [
            {k: v for k, v in group.items() if k != "params"}
            for group in run.optimizer.param_groups
        ]
        state = {"counters": counters, "groups": groups, "threads": torch.get_num_threads()}
        write_file(path / "state.json", json.dumps(state, indent=1).encode())


@contextmanager
def _folder_of_all(folder: Path, ranks: Ranks) -> Iterator[Path]:
    """A temporary folder that all processes fill; the first one completes it (`new_folder`)."""
    what = f"the checkpoint {folder.name}"
    if ranks.is_first:
        with new_folder(folder) as path:
            ranks.shared(str(path), what)
            yield path
            ranks.totals([0.0], what)
    else:
        yield Path(ranks.shared("", what))
        ranks.totals([0.0], what)


def _part_of(tensors: dict[str, Tensor], ranks: Ranks) -> dict[str, Tensor]:
    """Return the tensors that this process writes, of which it gathers all rows.

    The random state is that of the first process.
    """
    own = {}
    for number, (name, tensor) in enumerate(sorted(tensors.items(), key=itemgetter(0))):
        whole = whole_tensor(tensor)
        writer = 0 if name.startswith("rng.") else number % ranks.size
        if writer == ranks.rank:
            own[name] = whole.cpu() if whole is not tensor else tensor
    return own


def load_state(run: TrainingState, folder: Path) -> None:
    """Restore the training state that `save_state` wrote to `folder`, in place.

    Raises DataError if the checkpoint belongs to another model or optimizer.
    """
    where = str(folder)
    state = read_json(folder / "state.json")
    expected = _tensors(run)
    moments = tuple(f"optimizer.{name}." for name, _ in run.model.named_parameters())

    def is_known(name: str) -> bool:
        return name in expected or name.startswith(moments)

    tensors: dict[str, Tensor] = {}
    for path in sorted(folder.glob("state*.safetensors")):
        tensors |= read_tensors(path)
    missing = [n for n in expected if n not in tensors and not n.startswith("optimizer.")]
    # a run may continue without its average, or without a GPU
    unused = {f"average.{name}" for name, _ in run.model.named_parameters()} | {"rng.cuda"}
    unknown = [name for name in tensors if not is_known(name) and name not in unused]
    if missing or unknown:
        raise DataError(
            f"the checkpoint does not fit the model: {len(missing)} tensors missing"
            f"{' (first: ' + missing[0] + ')' if missing else ''}, {len(unknown)} unknown"
            f"{' (first: ' + unknown[0] + ')' if unknown else ''}",
            where,
            "train with the configuration of the checkpoint, or start a new run",
        )
    if len(state["groups"]) != len(run.optimizer.param_groups):
        raise DataError(
            f"the checkpoint was made with another optimizer: it has {len(state['groups'])} "
            f"parameter groups, and this optimizer has {len(run.optimizer.param_groups)}",
            where,
            "train with the configuration of the checkpoint, or start a new run",
        )
    _fill({f"model.{n}": p for n, p in run.model.named_parameters()}, tensors, where)
    _fill({f"buffer.{name}": buffer for name, buffer in _buffers(run)}, tensors, where)
    if run.average is not None:
        _fill({f"average.{n}": w for n, w in run.average.weights.items()}, tensors, where)
    groups = run.optimizer.param_groups
    # a fused optimizer counts the steps on its device, others on the CPU
    fused = {id(p) for group in groups if group.get("fused") for p in group["params"]}
    for name, parameter in run.model.named_parameters():
        prefix = f"optimizer.{name}."
        saved_moments = {
            k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)
        }
        on_cpu = () if id(parameter) in fused else ("step",)
        moved = {k: v if k in on_cpu else _like(parameter, v) for k, v in saved_moments.items()}
        if moved:
            run.optimizer.state[parameter] = moved
    for group, saved in zip(groups, state["groups"], strict=True):
        group.update({k: tuple(v) if isinstance(v, list) else v for k, v in saved.items()})
    for name in COUNTERS:
        setattr(run, name, state["counters"][name])
    torch.set_rng_state(tensors["rng.cpu"])
    if "rng.cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["rng.cuda"])


def _tensors(run: TrainingState) -> dict[str, Tensor]:
    names = {id(parameter): name for name, parameter in run.model.named_parameters()}
    tensors = {f"model.{n}": p.detach() for n, p in run.model.named_parameters()}
    if run.average is not None:
        tensors |= {f"average.{name}": weight for name, weight in run.average.weights.items()}
    tensors |= {f"buffer.{name}": buffer for name, buffer in _buffers(run)}
    for parameter, moments in run.optimizer.state.items():
        for key, value in moments.items():
            tensors[f"optimizer.{names[id(parameter)]}.{key}"] = value
    tensors["rng.cpu"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["rng.cuda"] = torch.cuda.get_rng_state()
    return tensors


def _tensors_of_all(run: TrainingState) -> Iterator[Tensor]:
    """Return the tensors that all processes have alike: all but random states and parts."""
    tensors = sorted(_tensors(run).items(), key=itemgetter(0))
    return (t for name, t in tensors if not name.startswith("rng.") and not sharded(t))


def _buffers(run: TrainingState) -> Iterator[tuple[str, Tensor]]:
    """Return the persistent buffers of a model, such as running means, by name."""
    persistent = run.model.state_dict(keep_vars=True)
    return ((name, b) for name, b in run.model.named_buffers() if name in persistent)


@torch.no_grad()
def _fill(tensors: dict[str, Tensor], saved: dict[str, Tensor], where: str) -> None:
    """Copy the saved values into the tensors of the same names."""
    for name, tensor in tensors.items():
        if saved[name].shape != tensor.shape:
            raise DataError(
                f"{name} has shape {tuple(saved[name].shape)} in the checkpoint, but "
                f"{tuple(tensor.shape)} in the model",
                where,
                "train with the configuration of the checkpoint, or start a new run",
            )
        tensor.copy_(part_of(saved[name], tensor))


def _like(parameter: Tensor, saved: Tensor) -> Tensor:
    """Return a tensor on the device of a parameter, and in parts if the parameter is."""
    moved = saved.to(parameter.device)
    return part_of(moved, parameter) if saved.shape == parameter.shape else moved


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
    """

    folder: Path
    every: int | Budget
    keep: int = 2
    save_model: SaveModel | None = None
    replicas: Replicas | None = None
    saved_fraction: float = 0.0
    saved_seconds: float = 0.0
    saved_step: int | None = None
    seconds: float = 0.0
    saves: int = 0

    def after_step(self, run: TrainingState, report: StepReport) -> None:
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
        """Save a checkpoint of this step, unless there is one."""
        if self.saved_step == run.step:
            return
        started = time.monotonic()
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
        replicas.check_equal(_tensors_of_all(run), f"after step {run.step}")
        with ranks.watch.long("a checkpoint"):
            if ranks.is_first or run.shards is not None:
                self._write(run)
        ranks.totals([0.0], f"the checkpoint of step {run.step}")

    def _write(self, run: TrainingState) -> None:
        path = self.folder / f"step-{run.step}"
        ranks = ALONE if run.shards is None else run.shards.ranks
        if ranks.shared(path.exists(), "whether there is a checkpoint"):
            return
        run.emit("saving")
        save_state(run, path, self.save_model if run.best is None else None)
        if not ranks.is_first:
            return
        # Older checkpoints are deleted only now that this one is durable.
        names = (re.fullmatch(r"step-(\d+)", p.name) for p in self.folder.iterdir())
        steps = sorted(int(name[1]) for name in names if name is not None)
        for step in [step for step in steps if step <= run.step][: -self.keep]:
            try:
                shutil.rmtree(self.folder / f"step-{step}")
            except OSError as error:
                text = f"an old checkpoint, step-{step}, cannot be removed: {error.strerror}"
                run.emit("note", text=text)
        run.emit("saved", path=str(path))

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
        replicas.check_equal(_tensors_of_all(run), "before the first step")
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
