"""The processes that train one model together: their number, which one this is, and their sums.

torchrun and `headway train --processes N` start N processes, called ranks 0 to N - 1, with the
variables RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. `started` connects them. Without these
variables a process is `ALONE`, and every function here returns its argument at once.

All ranks call the same functions in the same order. Values travel as JSON or tensors, never as
pickles. A rank that does not arrive is named by the watch (`base.watch`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from headway.base.errors import HeadwayError, UsageError
from headway.base.watch import NO_WATCH, THE_END, Watch

if TYPE_CHECKING:
    import torch
    from torch import distributed

T = TypeVar("T")

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Environment variables of a process of torchrun."""

LAUNCHED = "HEADWAY_LAUNCHED"
"""Environment variable of the processes of `headway train --processes`, which names a lost one: the
user's name of the command."""

ANOTHER_FAILED = 75
"""Exit code of a process that ends because another one did."""

PATIENCE = timedelta(days=7)
"""Timeout of torch's operations: the watch ends a run much earlier, and only if a rank is stuck."""


class RankLost(HeadwayError):
    """Another process ended while this one waited for it."""

    exit_code = ANOTHER_FAILED


@dataclass(frozen=True)
class Ranks:
    """The processes of a run, as one of them knows them. rank: its number, from 0 to size - 1.

    local_rank, local_size: its number and theirs on this machine. group: of torch; None is that of
    all processes.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    watch: Watch = field(default=NO_WATCH, compare=False, repr=False)
    group: distributed.ProcessGroup | None = field(default=None, compare=False, repr=False)

    @property
    def is_first(self) -> bool:
        """Whether this process is rank 0, which alone prints and writes files."""
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        """Whether there is no other process."""
        return self.size == 1

    def add(self, tensor: torch.Tensor, what: str) -> None:
        """Replace a tensor by the sum of those of all ranks. what: its name, for messages."""
        if self.is_alone:
            return
        from torch import distributed

        with self.waiting(what):
            distributed.all_reduce(tensor, group=self.group)

    def send(self, tensor: torch.Tensor, source: int, what: str) -> None:
        """Replace a tensor by that of rank `source`. what: its name, for messages."""
        if self.is_alone:
            return
        from torch import distributed

        with self.waiting(what):
            distributed.broadcast(tensor, source, self.group)

    def totals(self, numbers: Sequence[float], what: str) -> list[float]:
        """Return the sum of each number over all ranks; integers below 2^53 are exact."""
        if self.is_alone:
            return list(numbers)
        import torch

        tensor = torch.tensor(numbers, dtype=torch.float64)
        self.add(tensor, what)
        return [float(number) for number in tensor.tolist()]

    def of_first(self, numbers: Sequence[float], what: str) -> list[float]:
        """Return the numbers of rank 0, such as its clock."""
        if self.is_alone:
            return list(numbers)
        return self.totals([n if self.is_first else 0.0 for n in numbers], what)

    def shared(self, value: T, what: str) -> T:
        """Return the JSON value of rank 0; those of other ranks are ignored."""
        if self.is_alone:
            return value
        import torch
        from torch import distributed

        data = _tensor_of(value)
        size = torch.tensor([len(data)])
        with self.waiting(what):
            distributed.broadcast(size, 0, self.group)
            if not self.is_first:
                data = torch.empty(int(size), dtype=torch.uint8)
            distributed.broadcast(data, 0, self.group)
        received: T = _value_of(data)
        return received

    def gathered(self, value: T, what: str) -> list[T]:
        """Return the JSON values of all ranks, in their order."""
        if self.is_alone:
            return [value]
        import torch
        from torch import distributed

        data = _tensor_of(value)
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        with self.waiting(what):
            distributed.all_gather(sizes, torch.tensor([len(data)]), self.group)
            longest = max(int(size) for size in sizes)
            parts = [torch.zeros(longest, dtype=torch.uint8) for _ in range(self.size)]
            filled = torch.zeros(longest, dtype=torch.uint8)
            filled[: len(data)] = data
            distributed.all_gather(parts, filled, self.group)
        return [_value_of(part[: int(size)]) for part, size in zip(parts, sizes, strict=True)]

    def for_thread(self) -> Ranks:
        """Return the same processes for a second thread, whose operations the watch ignores.

        All ranks call this function.
        """
        if self.is_alone:
            return self
        from torch import distributed

        return replace(self, group=distributed.new_group(backend="gloo"), watch=NO_WATCH)

    def check_same(self, values: Mapping[str, object], what: str) -> None:
        """Raise UsageError, on all ranks, if a value differs from that of rank 0."""
        if self.is_alone:
            return
        first, *others = self.gathered({key: str(value) for key, value in values.items()}, what)
        for rank, other in enumerate(others, start=1):
            different = [k for k in {**first, **other} if first.get(k) != other.get(k)]
            if different:
                shown = "; ".join(
                    f"{key} is {first.get(key, 'unset')} in process 0 and "
                    f"{other.get(key, 'unset')} in process {rank}"
                    for key in different[:3]
                )
                raise UsageError(
                    f"the processes of a run disagree about the {what}: {shown}",
                    f"process {rank} of {self.size}",
                    "start all processes with the same command, packages and files",
                )

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Wait for the other ranks inside the block, watched. Raises RankLost if one ends."""
        was_waiting = self.watch.wait(what)
        try:
            yield
        except RuntimeError as error:
            if not _is_connection(error):
                raise
            raise RankLost(
                f"process {self.rank} of {self.size} lost the connection to another one while it "
                f"waited for: {what}",
                hint="the first message of the run, or of the other machine, has the cause; the "
                "same command resumes the run from its last checkpoint",
            ) from error
        finally:
            self.watch.arrive(was_waiting)


ALONE = Ranks()


def _is_connection(error: RuntimeError) -> bool:
    """Whether torch raised an error since a process at the other end has ended."""
    text = str(error).lower()
    return any(word in text for word in ("connection", "broken pipe", "gloo", "nccl", "socket"))


def _tensor_of(value: object) -> torch.Tensor:
    import torch

    return torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)


def _value_of(data: torch.Tensor) -> Any:
    return json.loads(bytes(data.numpy().tobytes()))


def size_of_world() -> int | None:
    """Return the number of processes that torchrun started; None without torchrun."""
    if not all(os.environ.get(name) for name in VARIABLES):
        return None
    return int(os.environ["WORLD_SIZE"])


@contextmanager
def started(report: Callable[[HeadwayError], None]) -> Iterator[Ranks]:
    """Connect the processes of torchrun inside the block; without torchrun, do nothing.

    Of errors that several processes raise, only the first is raised further; the other processes
    exit without a message. report: prints an error of the watch, which then ends this process.
    """
    size = size_of_world()
    if size is None or size == 1:
        yield ALONE
        return
    ranks = _connected(size, report)
    try:
        try:
            yield ranks
        except SystemExit:  # of all ranks, such as that of a run that a signal has stopped
            ranks.totals([0.0], THE_END)
            raise
        ranks.totals([0.0], THE_END)
    except RankLost as error:
        if LAUNCHED in os.environ or not ranks.watch.is_first_to_fail():
            raise SystemExit(error.exit_code) from error
        raise
    except Exception as error:
        if not ranks.watch.is_first_to_fail():
            raise SystemExit(ANOTHER_FAILED) from error
        raise
    finally:
        ranks.watch.end()


def _connected(size: int, report: Callable[[HeadwayError], None]) -> Ranks:
    """Set up torch's process group, the threads and the GPU of this process, and its watch."""
    import torch
    from torch import distributed
    from torch.distributed.rendezvous import rendezvous

    rank = int(os.environ["RANK"])
    local_rank = int(os.environ.get("LOCAL_RANK", rank))
    local_size = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    if not os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(max(1, torch.get_num_threads() // local_size))
    backend = "gloo"
    if torch.cuda.is_available() and torch.cuda.device_count() >= local_size:
        torch.cuda.set_device(local_rank)
        backend = "cpu:gloo,cuda:nccl"
    store, rank, size = next(rendezvous("env://"))
    watch = Watch(store, rank, size, report)
    watch.await_start()
    distributed.init_process_group(
        backend, store=store, rank=rank, world_size=size, timeout=PATIENCE
    )
    return Ranks(rank, size, local_rank, local_size, watch)
