"""Optimisers, as torch has them, with the groups that Transformers want."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from headway.errors import UsageError
from headway.settings import setting
from headway.training.muon import Together, hidden_matrices, muon


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """AdamW: Adam with decoupled weight decay (Loshchilov and Hutter 2019); or Muon for the
    matrices inside blocks, and AdamW for everything else."""

    kind: Literal["adamw", "muon"] = setting(
        "adamw", "muon: for the matrices inside blocks, with adamw for the rest"
    )
    lr: float = setting(2e-3, "highest learning rate of the schedule", gt=0)
    beta1: float = setting(0.9, "decay of the gradient's running mean", ge=0, lt=1)
    beta2: float = setting(0.98, "decay of the gradient's running square", ge=0, lt=1)
    eps: float = setting(1e-9, "keeps the division finite", gt=0)
    weight_decay: float = setting(0.0, "pull of weight matrices towards 0", ge=0)
    muon_lr: float | None = setting(None, "of kind=muon, its highest rate; none: lr", gt=0)
    muon_momentum: float = setting(0.95, "of kind=muon, decay of its running mean", ge=0, lt=1)


def optimizer(model: nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    """What updates the parameters that train. Its rates are for the schedule to set.

    A group's "scale" is its highest rate as a share of `config.lr`; the loop multiplies by it.
    UsageError if Muon is asked for and there are no matrices for it.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    if config.kind == "adamw":
        return _adamw(parameters, config)
    matrices = hidden_matrices(model)
    if not matrices:
        raise UsageError(
            "optimizer.kind=muon: this model has no matrices inside blocks to train",
            hint="optimizer.kind=adamw",
        )
    taken = {id(matrix) for matrix in matrices}
    rate = config.muon_lr or config.lr
    first = muon(matrices, rate, config.muon_momentum, config.weight_decay)
    first.param_groups[0]["scale"] = rate / config.lr
    return Together([first, _adamw([p for p in parameters if id(p) not in taken], config)])


def _adamw(parameters: Sequence[nn.Parameter], config: OptimizerConfig) -> torch.optim.AdamW:
    """Decay on matrices only: a norm's gain or a bias has no reason to shrink."""
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    betas = (config.beta1, config.beta2)
    # fused: one pass over all parameters, a fraction of the time of the loop on CPU and GPU alike
    fused = all(p.device.type in {"cpu", "cuda"} for p in parameters)
    return torch.optim.AdamW(groups, lr=config.lr, betas=betas, eps=config.eps, fused=fused)
