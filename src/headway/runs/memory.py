"""What the free memory decides: into how many parts a batch is cut, and whether graphs are used.

The forward pass of a batch keeps activations for the backward pass. They are most of the memory of
a step, and in proportion to the batch. A batch that does not fit is computed in parts, one after
the other, whose gradients are added: exactly as `training.accumulate` smaller batches. The update
has as many examples as without parts, so that no recipe need know the machine.
"""

import math
import resource
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import islice
from operator import attrgetter
from pathlib import Path

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef

from headway.base.devices import Machine
from headway.base.errors import UsageError, is_out_of_memory
from headway.base.memory import USED, free_memory
from headway.base.ranks import Ranks
from headway.base.settings import COPIES, override
from headway.base.shapes import Tensor
from headway.data.stream import Batch
from headway.runs.recipes import AnyRunConfig
from headway.tasks.job import AnyJob, Emit
from headway.tasks.sections import batch_key
from headway.tasks.task import AnyTask
from headway.training import Event, Objective, Observer, TrainingState
from headway.training.recorded import obstacle_to_recording
from headway.transforms import Recomputed
from headway.transforms.recorder import CudaRecorder
from headway.transforms.shard import bytes_here, obstacle_to_shards
from headway.transforms.stacks import stacked_blocks

LOOKED_AT = 8
"""Maximum number of batches of which the largest is measured."""

STATES = 3
"""Tensors that a step adds for each parameter: its gradient, and the two means of AdamW."""

BOUND = 64
"""A matrix of n inputs and m outputs keeps fewer than this times n + m bytes for each number of a
batch: four tensors of 4 bytes each, in batches four times as long as the first."""


@dataclass(frozen=True)
class Need:
    """The memory of a step in bytes.

    kept: by the forward pass of a batch, infinite if there was not enough for the pass itself.
    room: what activations may take, of the memory that is free now.
    """

    kept: float
    room: float

    def __str__(self) -> str:
        kept = f"{self.kept / 1e9:.2f} GB" if self.kept < math.inf else "more"
        room = f"{max(0.0, self.room) / 1e9:.2f} GB"
        return f"{room} of memory are free for the activations of a batch, which take {kept}"


def prepared_job(
    task: AnyTask, config: AnyRunConfig, folder: Path, machine: Machine, emit: Emit
) -> AnyJob:
    """Prepare the data of a run and its job, whose batches are cut into `machine.micro_batches`.

    UsageError if they cannot be cut into this number of equal parts.
    """
    job = task.prepare(config, folder, machine, emit)
    parts = config.machine.micro_batches or 1
    return job if parts == 1 else _cut(task, config, job, parts, folder, machine)


def _cut(
    task: AnyTask, config: AnyRunConfig, job: AnyJob, parts: int, folder: Path, machine: Machine
) -> AnyJob:
    """Return the job with the batches of one that has smaller ones, and all else as it is."""
    key, size = _batch_size(job)
    if size % parts:
        raise UsageError(
            f"machine.micro_batches={parts}: {key}={size} cannot be cut into {parts} equal parts",
            hint="set a divisor of the batch size, or leave it out",
        )
    changes = {key: size // parts, "training.accumulate": config.training.accumulate * parts}
    with torch.random.fork_rng([]):  # the model of the run exists already
        smaller = task.prepare(override(config, changes, "the memory"), folder, machine, ignore)
    recorded = override(job.config, {"machine.micro_batches": parts}, "the memory")
    return replace(job, config=recorded, batches=smaller.batches, objective=smaller.objective)


def _batch_size(job: AnyJob) -> tuple[str, int]:
    """Return the dotted key of the batch size, and its value: 1 if there is none."""
    key = batch_key(job.config)
    return ("the batch size", 1) if key is None else (key, attrgetter(key)(job.config))


def ignore(event: Event) -> None:
    """Receive the events of data that are prepared again, which are the same as before."""


def fitted_to_memory(
    task: AnyTask,
    config: AnyRunConfig,
    job: AnyJob,
    model: nn.Module,
    machine: Machine,
    folder: Path,
    emit: Emit,
) -> AnyJob:
    """Return the job of a new run with values for machine.micro_batches and machine.graphs.

    config: the settings of the user. model: the untrained model on its device. Its forward pass is
    measured on the largest of some batches; a batch that cannot be measured or cut stays whole.
    Graphs keep the activations in memory of their own, besides that of batches without a graph.
    Emits a note if a batch is cut.
    """
    need = _need(job, model, machine)
    parts = config.machine.micro_batches or 1
    if config.machine.micro_batches is None and job.is_divisible and batch_key(config):
        whole = need
        while need is not None and need.kept > need.room:
            more = _more_parts(job, parts, need)
            if more is None:
                break
            try:
                job = _cut(task, config, job, more, folder, machine)
            except UsageError:  # the longest example has more tokens than such a part
                break
            parts, need = more, _need(job, model, machine)
        if whole is not None and parts > 1:
            emit({"kind": "note", "text": f"{whole}: batches are computed in {parts} parts"})
    graphs = config.machine.graphs
    if graphs is None:
        graphs = (
            need is not None
            and machine.device == CudaRecorder.device_type
            and obstacle_to_recording(model, job.objective) is None
            and 2 * need.kept <= need.room
        )
    decided = {"machine.micro_batches": parts, "machine.graphs": graphs}
    return replace(job, config=override(job.config, decided, "this machine"))


def _more_parts(job: AnyJob, parts: int, need: Need) -> int | None:
    """Return the number of parts whose activations fit, or the largest one; None without another
    one."""
    size = _batch_size(job)[1]
    larger = [n for n in range(parts + 1, min(size, COPIES) + 1) if size % n == 0]
    times = need.kept / need.room if need.kept < math.inf and need.room > 0 else 2.0
    return next((n for n in larger if n >= parts * times), larger[-1] if larger else None)


def _need(job: AnyJob, model: nn.Module, machine: Machine) -> Need | None:
    """Return the memory of a step of a job, as far as it is known.

    None where blocks keep their inputs only or are compiled, where the objective learns from the
    batches that it is given or computes gradients, and on other devices than CPUs and NVIDIA's
    GPUs.
    """
    settings = job.config
    if (
        machine.device not in ("cpu", "cuda")
        or settings.machine.compile
        or isinstance(job.objective, Observer)
        or any(isinstance(block.forward, Recomputed) for block in stacked_blocks(model))
    ):
        return None
    trained = [p for p in model.parameters() if p.requires_grad]
    fixed = STATES * sum(p.numel() * p.element_size() for p in trained)
    if is_sharded(settings, model, machine):
        fixed //= machine.ranks.size
    room = USED * free_memory(machine.device) - fixed
    batches = (batch for _, _, batch in job.batches.stream(0, 0))
    largest = next(batches)
    bound = float(BOUND * _numbers(largest)) * sum(sum(p.shape) for p in model.parameters())
    if 2 * bound <= room:
        return Need(bound, room)
    sizes = {_numbers(largest)}
    for batch in islice(batches, LOOKED_AT - 1):
        if _numbers(batch) > _numbers(largest):
            largest = batch
        if _numbers(batch) in sizes:
            break
        sizes.add(_numbers(batch))
    kept = kept_bytes(model, job.objective, largest, machine.precision)
    return None if kept is None else Need(kept, room)


def is_sharded(config: AnyRunConfig, model: nn.Module, machine: Machine) -> bool:
    """Return whether each of several processes holds a part of the model (`machine.shard`).

    Where that is not set, it does if the gradients and the state of the optimizer of the whole
    model would not fit into the memory that is free now.
    """
    setting, ranks = config.machine.shard, machine.ranks
    if ranks.is_alone or setting != "auto":
        return not ranks.is_alone and setting == "shard"
    if obstacle_to_shards(model) is not None:
        return False
    trained = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
    states = (STATES + bool(config.training.average)) * trained
    at_once = ranks.local_size if machine.device == "cpu" else 1
    return at_once * states > USED * free_memory(machine.device)


def states_of_process(run: TrainingState) -> str:
    """Describe the bytes that a process holds for a model, besides activations."""
    trained = {p: bytes_here(p) for p in run.model.parameters() if p.requires_grad}
    moments = sum(
        trained[p] * (1 if "momentum" in group else 2)  # Muon has one mean, AdamW two
        for group in run.optimizer.param_groups
        for p in group["params"]
    )
    parts = {
        "parameters": sum(bytes_here(p) for p in run.model.parameters()),
        "gradients": sum(trained.values()),
        "optimizer": moments,
        "average": sum(bytes_here(w) for w in run.average.weights.values()) if run.average else 0,
    }
    return ", ".join(f"{size / 1e6:,.1f} MB {name}" for name, size in parts.items() if size)


def peak_of_processes(device: str, ranks: Ranks) -> str:
    """Describe the largest memory that each process has used: of its GPU, or all of it on a CPU."""
    if device == "cuda":
        own = torch.cuda.max_memory_allocated()
    else:
        unit = 1 if sys.platform == "darwin" else 1024
        own = unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    of_all = ranks.gathered(own, "the memory of the processes")
    return ", ".join(f"{size / 1e9:.2f}" for size in of_all) + " GB"


def _numbers(value: object) -> int:
    """Return the number of numbers in the tensors of a batch."""
    if isinstance(value, Tensor):
        return value.numel()
    if is_dataclass(value):
        return sum(_numbers(getattr(value, field.name)) for field in fields(value))
    return sum(map(_numbers, value)) if isinstance(value, tuple) else 0


def _reference(tensor: Tensor) -> StorageWeakRef:
    """Return a reference to the memory of a tensor, which does not keep it alive."""
    return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]


def kept_bytes(
    model: nn.Module,
    objective: Objective,
    batch: Batch,
    precision: Callable[[], AbstractContextManager[object]],
) -> float | None:
    """Return the bytes that the forward pass of a batch keeps for the backward pass.

    The measured pass keeps none of them, so that it needs little memory; infinite if there is not
    even enough for that. None if the pass fails without them. Random numbers and buffers of the
    model are as before.
    """
    model.train()
    device = next(model.parameters()).device
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    own = {_reference(p) for p in model.parameters()}
    kept: dict[StorageWeakRef, int] = {}

    def note(tensor: Tensor) -> None:
        # a reference that is held tells a storage from a later one at the same place in memory
        kept[_reference(tensor)] = tensor.untyped_storage().nbytes()

    def fail(nothing: object) -> Tensor:
        raise RuntimeError("a forward pass that computes a gradient needs what it keeps")

    try:
        with (
            torch.random.fork_rng([device] if device.type == "cuda" else []),
            saved_tensors_hooks(note, fail),
            precision(),
        ):
            objective(model, batch)
    except (MemoryError, RuntimeError) as error:
        return math.inf if is_out_of_memory(error) else None
    finally:
        for buffer, before in buffers:
            buffer.copy_(before)
    return float(sum(size for storage, size in kept.items() if storage not in own))
