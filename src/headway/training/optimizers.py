"""Optimisers, as torch has them, with the groups that Transformers want."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from headway.settings import setting


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """AdamW: Adam with decoupled weight decay. Loshchilov and Hutter 2019."""

    lr: float = setting(2e-3, "highest learning rate of the schedule", gt=0)
    beta1: float = setting(0.9, "decay of the gradient's running mean", ge=0, lt=1)
    beta2: float = setting(0.98, "decay of the gradient's running square", ge=0, lt=1)
    eps: float = setting(1e-9, "keeps the division finite", gt=0)
    weight_decay: float = setting(0.0, "pull of weight matrices towards 0", ge=0)


def adamw(model: nn.Module, config: OptimizerConfig) -> torch.optim.AdamW:
    """Decay on matrices only: a norm's gain or a bias has no reason to shrink."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    betas = (config.beta1, config.beta2)
    # fused: one pass over all parameters, a fraction of the time of the loop on CPU and GPU alike
    fused = parameters[0].device.type in {"cpu", "cuda"}
    return torch.optim.AdamW(groups, lr=config.lr, betas=betas, eps=config.eps, fused=fused)
