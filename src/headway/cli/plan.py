"""`headway plan`: estimates what training a language model of some size takes, before it is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from headway.base.errors import UsageError, did_you_mean
from headway.base.settings import MOST
from headway.cli.console import data, data_json
from headway.cli.flags import FLOPS, TokenCount, between, number
from headway.cli.numbers import aligned, gigabytes, short_number, time_span

if TYPE_CHECKING:
    from headway.models import GPTConfig
    from headway.models.budget import Memory, Split
    from headway.models.cost import Recompute

MOST_TERAFLOPS = 1e5
ASSUMED_MFU = 0.4


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class GPUFlags:
    """Speed and memory of the GPUs."""

    gpu: Annotated[
        Literal["a100", "h100", "h200"] | None,
        Parameter(help="GPU type, for its FLOP/s and memory. If unset, a100."),
    ] = None
    tflops: Annotated[
        float | None,
        Parameter(
            validator=between(-MOST, FLOPS),
            help="Speed of one GPU in TFLOP/s (10^12 FLOP/s), instead of --gpu.",
        ),
    ] = None
    mfu: Annotated[
        float | None,
        number(
            "Model FLOP/s utilisation: the fraction of the FLOP/s that the model uses. "
            "If unset, 0.4; with --gpus 0, 1."
        ),
    ] = None
    memory: Annotated[
        float | None,
        number("Memory of one GPU in GB (10^9 bytes). If unset, that of the GPU type."),
    ] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class StepFlags:
    """Batch, dtype and memory savings of one training step."""

    batch: Annotated[int | None, number("Batch size in tokens. If unset, one sequence.")] = None
    length: Annotated[
        int | None,
        number("Sequence length in tokens. If unset, the maximum length of the model."),
    ] = None
    dtype: Annotated[
        Literal["bf16", "bf16-fp32-grad", "fp32"],
        Parameter(
            help="Dtype of training: bf16, bf16-fp32-grad and fp32 take 16, 18 and 16 bytes per "
            "parameter with AdamW."
        ),
    ] = "bf16"
    flash: Annotated[
        bool, Parameter(help="Flash attention, which never stores all attention scores.")
    ] = True
    recompute: Annotated[
        Literal["none", "selective", "full"],
        Parameter(
            help="Activation checkpointing: what the backward pass recomputes instead of storing; "
            "selective: attention scores; full: whole blocks."
        ),
    ] = "none"


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """The checked request, and the quantities derived from it."""

    size: str
    config: GPTConfig
    gpus: int
    tokens: float
    rate: float
    rated: str
    mfu: float
    room: float | None
    batch: int
    length: int
    step: StepFlags
    ways: list[Split]


def plan(
    size: str,
    /,
    *,
    gpus: int = 1,
    tokens: TokenCount | None = None,
    tensor: Annotated[tuple[int, ...], Parameter(consume_multiple=True)] = (),
    hardware: GPUFlags | None = None,
    step: StepFlags | None = None,
    json: bool = False,
) -> None:
    """Estimate parameters, FLOPs per token, memory per GPU and training time.

    headway plan gpt3-175b --gpus 1024 --tokens 300e9

    Nothing is trained and no GPU is needed. docs/plan.md has the formulas.

    Parameters
    ----------
    size
        Size of the language model: gpt2-xl, gpt3-175b, modern-small ...
    gpus
        Number of GPUs; 0 for a machine without a GPU, whose speed --tflops sets.
    tokens
        Number of training tokens. If unset, 20 per parameter (Hoffmann et al. 2022).
    tensor
        Tensor parallelism: number of GPUs that share each weight matrix; one value or several.
        If unset, 8 where the numbers of GPUs and heads are divisible by 8.
    json
        Print one JSON object.
    """
    sheet = _sheet(size, gpus, tokens, tensor, hardware or GPUFlags(), step or StepFlags())
    if json:
        data_json(_as_dict(sheet))
        return
    for part in (_costs(sheet), _memory_table(sheet), _activation_table(sheet)):
        data("\n".join(part) + "\n")
    for line in _notes(sheet):
        data(line)


def _sheet(
    size: str,
    gpus: int,
    tokens: float | None,
    tensor: Sequence[int],
    hardware: GPUFlags,
    step: StepFlags,
) -> Sheet:
    from headway.models.budget import CHINCHILLA, splits
    from headway.models.cost import parameters

    config = _config(size)
    if gpus < 0:
        raise UsageError(f"--gpus {gpus}: must be at least 0")
    # without a GPU, --tflops is the measured speed, not the peak: the model uses all of it
    mfu = hardware.mfu if hardware.mfu is not None else ASSUMED_MFU if gpus else 1.0
    if not 0 < mfu <= 1:
        raise UsageError(f"--mfu {mfu:g}: must be a fraction above 0 and at most 1")
    if tokens is not None and not 1 <= tokens < 1e18:
        raise UsageError(f"--tokens {tokens:g}: must be at least 1 and below 1e18")
    rate, rated, room = _rate(gpus, hardware, step.dtype)
    batch, length = _batch(config, step)
    return Sheet(
        size=size,
        config=config,
        gpus=gpus,
        tokens=tokens or float(CHINCHILLA * parameters(config).total),
        rate=rate,
        rated=rated,
        mfu=mfu,
        room=room,
        batch=batch,
        length=length,
        step=step,
        ways=splits(config, max(gpus, 1), tensor or None),
    )


def _config(size: str) -> GPTConfig:
    from headway.models import GPTConfig

    if size not in GPTConfig.sizes:
        raise UsageError(
            f"unknown size of language model {size!r}" + did_you_mean(size, GPTConfig.sizes),
            hint="one of: " + ", ".join(GPTConfig.sizes),
        )
    return GPTConfig(**GPTConfig.sizes[size])  # type: ignore[arg-type]


def _rate(gpus: int, flags: GPUFlags, dtype: str) -> tuple[float, str, float | None]:
    """The FLOP/s of one device, its name, and its memory in GB if known."""
    from headway.models.budget import GPUS

    if flags.memory is not None and not flags.memory > 0:
        raise UsageError(f"--memory {flags.memory:g}: must be more than 0 GB")
    if flags.gpu and (flags.tflops is not None or gpus == 0):
        flag = "--gpus 0" if gpus == 0 else "--tflops"
        raise UsageError(
            f"--gpu {flags.gpu} and {flag} cannot be combined", hint="leave one of them out"
        )
    if flags.tflops is not None:
        if not 0 < flags.tflops < MOST_TERAFLOPS:
            shown = f"; for {flags.tflops:g} FLOP/s, write --tflops {flags.tflops / 1e12:g}"
            raise UsageError(
                f"--tflops {flags.tflops:g}: must be more than 0 and less than "
                f"{MOST_TERAFLOPS:,.0f} TFLOP/s (10^12 FLOP/s)"
                + (shown if flags.tflops > 0 else "")
            )
        return flags.tflops * 1e12, "one machine" if gpus == 0 else "one GPU", flags.memory
    if gpus == 0:
        raise UsageError(
            "--gpus 0 needs the speed of the machine",
            hint="add its measured speed in TFLOP/s: --tflops 0.2",
        )
    name = flags.gpu or "a100"
    kind = GPUS[name]
    rate = kind.single if dtype == "fp32" else kind.half
    return rate, f"one {name}", flags.memory or kind.memory


def _batch(config: GPTConfig, flags: StepFlags) -> tuple[int, int]:
    """The batch size and the sequence length in tokens; a batch holds whole sequences."""
    length = config.max_length if flags.length is None else flags.length
    if length < 1:
        raise UsageError(f"--length {length}: must be at least 1")
    if config.positions == "learned" and length > config.max_length:
        raise UsageError(
            f"--length {length}: this size has learned positions for at most {config.max_length} "
            "tokens"
        )
    batch = length if flags.batch is None else flags.batch
    if batch < 1 or batch % length:
        low = max(1, batch // length) * length
        raise UsageError(
            f"--batch {batch}: must be a multiple of the sequence length, {length} tokens",
            hint=f"--batch {low} or {low + length}",
        )
    return batch, length


def _costs(sheet: Sheet) -> list[str]:
    """Lines on parameters, FLOPs, tokens and time."""
    from headway.models.budget import CHINCHILLA, PAPERS
    from headway.models.cost import formula_parameters, parameters

    count, work = parameters(sheet.config), _work(sheet)
    c, paper = sheet.config, PAPERS.get(sheet.size)
    published = f" (published: {short_number(paper)})" if paper else ""
    best = f"; {CHINCHILLA} per parameter would be {CHINCHILLA * count.total:.3g}"
    best = "" if sheet.tokens == CHINCHILLA * count.total else best
    return [
        f"{sheet.size}: {c.num_layers} layers, width {c.model_dim}, {c.num_heads} heads of width "
        f"{c.head_width}, vocabulary size {c.vocabulary:,}, sequences of {sheet.length:,} tokens",
        f"parameters  {count.total:,}{published}",
        f"            {formula_parameters(c):,} by the formula; {count.multiplied:,} in matrix "
        "products (N)",
        f"per token   {work['forward']:.3g} FLOPs forward, {work['training']:.3g} in training, "
        f"{work['attention_share']:.1%} of them in attention scores and weighted sums",
        f"tokens      {sheet.tokens:.3g}, {sheet.tokens / count.total:.3g} per parameter{best}",
        f"training    {work['total']:.3g} FLOPs; {work['six_n']:.3g} without attention (6 N)",
        f"time        {_time(sheet, work)}",
    ]


def _time(sheet: Sheet, work: dict[str, float | int]) -> str:
    """The line on the devices and the training time."""
    start = f"{sheet.rated} at {sheet.rate / 1e12:g} TFLOP/s x {sheet.mfu:g} (MFU): "
    if sheet.gpus == 0:
        return start + time_span(work["seconds"])
    days = work["gpu_days"]
    spent = f"{days:,.0f}" if days >= 100 else f"{days:.3g}"
    return f"{start}{spent} GPU-days, on {sheet.gpus:,} {time_span(work['seconds'])}"


def _work(sheet: Sheet) -> dict[str, float | int]:
    from headway.models.budget import DAY, seconds
    from headway.models.cost import attention_flops, forward_flops, parameters, training_flops

    forward = forward_flops(sheet.config, sheet.length)
    training = training_flops(sheet.config, sheet.length)
    total = training * sheet.tokens
    many = max(sheet.gpus, 1)
    return {
        "forward": forward,
        "training": training,
        "attention_share": attention_flops(sheet.config, sheet.length) / forward,
        "total": total,
        "six_n": 6 * parameters(sheet.config).multiplied * sheet.tokens,
        "gpu_days": seconds(total, 1, sheet.rate, sheet.mfu) / DAY,
        "seconds": seconds(total, many, sheet.rate, sheet.mfu),
    }


def _memory_of(sheet: Sheet, way: Split) -> Memory:
    from headway.models.budget import PRECISIONS, memory

    return memory(
        sheet.config,
        way,
        PRECISIONS[sheet.step.dtype],
        tokens=sheet.batch,
        length=sheet.length,
        flash=sheet.step.flash,
        recompute=sheet.step.recompute,
    )


def _memory_table(sheet: Sheet) -> list[str]:
    """A table of the GB on one device, with a line for each way to split the model."""
    kinds = ["parameters", "gradients", "optimizer", "gathered", "activations", "total"]
    fits = [f"fits {sheet.room:g}"] if sheet.room else []
    rows = [[f"GB per device, {sheet.batch:,} tokens", *kinds, *fits]]
    for way in sheet.ways:
        memory = _memory_of(sheet, way)
        sizes = [*vars(memory).values(), memory.total]
        fits_or_not = ["yes" if memory.total <= sheet.room * 1e9 else "no"] if sheet.room else []
        rows.append([str(way), *map(gigabytes, sizes), *fits_or_not])
    return aligned(rows)


RECOMPUTED: tuple[tuple[str, bool, Recompute], ...] = (
    ("all stored", False, "none"),
    ("scores not stored (flash, or selective)", True, "none"),
    ("full recomputation, scores stored", False, "full"),
    ("full recomputation, flash", True, "full"),
)


def _activation_table(sheet: Sheet) -> list[str]:
    """A table of the GB of activations, with a line for each way to store fewer of them."""
    from headway.models.budget import PRECISIONS
    from headway.models.cost import activation_bytes

    sizes = sorted({way.tensor for way in sheet.ways})
    rows = [["GB of activations", *(f"tensor {k}" if k > 1 else "whole" for k in sizes)]]
    for name, flash, recompute in RECOMPUTED:
        bytes_by_size = (
            activation_bytes(
                sheet.config,
                sheet.batch,
                sheet.length,
                element=PRECISIONS[sheet.step.dtype].element,
                tensor=size,
                flash=flash,
                recompute=recompute,
            )
            for size in sizes
        )
        rows.append([name, *map(gigabytes, bytes_by_size)])
    return aligned(rows)


def _notes(sheet: Sheet) -> list[str]:
    from headway.models.budget import CHINCHILLA

    notes = [
        f"Dtype {sheet.step.dtype}, AdamW. Not counted: communication, memory fragmentation, "
        "logits (the loss computes them in chunks).",
    ]
    if sheet.step.recompute != "none":
        notes.append("Recomputation takes time that MFU does not count: lower --mfu to include it.")
    if sheet.room and not any(
        _memory_of(sheet, way).total <= sheet.room * 1e9 for way in sheet.ways
    ):
        notes.append(
            "No split fits: use --recompute full, a smaller --batch, --tensor or more --gpus."
        )
    return [*notes, f"{CHINCHILLA} tokens per parameter: Hoffmann et al. 2022. More: docs/plan.md"]


def _as_dict(sheet: Sheet) -> dict[str, Any]:
    """The same quantities for a program, in bytes and seconds."""
    from headway.models.budget import CHINCHILLA, PAPERS
    from headway.models.cost import formula_parameters, parameters

    count = parameters(sheet.config)
    ways = []
    for way in sheet.ways:
        memory = _memory_of(sheet, way)
        fits = None if sheet.room is None else memory.total <= sheet.room * 1e9
        ways.append({**vars(way), **vars(memory), "total": memory.total, "fits": fits})
    return {
        **{"size": sheet.size, "gpus": sheet.gpus, "length": sheet.length, "batch": sheet.batch},
        **{"parameters": vars(count), "formula": formula_parameters(sheet.config)},
        "paper": PAPERS.get(sheet.size),
        **{"tokens": sheet.tokens, "chinchilla": CHINCHILLA * count.total},
        **{"rate": sheet.rate, "mfu": sheet.mfu, "memory": sheet.room},
        **{"dtype": sheet.step.dtype, "flash": sheet.step.flash, "recompute": sheet.step.recompute},
        "flops": _work(sheet),
        "ways": ways,
    }
