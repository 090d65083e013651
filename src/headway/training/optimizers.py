"""Optimisers, as torch has them, with the groups that Transformers want."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from headway.errors import UsageError
from headway.settings import setting
from headway.training.muon import Together, hidden_matrices, muon
from headway.transforms.freeze import depths


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
    layer_decay: float = setting(
        1.0, "each block learns at this share of the rate of the block above it", gt=0, le=1
    )


def optimizer(model: nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    """What updates the parameters that train. Its rates are for the schedule to set.

    A group's "scale" is its highest rate as a share of `config.lr`; the loop multiplies by it.
    With `config.layer_decay` d, block l of L has d^(L - l), what stands before the blocks d^L, what
    stands after them 1 (Howard and Ruder 2018, section 3.2; one factor for all layers).
    UsageError if Muon is asked for and there are no matrices for it, or decay and no blocks.
    """
    scales = _scales(model, config)
    parameters = [p for p in model.parameters() if p.requires_grad]
    if config.kind == "adamw":
        return _adamw(parameters, config, scales)
    matrices = hidden_matrices(model)
    if not matrices:
        raise UsageError(
            "optimizer.kind=muon: this model has no matrices inside blocks to train",
            hint="optimizer.kind=adamw",
        )
    taken = {id(matrix) for matrix in matrices}
    rate = config.muon_lr or config.lr
    members: list[torch.optim.Optimizer] = []
    for scale in dict.fromkeys(scales[id(matrix)] for matrix in matrices):
        chosen = [matrix for matrix in matrices if scales[id(matrix)] == scale]
        members.append(muon(chosen, rate, config.muon_momentum, config.weight_decay))
        members[-1].param_groups[0]["scale"] = rate / config.lr * scale
    rest = [p for p in parameters if id(p) not in taken]
    return Together([*members, _adamw(rest, config, scales)] if rest else members)


def _scales(model: nn.Module, config: OptimizerConfig) -> dict[int, float]:
    """The share of the rate that each parameter has, by its id."""
    depth, blocks = depths(model)
    if config.layer_decay < 1 and not blocks:
        raise UsageError(
            f"optimizer.layer_decay={config.layer_decay}: this model is no stack of blocks",
            hint="optimizer.layer_decay=1",
        )
    decay = config.layer_decay
    return {id(p): decay ** max(0, blocks - depth[n]) for n, p in model.named_parameters()}


def _adamw(
    parameters: Sequence[nn.Parameter], config: OptimizerConfig, scales: Mapping[int, float]
) -> torch.optim.AdamW:
    """Decay on matrices only: a norm's gain or a bias has no reason to shrink."""
    groups: list[dict[str, Any]] = []
    for scale in dict.fromkeys(scales[id(p)] for p in parameters):
        chosen = [p for p in parameters if scales[id(p)] == scale]
        matrices, others = [p for p in chosen if p.ndim >= 2], [p for p in chosen if p.ndim < 2]
        pull = config.weight_decay
        groups.append({"params": matrices, "weight_decay": pull, "scale": scale})
        groups.append({"params": others, "weight_decay": 0.0, "scale": scale})
    betas = (config.beta1, config.beta2)
    # fused: one pass over all parameters, a fraction of the time of the loop on CPU and GPU alike
    fused = all(p.device.type in {"cpu", "cuda"} for p in parameters)
    return torch.optim.AdamW(groups, lr=config.lr, betas=betas, eps=config.eps, fused=fused)
