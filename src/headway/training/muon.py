"""Muon for the weight matrices inside blocks, combined with another optimizer for the rest."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from headway.base.devices import multiplies_bfloat16
from headway.base.shapes import Float, Tensor
from headway.transforms.shard import own_rows, part_of, whole_tensor
from headway.transforms.tracing import sharded


class CombinedOptimizer(torch.optim.Optimizer):
    """Several optimizers of disjoint parameters that act as one optimizer.

    The parameter groups and the state are shared with the members: setting a learning rate or
    loading a state here changes them there.
    """

    def __init__(self, members: Sequence[torch.optim.Optimizer]) -> None:
        super().__init__([group for member in members for group in member.param_groups], {})
        self.members = list(members)
        self._share()

    def _share(self) -> None:
        start = 0
        for member in self.members:
            end = start + len(member.param_groups)
            member.param_groups = self.param_groups[start:end]
            member.state = self.state
            start = end

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update with every member. A closure, if any, is called once, before the updates."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for member in self.members:
            member.step()
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._share()


def hidden_matrices(model: nn.Module) -> list[Tensor]:
    """Return the trainable weights of the linear layers inside blocks, in the model's order.

    Muon is for these alone: each row of an embedding or an output projection belongs to one token
    and has different statistics, and the parameters of norms and biases are no matrices. Jordan et
    al. 2024.
    """
    return [
        module.weight
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
        and "blocks" in name.split(".")
        and module.weight.requires_grad
    ]


NEWTON_SCHULZ = 3.4445, -4.7750, 2.0315
"""a, b and c of a Newton-Schulz step. Jordan et al. 2024."""


class Float32Muon(torch.optim.Muon):
    """torch's Muon with O in float32, for processors without instructions for bfloat16."""

    in_bfloat16 = False

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update every matrix that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            rate, momentum = group["lr"], group["momentum"]
            for matrix in group["params"]:
                if matrix.grad is None:
                    continue
                state = self.state[matrix]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(matrix)
                mean = state["momentum_buffer"].lerp_(matrix.grad, 1 - momentum)
                # a process that has some rows needs the whole matrix for them
                whole = whole_tensor(matrix.grad.lerp(mean, momentum))
                update = orthogonal(whole.bfloat16() if self.in_bfloat16 else whole)
                matrix.mul_(1 - rate * group["weight_decay"])
                own = part_of(update[own_rows(matrix)], matrix)
                matrix.add_(own, alpha=-rate * 0.2 * max(matrix.shape) ** 0.5)
        return loss


class ShardedMuon(Float32Muon):
    """torch's Muon, with O in bfloat16, for matrices of which each process has a part."""

    in_bfloat16 = True


def orthogonal(matrix: Float[Tensor, "A B"]) -> Float[Tensor, "A B"]:
    """Return about U V^T of the matrix U S V^T, by five Newton-Schulz steps.

    X <- a X + (b X X^T + c (X X^T)^2) X,   from X = matrix / |matrix|
    """
    a, b, c = NEWTON_SCHULZ
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if is_tall else matrix
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if is_tall else x


def muon(
    parameters: Sequence[Tensor],
    lr: float,
    momentum: float,
    weight_decay: float,
) -> torch.optim.Muon:
    """Build Muon: W <- (1 - lr w) W - lr 0.2 sqrt(max(A, B)) O for W: A B.

    w is the weight decay, m the momentum, G the gradient; M <- m M + (1 - m) G, and O = U V^T is
    orthogonal, from (1 - m) G + m M = U S V^T. Five Newton-Schulz steps approximate O (singular
    values between about 0.7 and 1.2): the update has about the same size in every direction, not
    only in the few that dominate the gradient. Jordan et al. 2024. They are those of torch's Muon,
    in bfloat16, or in float32 (`Float32Muon`) where the device has no instructions for bfloat16.
    The factor 0.2 sqrt(max(A, B)) gives the update the size of AdamW's, so that both use the same
    learning rate and weight decay: Liu et al. 2025, section 2.2.
    """
    in_bfloat16 = all(multiplies_bfloat16(parameter.device.type) for parameter in parameters)
    in_parts = ShardedMuon if sharded(*parameters) else torch.optim.Muon
    kind = in_parts if in_bfloat16 else Float32Muon
    return kind(
        parameters,
        lr=lr,
        momentum=momentum,
        weight_decay=weight_decay,
        adjust_lr_fn="match_rms_adamw",
    )
