"""What training a language model takes: memory on each GPU, FLOPs, time. `headway plan` prints it.

Arithmetic on what `headway.models.cost` counts; docs/plan.md has the formulas and their sources.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headway.errors import UsageError
from headway.models import GPTConfig
from headway.models.cost import Parameters, Recompute, activation_bytes, parameters

CHINCHILLA = 20  # tokens a parameter; Hoffmann et al. 2022, table 3
DAY = 86_400

PAPERS: dict[str, float] = {
    **{"gpt1": 117e6, "gpt2-small": 117e6, "gpt2-medium": 345e6, "gpt2-large": 762e6},
    **{"gpt2-xl": 1542e6, "gpt3-125m": 125e6, "gpt3-350m": 350e6, "gpt3-760m": 760e6},
    **{"gpt3-1.3b": 1.3e9, "gpt3-2.7b": 2.7e9, "gpt3-6.7b": 6.7e9, "gpt3-13b": 13e9},
    **{"gpt3-175b": 175e9, "modern-0.6b": 0.6e9},
}
"""Size -> the number of parameters in the paper's table, where a size is a paper's."""


@dataclass(frozen=True, kw_only=True)
class GPU:
    """A kind of GPU: FLOP/s of dense products in 16 bits and in float32, memory in GB (10^9)."""

    half: float
    single: float
    memory: float


GPUS: dict[str, GPU] = {
    "a100": GPU(half=312e12, single=19.5e12, memory=80.0),
    "h100": GPU(half=989e12, single=67e12, memory=80.0),
    "h200": GPU(half=989e12, single=67e12, memory=141.0),
}
"""NVIDIA's data sheets, SXM, without sparsity."""


@dataclass(frozen=True, kw_only=True)
class Precision:
    """Bytes a parameter.

    element: as it is multiplied, and so every activation. optimizer: AdamW's two moments in
    float32, and the float32 parameters where others are multiplied.
    """

    element: int
    gradient: int
    optimizer: int


PRECISIONS: dict[str, Precision] = {
    "bf16": Precision(element=2, gradient=2, optimizer=12),
    "bf16-fp32-grad": Precision(element=2, gradient=4, optimizer=12),
    "fp32": Precision(element=4, gradient=4, optimizer=8),
}
"""16 bytes a parameter, 18 where gradients are summed in float32. Rajbhandari et al. 2020, 3.1."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """How a model lies on tensor * data GPUs.

    tensor: GPUs that share every matrix. data: groups of these, each with texts of its own.
    sharded: the groups share parameters, gradients and optimizer too (FSDP, ZeRO stage 3), else
    each has all (DDP).
    """

    tensor: int = 1
    data: int = 1
    sharded: bool = False

    def __str__(self) -> str:
        if self.tensor * self.data == 1:
            return "one device"
        copies = f"{'FSDP' if self.sharded else 'DDP'} {self.data:,}" if self.data > 1 else ""
        within = f"tensor {self.tensor}" if self.tensor > 1 else ""
        return " x ".join(part for part in (within, copies) if part)


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes on one GPU. gathered: what FSDP puts together for the moment of its use."""

    parameters: int
    gradients: int
    optimizer: int
    gathered: int
    activations: int

    @property
    def total(self) -> int:
        return sum(vars(self).values())


def state_memory(count: Parameters, split: Split, precision: Precision) -> tuple[int, int, int]:
    """Parameters, gradients and optimizer on one GPU, in bytes.

    P = split / tensor + the rest, which every GPU of a group has whole; sharded: P / data. Times
    the bytes of each kind. ZeRO: Rajbhandari et al. 2020, figure 1; tensor: Shoeybi et al. 2019.
    """
    own = math.ceil(count.split / split.tensor) + count.total - count.split
    own = math.ceil(own / split.data) if split.sharded else own
    return own * precision.element, own * precision.gradient, own * precision.optimizer


def gathered_memory(count: Parameters, split: Split, precision: Precision) -> int:
    """Sharded: the ends, the block at work and the next one, whole, and the gradient of one block.

    (ends + 2 block) element + block gradient, over `tensor`, in bytes; 0 if not sharded.
    """
    if not split.sharded:
        return 0
    whole = (count.ends + 2 * count.block) * precision.element + count.block * precision.gradient
    return math.ceil(whole / split.tensor)


def memory(
    config: GPTConfig,
    split: Split,
    precision: Precision,
    *,
    tokens: int,
    length: int,
    flash: bool = True,
    recompute: Recompute = "none",
) -> Memory:
    """What one GPU holds at the peak, with `tokens` read at once by each group, in bytes.

    Left out: what the allocator cannot use, communication buffers, the CUDA context.
    """
    count = parameters(config)
    own, gradients, optimizer = state_memory(count, split, precision)
    kept = activation_bytes(
        *(config, tokens, length),
        element=precision.element,
        tensor=split.tensor,
        flash=flash,
        recompute=recompute,
    )
    return Memory(
        parameters=own,
        gradients=gradients,
        optimizer=optimizer,
        gathered=gathered_memory(count, split, precision),
        activations=kept,
    )


def seconds(flops: float, gpus: int, rate: float, mfu: float) -> float:
    """flops / (gpus rate mfu).

    mfu: model FLOPs utilization, the share of a GPU's FLOP/s that goes into the model's own
    products; what is computed twice is not of them. Chowdhery et al. 2022, section 4.1.
    """
    if flops < 0 or gpus < 1 or rate <= 0 or not 0 < mfu <= 1:
        raise ValueError(f"no time follows from {flops=}, {gpus=}, {rate=}, {mfu=}")
    return flops / (gpus * rate * mfu)


def tensor_sizes(config: GPTConfig, gpus: int) -> list[int]:
    """By how many GPUs every matrix can be shared: divisors of `gpus`, of the heads, of the heads
    of keys and values, and of the feed-forward width."""
    common = math.gcd(gpus, config.num_heads, config.kv_heads, config.ffn_dim)
    return [size for size in range(1, common + 1) if common % size == 0]


def splits(config: GPTConfig, gpus: int, tensor: Sequence[int] | None = None) -> list[Split]:
    """The ways to compare: DDP and FSDP, and both over groups of each size in `tensor`.

    Without `tensor`, groups of 8 (the GPUs of one machine) where that divides. UsageError for a
    group that does not, with those that do.
    """
    possible = tensor_sizes(config, gpus)
    for size in tensor or ():
        if size not in possible:
            raise UsageError(
                f"--tensor {size}: must divide {gpus:,} GPUs, {config.num_heads} heads, "
                f"{config.kv_heads} heads of keys and values, and ffn_dim {config.ffn_dim:,}",
                hint=f"--tensor {' or '.join(map(str, possible))}",
            )
    sizes = [1, *(tensor if tensor is not None else [s for s in possible if s == 8])]
    found = []
    for size in dict.fromkeys(sizes):
        copies = gpus // size
        found.append(Split(tensor=size, data=copies))
        if copies > 1:
            found.append(Split(tensor=size, data=copies, sharded=True))
    return found
