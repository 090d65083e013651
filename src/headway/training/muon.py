"""Muon for the matrices inside blocks, another optimiser for the rest: two that act as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from headway.shapes import Tensor


class Together(torch.optim.Optimizer):
    """Several optimisers of disjoint parameters as one: one list of groups, one state.

    The groups and the state are the members' own objects, so that whoever sets a learning rate or
    loads a state here does so there.
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
        """One update by each member. A closure, if there is one, is called once, before them."""
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
    """Weights of the linear layers inside blocks, those that train, in the model's order.

    Muon is for these alone: an embedding's or an output projection's rows are words, each with
    statistics of its own, and a norm or a bias is no matrix. Jordan et al. 2024.
    """
    return [
        module.weight
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
        and "blocks" in name.split(".")
        and module.weight.requires_grad
    ]


def muon(
    parameters: Sequence[Tensor],
    lr: float,
    momentum: float,
    weight_decay: float,
) -> torch.optim.Muon:
    """W <- (1 - lr w) W - lr 0.2 sqrt(max(A, B)) O for W: A B, O = U V^T orthogonal.

    M <- m M + (1 - m) G; (1 - m) G + m M = U S V^T. Five Newton-Schulz steps in bfloat16 find O
    without S, roughly (singular values between about 0.7 and 1.2): every direction moves about as
    far, not only the few that dominate the gradient. Jordan et al. 2024. The factor gives the
    update the size of AdamW's, so that one learning rate and weight decay serve both: Liu et al.
    2025, section 2.2.
    """
    return torch.optim.Muon(
        parameters,
        lr=lr,
        momentum=momentum,
        weight_decay=weight_decay,
        adjust_lr_fn="match_rms_adamw",
    )
