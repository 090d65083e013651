"""One model on several processes, each of which holds a part of it: FSDP2 of torch.

Process r of N holds the r-th part of the rows of each parameter, of its gradient, of the means of
the optimizer and of the average of the weights. `PLAN` says which parameters are gathered together,
and when. Zhao et al. 2023.

    memory of a process = parameters * (weight + gradient + means + average) / N + gathered groups
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from headway.base.errors import UsageError
from headway.base.ranks import Ranks
from headway.base.shapes import Tensor
from headway.transforms.compile import Compiled
from headway.transforms.float8 import Float8Linear
from headway.transforms.quantize import is_quantized
from headway.transforms.replicate import Replicas, part_of_rows
from headway.transforms.stacks import stacked_blocks
from headway.transforms.tracing import sharded as is_sharded


class Objective(nn.Module):
    """The computation of a loss as one module: FSDP2 gathers parameters at calls of modules."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.loss: Any = None

    def forward(self, objective: Callable[..., Any], batch: object) -> Tensor:
        self.loss = objective(self.model, batch)
        total: Tensor = self.loss.total
        return total


@dataclass(frozen=True)
class Group:
    """Modules, each of whose parameters are gathered together for its forward and backward pass.

    is_freed: whether they are freed after the forward pass, and gathered again for the backward
    pass.
    """

    modules: Callable[[Objective], Sequence[nn.Module]]
    is_freed: bool


PLAN = {
    "a block of a stack": Group(lambda whole: stacked_blocks(whole.model), is_freed=True),
    "everything else": Group(lambda whole: [whole], is_freed=False),
}
"""Embeddings, norms, heads and recurrent cells are few parameters, or are used all the time."""


@dataclass(frozen=True)
class Uncounted:
    """A batch of another process, in place of a part without examples: it counts for nothing.

    All processes must compute, since they gather the parameters together.
    """

    batch: Any


class Shards(Replicas):
    """The parts of a model, one per process. Makes the parameters of `model` parts, in place.

    The optimizer and the averages are made afterwards. UsageError for a model whose parameters
    cannot be divided.
    """

    def __init__(self, model: nn.Module, ranks: Ranks, seed: int) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import FSDPModule, fully_shard

        if obstacle := obstacle_to_shards(model):
            raise UsageError(
                f"machine.shard=shard: the model cannot be sharded, since {obstacle}",
                hint="use --machine.shard replicate, or leave out what prevents it",
            )
        self._whole = _without_weights(model)
        self._objective = Objective(model)
        device = next(model.parameters()).device.type
        mesh = init_device_mesh(device, (ranks.size,))
        for group in PLAN.values():
            for module in group.modules(self._objective):
                fully_shard(module, mesh=mesh, reshard_after_forward=group.is_freed)
        for module in self._objective.modules():
            if isinstance(module, FSDPModule):
                # gradients are sums, which the loop divides once; gloo has no other operation
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)
                module.set_reduce_scatter_unused_params(True)
        super().__init__(model, ranks, seed)
        self.model = model

    def objective(self, objective: Callable[..., Any]) -> Callable[..., Any]:
        """Return an objective that gathers the parameters where the forward pass needs them."""

        def compute(model: Any, batch: Any) -> Any:
            is_counted = not isinstance(batch, Uncounted)
            sums = [] if is_counted else [tensor.clone() for tensor in self.sums]
            total = self._objective(objective, batch if is_counted else batch.batch)
            loss, self._objective.loss = self._objective.loss, None
            if is_counted:
                return replace(loss, total=total)
            for tensor, before in zip(self.sums, sums, strict=True):
                tensor.copy_(before)
            return replace(loss, total=total * 0, nats=loss.nats * 0, count=0)

        return compute

    def watched(self, step: int) -> AbstractContextManager[None]:
        """A context for a step, whose passes gather parameters at any time."""
        return self.ranks.waiting(f"step {step}")

    @torch.no_grad()
    def add(self, numbers: Sequence[float], step: int) -> list[float]:
        """Add up `numbers` and the sums of the model; FSDP2 has added up the gradients."""
        totals = self.ranks.totals(numbers, f"the losses of step {step}")
        for tensor in self.sums:
            self.ranks.add(tensor, f"the sums of step {step}")
        return totals

    def rows(self, tensor: Tensor) -> Tensor:
        """Return the rows that this process holds."""
        return rows_here(tensor)

    held = rows

    @contextmanager
    def whole(self, weights: Mapping[str, Tensor]) -> Iterator[nn.Module]:
        """Return the whole model inside the block, in every process.

        weights: used instead of the parameters of these names, such as averages.
        """
        own = dict(self.model.named_parameters())
        parameters = dict(self._whole.named_parameters())
        try:
            with torch.no_grad(), self.ranks.waiting("the gathering of the model"):
                for name, parameter in parameters.items():
                    size = parameter.numel() * parameter.element_size()
                    parameter.untyped_storage().resize_(size)
                    parameter.copy_(whole_tensor(weights.get(name, own[name])))
            self._whole.train(self.model.training)
            yield self._whole
        finally:
            for parameter in parameters.values():
                parameter.untyped_storage().resize_(0)


def obstacle_to_shards(model: nn.Module) -> str | None:
    """Return why the parameters of a model cannot be divided, or None if they can."""
    if is_quantized(model):
        return "its weights are quantized"
    if any(isinstance(module, Float8Linear) for module in model.modules()):
        return "its linear layers are in float8"
    if any(isinstance(block.forward, Compiled) for block in stacked_blocks(model)):
        return "its blocks are compiled"
    return None


def _without_weights(model: nn.Module) -> nn.Module:
    """Return a copy of the model that shares its buffers, and whose parameters have no memory."""
    memo: dict[int, Any] = {id(buffer): buffer for buffer in model.buffers()}
    for parameter in model.parameters():
        empty = nn.Parameter(torch.empty_like(parameter), parameter.requires_grad)
        empty.untyped_storage().resize_(0)
        memo[id(parameter)] = empty
    return copy.deepcopy(model, memo)


def rows_here(tensor: Tensor) -> Tensor:
    """Return the rows that this process holds of a tensor: all, unless processes have parts."""
    parts: Any = tensor
    local: Tensor = parts.to_local() if is_sharded(tensor) else tensor
    return local


def bytes_here(tensor: Tensor) -> int:
    """Return the number of bytes that this process holds of a tensor."""
    local = rows_here(tensor)
    return local.numel() * local.element_size()


@torch.no_grad()
def whole_tensor(tensor: Tensor) -> Tensor:
    """Return all rows of a tensor of which the processes have parts; another one as it is."""
    if not is_sharded(tensor):
        return tensor
    parts: Any = tensor
    whole: Tensor = parts.full_tensor()
    return whole


def own_rows(like: Tensor) -> slice:
    """Return which rows of a tensor this process has, if it has those of `like`: all or a part."""
    if not is_sharded(like):
        return slice(None)
    from torch.distributed.tensor import DTensor

    assert isinstance(like, DTensor)
    mesh = like.device_mesh
    return part_of_rows(like.shape[0], mesh.get_local_rank(), mesh.size())


@torch.no_grad()
def part_of(rows: Tensor, like: Tensor) -> Tensor:
    """Return the tensor with the shape of `like`, of which this process has the rows `own_rows`."""
    if not is_sharded(like):
        return rows
    from torch.distributed.tensor import DTensor

    assert isinstance(like, DTensor)
    return DTensor.from_local(
        rows.to(like.device).contiguous(),
        like.device_mesh,
        like.placements,
        run_check=False,
        shape=like.shape,
        stride=torch.empty(like.shape, device="meta").stride(),
    )
