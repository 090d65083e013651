"""A run of several processes: what all must agree on, and what only the first one does."""

import platform
from collections.abc import Iterator
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path

import numpy as np
import torch

from headway import __version__
from headway.base.devices import select_device
from headway.base.errors import UsageError
from headway.base.ranks import Ranks
from headway.base.settings import flat, override
from headway.base.shapes import Tensor
from headway.evaluation.scores import Metric, Scores
from headway.runs.data_files import data_files
from headway.runs.recipes import AnyRunConfig
from headway.tasks.job import AnyJob
from headway.transforms.replicate import digest


def for_processes(config: AnyRunConfig, folder: Path, ranks: Ranks) -> AnyRunConfig:
    """Check that all processes have the same settings, software and files; return the settings.

    Nothing was written before. UsageError for settings that several processes cannot have.
    """
    if ranks.is_alone:
        return config
    with ranks.watch.long("the check of files"):
        files = {
            f"file {path}": f"{path.stat().st_size:,} bytes"
            for path in data_files(config)
            if path.is_file()
        }
    ranks.check_same({**flat(config), "the run folder": folder.resolve()}, "settings")
    versions = {"headway": __version__, "torch": torch.__version__, "numpy": np.__version__}
    ranks.check_same({"Python": platform.python_version(), **versions}, "versions of software")
    ranks.check_same(files, "data")
    if config.machine.graphs:
        raise UsageError(
            f"machine.graphs=true: CUDA graphs are for one process, but there are {ranks.size}",
            hint="leave out --graphs",
        )
    device, gpus = select_device(config.machine.device), torch.cuda.device_count()
    if device == "mps":
        raise UsageError(
            f"machine.device={config.machine.device}: "
            f"an Apple GPU has one process, but there are {ranks.size}",
            hint="leave out --processes, or set --device cpu",
        )
    if device == "cuda" and gpus < ranks.local_size:
        raise UsageError(
            f"{ranks.local_size} processes on this machine need a GPU each, but there are {gpus}",
            hint="start fewer processes, or set --device cpu",
        )
    return override(config, {"machine.graphs": False}, "several processes")


def check_same_data(job: AnyJob, ranks: Ranks) -> None:
    """Raise UsageError if the processes have different training data or different batches."""
    if ranks.is_alone:
        return
    values = {
        "the number of examples": job.batches.examples_per_epoch,
        "the number of batches of an epoch": job.batches.batches_per_epoch,
        "the hash of the first batch": digest(tensors_of(next(job.batches.stream(0, 0))[2])),
    }
    ranks.check_same(values, "data")


def tensors_of(value: object) -> Iterator[Tensor]:
    """Yield the tensors of a batch."""
    if isinstance(value, Tensor):
        yield value
    elif is_dataclass(value):
        for field in fields(value):
            yield from tensors_of(getattr(value, field.name))
    elif isinstance(value, tuple | list):
        for part in value:
            yield from tensors_of(part)


def scores_of_first(scores: Scores, ranks: Ranks) -> Scores:
    """Return the metrics of the first process, which decide what is the best model.

    Those of other processes may differ where an evaluation samples outputs.
    """
    if ranks.is_alone:
        return scores
    metrics = ranks.shared([asdict(metric) for metric in scores.metrics], "the scores")
    return Scores(tuple(Metric(**metric) for metric in metrics))
