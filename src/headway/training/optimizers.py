"""torch's optimizers with parameter groups for Transformers: AdamW, and Muon with AdamW."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

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
        "adamw", "optimizer; muon updates the matrices inside blocks and uses adamw for the rest"
    )
    lr: float = setting(2e-3, "maximum learning rate of the schedule", gt=0)
    beta1: float = setting(
        0.9, "AdamW: decay rate of the running mean of the gradient (first moment)", ge=0, lt=1
    )
    beta2: float = setting(
        0.98,
        "AdamW: decay rate of the running mean of the squared gradient (second moment)",
        ge=0,
        lt=1,
    )
    eps: float = setting(
        1e-9, "AdamW: epsilon, added to the denominator for numerical stability", gt=0
    )
    weight_decay: float = setting(
        0.0, "decoupled weight decay of the weight matrices; norms and biases have none", ge=0
    )
    muon_lr: float | None = setting(
        None, "Muon: maximum learning rate of its matrices; if unset, that of lr", gt=0
    )
    muon_momentum: float = setting(
        0.95, "Muon: momentum, the decay rate of the running mean of the gradient", ge=0, lt=1
    )
    layer_decay: float = setting(
        1.0,
        "layer-wise learning-rate decay: learning rate of a block, relative to the block above it; "
        "1: the same rate for all",
        gt=0,
        le=1,
    )


def optimizer(model: nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    """Build the optimizer of the trainable parameters. The schedule sets its learning rates.

    The "scale" of a parameter group is its maximum learning rate relative to `config.lr`; the loop
    multiplies by it. With `config.layer_decay` d, block l of L has the scale d^(L - l), layers
    below the blocks have d^L and layers above them 1 (Howard and Ruder 2018, section 3.2, with one
    factor for all layers).

    Raises UsageError for Muon if the model has no matrices inside blocks, and for layer decay if it
    has no blocks.
    """
    scales = _scales(model, config)
    parameters = [p for p in model.parameters() if p.requires_grad]
    if config.kind == "adamw":
        return _adamw(parameters, config, scales)
    matrices = hidden_matrices(model)
    if not matrices:
        raise UsageError(
            "optimizer.kind=muon: this model has no matrices inside blocks to train",
            hint="use optimizer.kind=adamw",
        )
    with_muon = {id(matrix) for matrix in matrices}
    rate = config.muon_lr or config.lr
    members: list[torch.optim.Optimizer] = []
    for scale in dict.fromkeys(scales[id(matrix)] for matrix in matrices):
        chosen = [matrix for matrix in matrices if scales[id(matrix)] == scale]
        members.append(muon(chosen, rate, config.muon_momentum, config.weight_decay))
        members[-1].param_groups[0]["scale"] = rate / config.lr * scale
    rest = [p for p in parameters if id(p) not in with_muon]
    return Together([*members, _adamw(rest, config, scales)] if rest else members)


def _scales(model: nn.Module, config: OptimizerConfig) -> dict[int, float]:
    """Return the learning rate of each parameter relative to `config.lr`, by its id."""
    depth, blocks = depths(model)
    if config.layer_decay < 1 and not blocks:
        raise UsageError(
            f"optimizer.layer_decay={config.layer_decay}: this model is no stack of blocks",
            hint="set optimizer.layer_decay=1",
        )
    decay = config.layer_decay
    return {id(p): decay ** max(0, blocks - depth[n]) for n, p in model.named_parameters()}


def depths(model: nn.Module) -> tuple[dict[str, int], int]:
    """Return the depth of each parameter by name, and the number of blocks L.

    The depth is l, from 1 to L, for parameters of block l, 0 below the first block (embeddings),
    and L + 1 above the last (a pooler, a head). Blocks that share their weights count as one. L is
    0 for a model without a stack of blocks, or with more than one.
    """
    names = [name for name, _ in model.named_parameters()]
    parts = {name: f".{name}".split(".blocks.", 1) for name in names}
    within = {name: part for name, part in parts.items() if len(part) == 2}
    if len({stack for stack, _ in within.values()}) != 1:
        return dict.fromkeys(names, 0), 0
    numbers = {name: int(inner.split(".", 1)[0]) for name, (_, inner) in within.items()}
    order = {number: level for level, number in enumerate(sorted(set(numbers.values())), start=1)}
    depth, after = {}, 0
    for name in names:
        depth[name] = order[numbers[name]] if name in within else after
        after = len(order) + 1 if name in within else after
    return depth, len(order)


def freeze(model: nn.Module, blocks: int) -> None:
    """Freeze the first `blocks` blocks and the layers below them (embeddings), in place.

    Raises UsageError if the model has fewer blocks.
    """
    depth, num_blocks = depths(model)
    if not 0 <= blocks <= num_blocks or not num_blocks:
        raise UsageError(
            f"{blocks} blocks cannot be frozen: the model has {num_blocks} blocks, counting those "
            "that share weights as one"
        )
    for name, parameter in model.named_parameters():
        if depth[name] <= blocks:
            parameter.requires_grad_(False)


def _adamw(
    parameters: Sequence[nn.Parameter], config: OptimizerConfig, scales: Mapping[int, float]
) -> torch.optim.AdamW:
    """Build AdamW with weight decay on matrices only, not on norms and biases."""
    groups: list[dict[str, Any]] = []
    for scale in dict.fromkeys(scales[id(p)] for p in parameters):
        chosen = [p for p in parameters if scales[id(p)] == scale]
        matrices, vectors = [p for p in chosen if p.ndim >= 2], [p for p in chosen if p.ndim < 2]
        decay = config.weight_decay
        groups.append({"params": matrices, "weight_decay": decay, "scale": scale})
        groups.append({"params": vectors, "weight_decay": 0.0, "scale": scale})
    betas = (config.beta1, config.beta2)
    # fused: one pass over all parameters, much faster than a loop on both CPU and GPU
    fused = all(p.device.type in {"cpu", "cuda"} for p in parameters)
    return torch.optim.AdamW(groups, lr=config.lr, betas=betas, eps=config.eps, fused=fused)
