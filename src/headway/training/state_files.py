"""The training state in the files of a checkpoint: a folder of tensors and a JSON file.

What of a run is needed is copied before the function that writes it is returned, so a thread may
call that function while training goes on.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from operator import itemgetter
from pathlib import Path

import torch
from torch import nn

from headway.base.errors import DataError
from headway.base.files import read_json, write_file
from headway.base.folders import new_folder
from headway.base.memory import USED, free_memory
from headway.base.ranks import ALONE, Ranks
from headway.base.shapes import Tensor
from headway.base.tensors import StoredTensor, stored_tensors, write_tensors
from headway.training.state import COUNTERS, TrainingState, averaged
from headway.transforms.shard import own_rows, part_of, rows_here
from headway.transforms.tracing import sharded

SaveModel = Callable[[nn.Module, Path], None]
"""Saves the model that is being trained, with all that its verbs need, in a new folder."""
MODEL = "model"
"""The folder of a usable model, in the folder of a run or in a checkpoint."""

WRITING = 2
"""Copies of the tensors that the writer of a file makes, besides the one that it is given."""


def save_state(run: TrainingState, folder: Path, save_model: SaveModel | None = None) -> None:
    """Write the training state to `folder` durably and atomically, with a manifest of hashes.

    save_model: saves the model, too, in a form that verbs can use. All processes of a sharded run
    call this function: each writes a file with its rows, in the order of the names of the files.
    """
    begun_save(run, folder, save_model)()


def begun_save(
    run: TrainingState,
    folder: Path,
    save_model: SaveModel | None = None,
    *,
    is_copied: bool = False,
    writers: Ranks | None = None,
) -> Callable[[], None]:
    """Begin what `save_state` does, and return the function that completes it.

    is_copied: the run may go on before that function is called, by a thread; it writes a copy of
    the tensors. writers: the processes of a sharded run, for that function; if None, those of the
    run.
    """
    ranks = ALONE if run.shards is None else run.shards.ranks
    with ExitStack() as begun:
        path = begun.enter_context(_folder_of_all(folder, ranks, writers or ranks))
        if save_model is not None:
            with averaged(run) as model:
                if ranks.is_first:
                    save_model(model, path / MODEL)
        part = "" if ranks.is_alone else f"-{ranks.rank + 1:05}-of-{ranks.size:05}"
        tensors = _part_of_process(_tensors(run), ranks, is_copied)
        counters = {name: getattr(run, name) for name in COUNTERS}
        groups = [
            {k: v for k, v in group.items() if k != "params"}
            for group in run.optimizer.param_groups
        ]
        state = {"counters": counters, "groups": groups, "threads": torch.get_num_threads()}
        text = json.dumps(state, indent=1).encode()
        rest = begun.pop_all()

    def write() -> None:
        with rest:
            write_tensors(path / f"state{part}.safetensors", tensors)
            if ranks.is_first:
                write_file(path / "state.json", text)

    return write


def copy_fits(run: TrainingState) -> bool:
    """Return whether the memory is free for a copy of what this process writes, and its writing."""
    ranks = ALONE if run.shards is None else run.shards.ranks
    sizes = (tensor.numel() * tensor.element_size() for tensor in _tensors(run).values())
    of_machine = sum(sizes) * ranks.local_size // ranks.size
    return (1 + WRITING) * of_machine <= USED * free_memory("cpu")


@contextmanager
def _folder_of_all(folder: Path, ranks: Ranks, writers: Ranks) -> Iterator[Path]:
    """A temporary folder that all processes fill; the first one completes it (`new_folder`).

    The block begins in all processes together, and ends so: as the ranks, and as the writers.
    """
    what = f"the checkpoint {folder.name}"
    if ranks.is_first:
        with new_folder(folder) as path:
            ranks.shared(str(path), what)
            yield path
            writers.totals([0.0], what)
    else:
        yield Path(ranks.shared("", what))
        writers.totals([0.0], what)


def _part_of_process(
    tensors: Mapping[str, Tensor], ranks: Ranks, is_copied: bool
) -> dict[str, Tensor]:
    """Return what this process writes: its rows, and if it is the first one all whole tensors.

    The random state is that of the first process.
    """
    return {
        name: rows_here(tensor).to("cpu", copy=is_copied)
        for name, tensor in tensors.items()
        if ranks.is_first or sharded(tensor)
    }


def load_state(run: TrainingState, folder: Path) -> None:
    """Restore the training state that `save_state` wrote to `folder`, in place.

    A process that has a part of the model reads only its rows. Raises DataError if the checkpoint
    belongs to another model or optimizer.
    """
    where = str(folder)
    state = read_json(folder / "state.json")
    with stored_tensors(sorted(folder.glob("state*.safetensors"))) as tensors:
        _check_fit(run, tensors, len(state["groups"]), where)
        _fill({f"model.{n}": p for n, p in run.model.named_parameters()}, tensors, where)
        _fill({f"buffer.{name}": buffer for name, buffer in _buffers(run)}, tensors, where)
        if run.average is not None:
            _fill({f"average.{n}": w for n, w in run.average.weights.items()}, tensors, where)
        _fill_optimizer(run, tensors)
        for group, saved in zip(run.optimizer.param_groups, state["groups"], strict=True):
            group.update({k: tuple(v) if isinstance(v, list) else v for k, v in saved.items()})
        for name in COUNTERS:
            setattr(run, name, state["counters"][name])
        torch.set_rng_state(tensors["rng.cpu"].whole())
        if "rng.cuda" in tensors and torch.cuda.is_available():
            torch.cuda.set_rng_state(tensors["rng.cuda"].whole())


def _check_fit(
    run: TrainingState, tensors: Mapping[str, StoredTensor], groups: int, where: str
) -> None:
    """Raise DataError if the tensors, or the number of groups, are those of another run."""
    expected = _tensors(run)
    moments = tuple(f"optimizer.{name}." for name, _ in run.model.named_parameters())
    missing = [n for n in expected if n not in tensors and not n.startswith("optimizer.")]
    # a run may continue without its average, or without a GPU
    unused = {f"average.{name}" for name, _ in run.model.named_parameters()} | {"rng.cuda"}
    known = expected.keys() | unused
    unknown = [name for name in tensors if name not in known and not name.startswith(moments)]
    if missing or unknown:
        raise DataError(
            f"the checkpoint does not fit the model: {len(missing)} tensors missing"
            f"{' (first: ' + missing[0] + ')' if missing else ''}, {len(unknown)} unknown"
            f"{' (first: ' + unknown[0] + ')' if unknown else ''}",
            where,
            "train with the configuration of the checkpoint, or start a new run",
        )
    if groups != len(run.optimizer.param_groups):
        raise DataError(
            f"the checkpoint was made with another optimizer: it has {groups} "
            f"parameter groups, and this optimizer has {len(run.optimizer.param_groups)}",
            where,
            "train with the configuration of the checkpoint, or start a new run",
        )


def _fill_optimizer(run: TrainingState, tensors: Mapping[str, StoredTensor]) -> None:
    """Give the optimizer the means of each parameter, and other state of it."""
    groups = run.optimizer.param_groups
    # a fused optimizer counts the steps on its device, others on the CPU
    fused = {id(p) for group in groups if group.get("fused") for p in group["params"]}
    states: dict[str, dict[str, StoredTensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            parameter_name, key = name.removeprefix("optimizer.").rsplit(".", 1)
            states.setdefault(parameter_name, {})[key] = tensor
    for name, parameter in run.model.named_parameters():
        on_cpu = () if id(parameter) in fused else ("step",)
        moved = {
            key: saved.whole() if key in on_cpu else _like(parameter, saved)
            for key, saved in states.get(name, {}).items()
        }
        if moved:
            run.optimizer.state[parameter] = moved


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


def tensors_of_all(run: TrainingState) -> Iterator[Tensor]:
    """Return the tensors that all processes have alike: all but random states and parts."""
    tensors = sorted(_tensors(run).items(), key=itemgetter(0))
    return (t for name, t in tensors if not name.startswith("rng.") and not sharded(t))


def _buffers(run: TrainingState) -> Iterator[tuple[str, Tensor]]:
    """Return the persistent buffers of a model, such as running means, by name."""
    persistent = run.model.state_dict(keep_vars=True)
    return ((name, b) for name, b in run.model.named_buffers() if name in persistent)


@torch.no_grad()
def _fill(tensors: dict[str, Tensor], saved: Mapping[str, StoredTensor], where: str) -> None:
    """Copy the saved values into the tensors of the same names."""
    for name, tensor in tensors.items():
        if saved[name].shape != tensor.shape:
            raise DataError(
                f"{name} has shape {tuple(saved[name].shape)} in the checkpoint, but "
                f"{tuple(tensor.shape)} in the model",
                where,
                "train with the configuration of the checkpoint, or start a new run",
            )
        tensor.copy_(_own_of(saved[name], tensor))


def _like(parameter: Tensor, saved: StoredTensor) -> Tensor:
    """Return a tensor on the device of a parameter, and in parts if the parameter is."""
    if saved.shape == parameter.shape:
        return _own_of(saved, parameter).to(parameter.device)
    return saved.whole().to(parameter.device)


def _own_of(saved: StoredTensor, like: Tensor) -> Tensor:
    """Return a saved tensor, of which this process has the rows that it has of `like`."""
    return part_of(saved.rows(own_rows(like)), like)
