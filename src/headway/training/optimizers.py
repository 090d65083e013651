"""torch's optimizers with parameter groups for Transformers: AdamW, and Muon with AdamW."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from headway.base.errors import UsageError
from headway.base.ranks import ALONE, Ranks
from headway.base.settings import setting
from headway.base.shapes import Float, Tensor
from headway.blocks import Patches
from headway.training.muon import CombinedOptimizer, hidden_matrices, muon
from headway.transforms.freeze import depths
from headway.transforms.tracing import sharded


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


MUON_RATE, ADAMW_RATE, TUNING_RATE = 5e-3, 4e-3, 2e-3


@dataclass(frozen=True, kw_only=True)
class AutomaticOptimizerConfig(OptimizerConfig):
    """Settings of the optimizer, of which `for_start` decides those that are None."""

    kind: Literal["adamw", "muon"] | None = setting(  # type: ignore[assignment]
        None,
        "optimizer; muon updates the matrices inside blocks and uses adamw for the rest; if unset, "
        "muon for Transformers from scratch, adamw for the fine-tuning of a pre-trained model",
    )
    lr: float | None = setting(  # type: ignore[assignment]
        None,
        f"peak learning rate; if unset, {MUON_RATE:g} for muon, {ADAMW_RATE:g} for adamw from "
        f"scratch and {TUNING_RATE:g} for fine-tuning",
        gt=0,
    )


def for_start(
    config: OptimizerConfig, *, is_fine_tuned: bool, has_matrices: bool = True
) -> dict[str, Any]:
    """Return the kind of the optimizer and its rate, by dotted key, as far as they are unset.

    Muon learns several times as much from a token as AdamW where a Transformer begins from scratch
    (docs/results.md). has_matrices: whether the model has matrices inside blocks
    (`hidden_matrices`).
    """
    kind = config.kind or ("muon" if has_matrices and not is_fine_tuned else "adamw")
    from_scratch = MUON_RATE if kind == "muon" else ADAMW_RATE
    rate = TUNING_RATE if is_fine_tuned else from_scratch
    return {"optimizer.kind": kind, "optimizer.lr": config.lr or rate}


def optimizer(
    model: nn.Module, config: OptimizerConfig, ranks: Ranks = ALONE
) -> torch.optim.Optimizer:
    """Build the optimizer of the trainable parameters. The schedule sets its learning rates.

    ranks: the processes that train the model together, which share the work of Muon.

    The "scale" of a parameter group is its maximum learning rate relative to `config.lr`; the loop
    multiplies by it. With `config.layer_decay` d, block l of L has the scale d^(L - l), layers
    below the blocks have d^L and layers above them 1 (Howard and Ruder 2018, section 3.2, with one
    factor for all layers). The projection of patches of I numbers has 1/I of that: AdamW changes
    each weight by about its rate, and the I numbers of a patch change together, so that its vector
    then changes as the vector of a word does. Otherwise the vectors of patches grow until the
    positions that are added to them are lost in the first norm. The largest gradients of a Vision
    Transformer are at this matrix (Chen et al. 2021, section 4.2; Kumar et al. 2022).

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
        members.append(muon(chosen, rate, config.muon_momentum, config.weight_decay, ranks))
        members[-1].param_groups[0]["scale"] = rate / config.lr * scale
    rest = [p for p in parameters if id(p) not in with_muon]
    return CombinedOptimizer([*members, _adamw(rest, config, scales)] if rest else members)


def _scales(model: nn.Module, config: OptimizerConfig) -> dict[int, float]:
    """Return the learning rate of each parameter relative to `config.lr`, by its id."""
    depth, blocks = depths(model)
    if config.layer_decay < 1 and not blocks:
        raise UsageError(
            f"optimizer.layer_decay={config.layer_decay}: this model is no stack of blocks",
            hint="set optimizer.layer_decay=1",
        )
    decay = config.layer_decay
    scales = {id(p): decay ** max(0, blocks - depth[n]) for n, p in model.named_parameters()}
    for module in model.modules():
        if isinstance(module, Patches):
            scales[id(module.project.weight)] /= module.project.in_features
    return scales


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


def divides_and_checks(optimizer: torch.optim.Optimizer, device: torch.device) -> bool:
    """Whether `update_if_finite` is for this optimizer and device: torch's fused AdamW on CUDA,
    which can do both for the loss scaling of float16 (`torch.amp.GradScaler`), of whole tensors."""
    is_fused = isinstance(optimizer, torch.optim.AdamW) and optimizer.defaults["fused"]
    parameters = (p for group in optimizer.param_groups for p in group["params"])
    return bool(is_fused and device.type == "cuda" and not sharded(*parameters))


def update_if_finite(
    optimizer: torch.optim.Optimizer, divisor: Float[Tensor, ""], *values: Float[Tensor, "..."]
) -> None:
    """Divide the gradients and update the parameters in one pass, which is left out if a value is
    not finite. The CPU waits for nothing."""
    is_finite = torch.stack([value.isfinite().all() for value in values]).all()
    fused: Any = optimizer
    fused.found_inf, fused.grad_scale = (~is_finite).float(), divisor
    optimizer.step()
