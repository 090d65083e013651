"""Training budget of a language model: memory per GPU, FLOPs and time, printed by `headway plan`.

It is computed from the numbers of `headway.models.cost`; docs/plan.md has formulas and sources.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headway.base.errors import UsageError
from headway.models import GPTConfig
from headway.models.cost import Parameters, Recompute, activation_bytes, parameters

CHINCHILLA = 20  # training tokens per parameter; Hoffmann et al. 2022, table 3
DAY = 86_400

PAPERS: dict[str, float] = {
    **{"gpt1": 117e6, "gpt2-small": 117e6, "gpt2-medium": 345e6, "gpt2-large": 762e6},
    **{"gpt2-xl": 1542e6, "gpt3-125m": 125e6, "gpt3-350m": 350e6, "gpt3-760m": 760e6},
    **{"gpt3-1.3b": 1.3e9, "gpt3-2.7b": 2.7e9, "gpt3-6.7b": 6.7e9, "gpt3-13b": 13e9},
    **{"gpt3-175b": 175e9, "modern-0.6b": 0.6e9},
}
"""Size -> its number of parameters in the table of the paper that introduced it."""


MACHINE = 8
"""GPUs of a machine, with a network adapter each."""


@dataclass(frozen=True, kw_only=True)
class Links:
    """How fast NCCL sends, in bytes per second. link: from a GPU to another one of its machine.
    network: from a machine to another one, for each GPU."""

    link: float
    network: float

    def sends(self, gpus: int) -> float:
        """Return the bytes per second that each of some GPUs passes on to the next one.

        The rings of an all-reduce go through all GPUs of a machine, and leave it by its network,
        each ring by another adapter.
        """
        return self.link if gpus <= MACHINE else min(self.link, MACHINE * self.network)


NVLINK3 = Links(link=230e9, network=24e9)
"""A100 with an adapter of 200 Gbit/s (HDR) for each GPU. The link's rate is 12 x 25 GB/s in each
direction, of which packets leave 240 and the GPU 230: NVIDIA's authors of NCCL in issue 149 of
nccl-tests; 24 GB/s of the network in issue 412 of nccl."""

NVLINK4 = Links(link=370e9, network=46e9)
"""H100 and H200 with an adapter of 400 Gbit/s (NDR) for each GPU. The link's rate is 18 x 25 GB/s
in each direction, of which packets leave 370: issue 212 of nccl-tests; 46 to 48 GB/s of the network
in its issue 290."""


@dataclass(frozen=True, kw_only=True)
class GPU:
    """A type of GPU.

    half, single: FLOP/s of dense matrix products in 16 bits and in float32. memory: in GB (10^9).
    """

    half: float
    single: float
    memory: float
    links: Links


GPUS: dict[str, GPU] = {
    "a100": GPU(half=312e12, single=19.5e12, memory=80.0, links=NVLINK3),
    "h100": GPU(half=989e12, single=67e12, memory=80.0, links=NVLINK4),
    "h200": GPU(half=989e12, single=67e12, memory=141.0, links=NVLINK4),
}
"""From NVIDIA's data sheets: SXM modules, without sparsity."""


@dataclass(frozen=True, kw_only=True)
class Precision:
    """Bytes per parameter.

    element: a parameter in matrix products, and each number of the activations. gradient: its
    gradient. optimizer: the two moments of AdamW in float32, and a float32 copy of the parameter if
    matrix products use another dtype.
    """

    element: int
    gradient: int
    optimizer: int


PRECISIONS: dict[str, Precision] = {
    "bf16": Precision(element=2, gradient=2, optimizer=12),
    "bf16-fp32-grad": Precision(element=2, gradient=4, optimizer=12),
    "fp32": Precision(element=4, gradient=4, optimizer=8),
}
"""16 bytes per parameter; 18 with float32 gradients. Rajbhandari et al. 2020, section 3.1."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """Distribution of a model over tensor x data GPUs.

    tensor: the number of GPUs that split every matrix (tensor parallelism). data: the number of
    groups of these GPUs, each with a different part of the batch (data parallelism). sharded:
    parameters, gradients and optimizer state are divided among the groups (FSDP, ZeRO stage 3)
    instead of copied to each (DDP).
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
    """Memory of one GPU in bytes. gathered: parameters that FSDP collects while it uses them."""

    parameters: int
    gradients: int
    optimizer: int
    gathered: int
    activations: int

    @property
    def total(self) -> int:
        """The sum of all parts."""
        return sum(vars(self).values())


def state_memory(count: Parameters, split: Split, precision: Precision) -> tuple[int, int, int]:
    """Return the bytes of parameters, gradients and optimizer state on one GPU.

    One GPU has split / tensor + rest parameters, where the rest is not divided by tensor
    parallelism; if sharded, this number divided by `data`. Each is multiplied by its bytes. ZeRO:
    Rajbhandari et al. 2020, figure 1; tensor parallelism: Shoeybi et al. 2019.
    """
    local = math.ceil(count.split / split.tensor) + count.total - count.split
    local = math.ceil(local / split.data) if split.sharded else local
    return local * precision.element, local * precision.gradient, local * precision.optimizer


def gathered_memory(count: Parameters, split: Split, precision: Precision) -> int:
    """Return the bytes of parameters and gradients that FSDP gathers, 0 if not sharded.

    These are the parameters outside the blocks, two blocks (the current and the next) and the
    gradient of one block: ((ends + 2 block) element + block gradient) / tensor.
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
    """Return the peak memory of one GPU in bytes, with `tokens` tokens per group and pass.

    Fragmentation of the allocator, communication buffers and the CUDA context are left out.
    """
    count = parameters(config)
    local_parameters, gradients, optimizer = state_memory(count, split, precision)
    activations = activation_bytes(
        config,
        tokens,
        length,
        element=precision.element,
        tensor=split.tensor,
        flash=flash,
        recompute=recompute,
    )
    return Memory(
        parameters=local_parameters,
        gradients=gradients,
        optimizer=optimizer,
        gathered=gathered_memory(count, split, precision),
        activations=activations,
    )


def sent_bytes(count: Parameters, split: Split, precision: Precision) -> int:
    """Return the bytes that each GPU sends for an update, without tensor parallelism.

    With n GPUs in a ring, a GPU passes on (n - 1) / n of what is gathered or added up. DDP adds up
    the gradients and then gathers the sums; FSDP gathers the parameters for the forward pass and
    for the backward pass, and adds up the gradients. Rajbhandari et al. 2020, section 7.
    """
    passed = (split.data - 1) / split.data * count.total
    if split.sharded:
        return round(passed * (2 * precision.element + precision.gradient))
    return round(passed * 2 * precision.gradient)


@dataclass(frozen=True)
class Exchange:
    """What a GPU sends for an update: bytes and seconds, beside the seconds of computing.

    rate: bytes per second.
    """

    way: Split
    sent: int
    rate: float
    computing: float

    @property
    def sending(self) -> float:
        """The seconds of sending."""
        return self.sent / self.rate

    @property
    def speed(self) -> float:
        """The speed relative to GPUs that send nothing, if none sends while it computes."""
        return self.computing / (self.computing + self.sending)


def exchange(
    count: Parameters, split: Split, precision: Precision, links: Links, computing: float
) -> Exchange:
    """Return what a GPU sends for an update that it computes in some seconds."""
    sent = sent_bytes(count, split, precision)
    return Exchange(split, sent, links.sends(split.data), computing)


def seconds(flops: float, gpus: int, rate: float, mfu: float) -> float:
    """Return the training time in seconds: flops / (gpus rate mfu).

    rate: FLOP/s of one GPU. mfu: model FLOPs utilization, the fraction of `rate` that is used for
    the model's matrix products, without recomputation. Chowdhery et al. 2022, section 4.1.
    """
    if flops < 0 or gpus < 1 or rate <= 0 or not 0 < mfu <= 1:
        raise ValueError(
            "flops >= 0, gpus >= 1, rate > 0 and 0 < mfu <= 1 were expected, "
            f"but {flops=}, {gpus=}, {rate=}, {mfu=}"
        )
    return flops / (gpus * rate * mfu)


def tensor_sizes(config: GPTConfig, gpus: int) -> list[int]:
    """Return the possible sizes of tensor parallelism.

    They are the common divisors of `gpus`, query heads, key and value heads and ffn_dim.
    """
    common = math.gcd(gpus, config.num_heads, config.kv_heads, config.ffn_dim)
    return [size for size in range(1, common + 1) if common % size == 0]


def splits(config: GPTConfig, gpus: int, tensor: Sequence[int] | None = None) -> list[Split]:
    """Return the distributions to compare: DDP and FSDP, with each size of tensor parallelism.

    tensor: these sizes, besides 1; if None, 8 (the GPUs of one machine) if it is possible. Raises
    UsageError for a size that is not possible.
    """
    possible = tensor_sizes(config, gpus)
    for size in tensor or ():
        if size not in possible:
            raise UsageError(
                f"--tensor {size} must divide {gpus:,} GPUs, {config.num_heads} query heads, "
                f"{config.kv_heads} key and value heads, and ffn_dim {config.ffn_dim:,}",
                hint=f"--tensor {' or '.join(map(str, possible))}",
            )
    sizes = [1, *(tensor if tensor is not None else [s for s in possible if s == 8])]
    distributions = []
    for size in dict.fromkeys(sizes):
        copies = gpus // size
        distributions.append(Split(tensor=size, data=copies))
        if copies > 1:
            distributions.append(Split(tensor=size, data=copies, sharded=True))
    return distributions
