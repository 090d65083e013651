"""Muon for the weight matrices inside blocks, combined with another optimizer for the rest."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from headway.base.devices import multiplies_bfloat16
from headway.base.ranks import ALONE, Ranks
from headway.base.shapes import Float, Tensor
from headway.transforms.shard import own_rows, part_of, whole_tensor


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


NUMBERS = 2_000_000
"""Number of numbers of the matrices that a process makes orthogonal before it sends them."""


class Muon(torch.optim.Muon):
    """torch's Muon for one process or several, which compute a part of the updates each.

    in_bfloat16: whether the Newton-Schulz steps are, and not in the dtype of the matrices. ranks:
    the processes that train the same matrices. Each of N processes makes an N-th of the matrices
    orthogonal, and sends them to the others: the bits are those of one process.
    """

    in_bfloat16 = True
    ranks = ALONE

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update every matrix that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            rate, decay = group["lr"], group["weight_decay"]
            trained = [matrix for matrix in group["params"] if matrix.grad is not None]
            for matrices in _windows(trained, self.ranks.size):
                # all processes gather the matrices of which they have parts
                wholes = [self._direction(matrix, group["momentum"]) for matrix in matrices]
                for matrix, update in zip(matrices, self._orthogonal(wholes), strict=True):
                    matrix.mul_(1 - rate * decay)
                    own = part_of(update[own_rows(matrix)], matrix)
                    matrix.add_(own, alpha=-rate * (0.2 * math.sqrt(max(matrix.shape))))
        return loss

    def _direction(self, matrix: Tensor, momentum: float) -> Float[Tensor, "A B"]:
        """Update the mean of the gradients, and return the whole matrix to make orthogonal."""
        assert matrix.grad is not None
        state = self.state[matrix]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(matrix)
        mean = state["momentum_buffer"].lerp_(matrix.grad, 1 - momentum)
        whole = whole_tensor(matrix.grad.lerp(mean, momentum))
        return whole.bfloat16() if self.in_bfloat16 else whole

    def _orthogonal(self, matrices: Sequence[Tensor]) -> list[Tensor]:
        """Return `orthogonal` of each matrix; process r of N computes r, r + N, r + 2 N ..."""
        size, rank = self.ranks.size, self.ranks.rank
        computed = [orthogonal(matrix) for matrix in matrices[rank::size]]
        if self.ranks.is_alone:
            return computed
        updates = list(matrices)
        for owner in range(min(size, len(matrices))):
            parts = computed if owner == rank else matrices[owner::size]
            flat = torch.cat([part.flatten() for part in parts])
            self.ranks.send(flat, owner, "the updates of matrices by Muon")
            split = flat.split_with_sizes([part.numel() for part in parts])
            updates[owner::size] = map(torch.Tensor.view_as, split, parts)
        return updates


def _windows(matrices: Sequence[Tensor], size: int) -> Iterator[list[Tensor]]:
    """Group matrices that `size` processes share out; those of one size are neighbours."""
    window: list[Tensor] = []
    for matrix in sorted(matrices, key=lambda m: (min(m.shape), max(m.shape))):
        window.append(matrix)
        is_full = sum(m.numel() for m in window) >= size * NUMBERS
        if is_full and len(window) % size == 0:
            yield window
            window = []
    if window:
        yield window


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
    ranks: Ranks = ALONE,
) -> Muon:
    """Build Muon: W <- (1 - lr w) W - lr 0.2 sqrt(max(A, B)) O for W: A B.

    w is the weight decay, m the momentum, G the gradient; M <- m M + (1 - m) G, and O = U V^T is
    orthogonal, from (1 - m) G + m M = U S V^T. Five Newton-Schulz steps approximate O (singular
    values between about 0.7 and 1.2): the update has about the same size in every direction, not
    only in the few that dominate the gradient. Jordan et al. 2024. They are those of torch's Muon,
    in bfloat16, or in float32 where the device has no instructions for bfloat16.
    The factor 0.2 sqrt(max(A, B)) gives the update the size of AdamW's, so that both use the same
    learning rate and weight decay: Liu et al. 2025, section 2.2. ranks: the processes that share
    the work, if all are on one machine.
    """
    built = Muon(
        parameters,
        lr=lr,
        momentum=momentum,
        weight_decay=weight_decay,
        adjust_lr_fn="match_rms_adamw",
    )
    built.in_bfloat16 = all(multiplies_bfloat16(matrix.device.type) for matrix in parameters)
    # between machines, sending the matrices may take longer than making all of them orthogonal
    built.ranks = ranks if ranks.local_size == ranks.size else ALONE
    return built
