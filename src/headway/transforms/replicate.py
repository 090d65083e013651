"""One model on several processes: each has a copy of it, and computes its part of every batch.

    gradient = sum over processes r of the gradient of part r,   divided once by all targets

So all copies get the same update and stay equal, to the last bit. The gradients are added up after
the backward pass, in buckets: on CPUs, which compute and send with the same cores, sending them
during the pass saves nothing (docs/howto/many_processes.md).
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from torch import nn

from headway.base.errors import HeadwayError
from headway.base.ranks import Ranks
from headway.base.shapes import Float, Tensor

BUCKET = 4_000_000
"""Maximum number of numbers that are sent at once, unless a single gradient has more."""


class Replicas:
    """The copies of a model, one per process.

    seed: that of the run. A model may name its buffers that are sums over the examples since the
    last update in an attribute `summed`; they are added up, too.
    """

    def __init__(self, model: nn.Module, ranks: Ranks, seed: int) -> None:
        self.ranks, self.seed = ranks, seed
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.sums: list[Tensor] = [getattr(model, name) for name in getattr(model, "summed", ())]

    def watched(self, step: int) -> AbstractContextManager[None]:
        """A context for a step, in which this process waits for others; the sums are watched."""
        return nullcontext()

    def begin(self, step: int) -> None:
        """Seed the random numbers of a step: those of a process depend only on the seed of the run,
        the step, its rank and the number of processes, and are part of no checkpoint."""
        key = [self.seed, step, self.ranks.rank, self.ranks.size]
        torch.manual_seed(int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> 1))

    @torch.no_grad()
    def add(self, numbers: Sequence[float], step: int) -> list[float]:
        """Add up the gradients and `numbers` over all processes, and return the numbers.

        A parameter whose gradient is None in all processes keeps it.
        """
        own = [parameter.grad is not None for parameter in self.parameters]
        totals = self.ranks.totals([*numbers, *map(float, own)], f"the losses of step {step}")
        used = totals[len(numbers) :]
        trained = [p for p, count in zip(self.parameters, used, strict=True) if count]
        for parameter in trained:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [p.grad for p in trained if p.grad is not None]
        for bucket in _buckets([*gradients, *self.sums]):
            flat = torch.cat([tensor.flatten() for tensor in bucket])
            self.ranks.add(flat, f"the gradients of step {step}")
            parts = flat.split_with_sizes([tensor.numel() for tensor in bucket])
            for tensor, part in zip(bucket, parts, strict=True):
                tensor.copy_(part.view_as(tensor))
        return totals[: len(numbers)]

    def rows(self, tensor: Tensor) -> Tensor:
        """Return the rows of which this process computes the norm: the r-th part of them."""
        rows = tensor if tensor.ndim else tensor[None]
        return rows[part_of_rows(len(rows), self.ranks.rank, self.ranks.size)]

    @torch.no_grad()
    def clip(self, gradients: Sequence[Tensor], most: float, step: int) -> Float[Tensor, ""]:
        """Rescale gradients that have been added up to a norm of at most `most`.

        Returns their norm before. Copies compute it as parts do, each process from its rows, so
        that both have the same bits: the order of sums is part of a norm.
        """
        own = torch.nn.utils.get_total_norm([self.rows(gradient) for gradient in gradients])
        squares = own.double().square()
        self.ranks.add(squares, f"the norm of the gradient of step {step}")
        norm = squares.sqrt().to(own.dtype)
        held = [self.held(gradient) for gradient in gradients]
        torch._foreach_mul_(held, (most / (norm + 1e-6)).clamp(max=1.0))
        return norm

    def held(self, tensor: Tensor) -> Tensor:
        """Return the rows of a tensor that this process holds: all of them."""
        return tensor

    def check_equal(self, tensors: Iterable[Tensor], when: str) -> None:
        """Raise HeadwayError if the tensors differ between the processes. when: for the message."""
        if self.ranks.is_alone:
            return
        first, *others = self.ranks.gathered(digest(tensors), f"the comparison of models {when}")
        if different := [rank for rank, other in enumerate(others, start=1) if other != first]:
            raise HeadwayError(
                f"the models of processes {', '.join(map(str, different))} and 0 differ {when}, "
                "and must be equal",
                hint="resume from an earlier checkpoint; processes on different processors need "
                "not compute the same last digits",
            )


def part_of_rows(rows: int, rank: int, size: int) -> slice:
    """Return which of some rows process `rank` has, if `size` processes divide them as FSDP2."""
    most = -(-rows // size)  # of all parts but the last ones
    return slice(min(rank * most, rows), min((rank + 1) * most, rows))


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Group consecutive tensors of one dtype and device."""
    bucket: list[Tensor] = []
    for tensor in tensors:
        kind = (tensor.dtype, tensor.device)
        is_other = bool(bucket) and (bucket[0].dtype, bucket[0].device) != kind
        if is_other or (sum(t.numel() for t in bucket) + tensor.numel() > BUCKET and bucket):
            yield bucket
            bucket = []
        bucket.append(tensor)
    if bucket:
        yield bucket


def digest(tensors: Iterable[Tensor]) -> str:
    """Return the hash of the bytes of tensors."""
    sha256 = hashlib.sha256()
    for tensor in tensors:
        data = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
        sha256.update(data.numpy().data)
    return sha256.hexdigest()
