"""An evaluation that several processes share: each of them computes a part of the batches.

Process r of N computes batches r, r + N, r + 2 N ... of an evaluation. All processes get the
results of all batches, in the order of the batches. So sums over batches have the same terms in the
same order as with one process, and are equal to the last digit.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from headway.base.ranks import ALONE, Ranks

Item = TypeVar("Item")
Result = TypeVar("Result")
Value = TypeVar("Value")


class Interrupted(Exception):
    """Raised by an evaluation that was interrupted and has no scores.

    stop: the reason why the run ends (`TrainingState.stop`).
    """

    def __init__(self, stop: str = "interrupted") -> None:
        super().__init__(stop)
        self.stop = stop


@dataclass(frozen=True)
class Share:
    """This process's share of an evaluation; without other processes, all of it.

    progress: receives the number of examples before each batch; it may raise `Interrupted`, which
    is then raised in all processes.
    """

    progress: Callable[[int], None] = lambda done: None
    ranks: Ranks = ALONE

    def each(
        self,
        batches: Iterable[Item],
        compute: Callable[[Item], Result],
        size: Callable[[Item], int] = lambda batch: 1,
    ) -> list[Result]:
        """Return compute(batch) of every batch, in their order.

        All processes call this with the same batches. Results are numbers, texts, lists of these,
        or tensors in float32, which arrive on the CPU. size: the number of examples of a batch, for
        the progress.
        """
        own: list[Result] = []
        count = done = 0
        stop = ""
        try:
            for count, batch in enumerate(batches, start=1):
                if (count - 1) % self.ranks.size == self.ranks.rank:
                    self.progress(done)
                    own.append(compute(batch))
                done += size(batch)
        except Interrupted as interrupted:
            stop = interrupted.stop
        stops, parts = [stop], [own]
        if not self.ranks.is_alone:
            sent: dict[str, Any] = {"stop": stop, "results": [_sendable(result) for result in own]}
            of_all = self.ranks.gathered(sent, "the results of an evaluation")
            stops = [part["stop"] for part in of_all]
            parts = [[_received(result) for result in part["results"]] for part in of_all]
        if any(stops):
            raise Interrupted(max(stops))
        return [parts[i % len(parts)][i // len(parts)] for i in range(count)]

    def split(
        self, items: Sequence[Item], compute: Callable[[list[Item]], list[Value]]
    ) -> list[Value]:
        """Return compute(items), of which each process computes items r, r + N, r + 2 N ...

        For functions that group the items themselves, and whose result for an item does not depend
        on the other items.
        """
        size = self.ranks.size
        parts = self.each([list(items[i::size]) for i in range(size)], compute, lambda part: 0)
        return [parts[i % size][i // size] for i in range(len(items))]

    def after(self, done: int) -> Share:
        """Return the share of a later part of the work, which begins after `done` examples."""
        return replace(self, progress=lambda more: self.progress(done + more))

    def in_examples(self, examples: int, work: int) -> Share:
        """Return a share whose progress is in units of work, of which there are `work` in all.

        For an evaluation that does more than read each example once.
        """
        return replace(self, progress=lambda done: self.progress(done * examples // max(work, 1)))


WHOLE = Share()
"""The share of a process without others, which reports no progress."""


def _sendable(result: Any) -> Any:
    """Return the result as a JSON value. Numbers keep all digits."""
    import torch

    if isinstance(result, torch.Tensor):
        data = result.detach().cpu().float().contiguous()
        text = base64.b64encode(data.numpy().tobytes()).decode()
        return {"shape": list(data.shape), "float32": text}
    if isinstance(result, list | tuple):
        return [_sendable(part) for part in result]
    return result


def _received(value: Any) -> Any:
    import torch

    if isinstance(value, dict):
        data = bytearray(base64.b64decode(value["float32"]))
        if not data:
            return torch.zeros(value["shape"])
        return torch.frombuffer(data, dtype=torch.float32).view(value["shape"])
    if isinstance(value, list):
        return [_received(part) for part in value]
    return value
