"""`headway plan`: what training a language model of some size takes, before anybody pays for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from headway.cli.console import data, data_json
from headway.cli.flags import FLOPS, TokenCount, between, number
from headway.errors import UsageError, did_you_mean
from headway.settings import MOST

if TYPE_CHECKING:
    from headway.models import GPTConfig
    from headway.models.budget import Memory, Split
    from headway.models.cost import Recompute

MOST_TERAFLOPS = 1e5
ASSUMED_MFU = 0.4


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class GPUFlags:
    """What the GPUs can do."""

    gpu: Annotated[
        Literal["a100", "h100", "h200"] | None,
        Parameter(help="Kind of GPU, for its FLOP/s and memory; a100 unless --tflops."),
    ] = None
    tflops: Annotated[
        float | None,
        Parameter(validator=between(-MOST, FLOPS), help="10^12 FLOP/s of one GPU instead."),
    ] = None
    mfu: Annotated[
        float | None,
        number("Share of these FLOP/s that goes into the model; 0.4, with --gpus 0 all."),
    ] = None
    memory: Annotated[float | None, number("GB (10^9 bytes) of one GPU.")] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class StepFlags:
    """What a GPU holds while it learns."""

    batch: Annotated[
        int | None, number("Tokens that a model reads at once; one text unless given.")
    ] = None
    length: Annotated[int | None, number("Tokens of a text; the size's own.")] = None
    dtype: Annotated[
        Literal["bf16", "bf16-fp32-grad", "fp32"],
        Parameter(help="Numbers: 16, 18 or 16 bytes a parameter with AdamW."),
    ] = "bf16"
    flash: Annotated[bool, Parameter(help="Attention never holds all scores.")] = True
    recompute: Annotated[
        Literal["none", "selective", "full"],
        Parameter(help="Activations made again in the backward pass: scores, or whole blocks."),
    ] = "none"


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """All that was asked, checked, and all that follows from it."""

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
    """Plan a training: parameters, FLOPs per token, memory per GPU, time.

    headway plan gpt3-175b --gpus 1024 --tokens 300e9

    Nothing is trained and no GPU is needed. docs/plan.md has the formulas.

    Parameters
    ----------
    size
        A size of language model: gpt2-xl, gpt3-175b, modern-small ...
    gpus
        How many; 0 for a machine without one, whose speed --tflops says.
    tokens
        To train on; 20 a parameter unless given (Hoffmann et al. 2022).
    tensor
        GPUs that share every matrix, one number or several; 8 where that divides.
    json
        One JSON object.
    """
    sheet = _sheet(size, gpus, tokens, tensor, hardware or GPUFlags(), step or StepFlags())
    if json:
        data_json(_facts(sheet))
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
        raise UsageError(f"--gpus {gpus}: 0 or more")
    # what is measured on a machine without GPU is what it does, not what it could
    mfu = hardware.mfu if hardware.mfu is not None else ASSUMED_MFU if gpus else 1.0
    if not 0 < mfu <= 1:
        raise UsageError(f"--mfu {mfu:g}: a share, above 0 and at most 1")
    if tokens is not None and not 1 <= tokens < 1e18:
        raise UsageError(f"--tokens {tokens:g}: at least 1 and below 1e18")
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
            f"no language model of size {size!r}" + did_you_mean(size, GPTConfig.sizes),
            hint="one of: " + ", ".join(GPTConfig.sizes),
        )
    return GPTConfig(**GPTConfig.sizes[size])  # type: ignore[arg-type]


def _rate(gpus: int, flags: GPUFlags, dtype: str) -> tuple[float, str, float | None]:
    """FLOP/s of one device, its name, its memory in GB if known."""
    from headway.models.budget import GPUS

    if flags.memory is not None and not flags.memory > 0:
        raise UsageError(f"--memory {flags.memory:g}: GB, above 0")
    if flags.gpu and (flags.tflops is not None or gpus == 0):
        other = "--gpus 0" if gpus == 0 else "--tflops"
        raise UsageError(f"--gpu {flags.gpu} and {other}: which of the two?")
    if flags.tflops is not None:
        if not 0 < flags.tflops < MOST_TERAFLOPS:
            shown = f"; {flags.tflops:g} FLOP/s are --tflops {flags.tflops / 1e12:g}"
            raise UsageError(
                f"--tflops {flags.tflops:g}: 10^12 FLOP/s, above 0"
                + (shown if flags.tflops > 0 else "")
            )
        return flags.tflops * 1e12, "one machine" if gpus == 0 else "one GPU", flags.memory
    if gpus == 0:
        raise UsageError("how fast is a machine without GPU?", hint="--tflops 0.2, as measured")
    name = flags.gpu or "a100"
    kind = GPUS[name]
    rate = kind.single if dtype == "fp32" else kind.half
    return rate, f"one {name}", flags.memory or kind.memory


def _batch(config: GPTConfig, flags: StepFlags) -> tuple[int, int]:
    """Tokens at once and tokens of a text; a batch is of whole texts."""
    length = config.max_length if flags.length is None else flags.length
    if length < 1:
        raise UsageError(f"--length {length}: at least 1")
    if config.positions == "learned" and length > config.max_length:
        raise UsageError(f"--length {length}: the table of positions ends at {config.max_length}")
    batch = length if flags.batch is None else flags.batch
    if batch < 1 or batch % length:
        low = max(1, batch // length) * length
        raise UsageError(
            f"--batch {batch}: must be whole texts of {length} tokens",
            hint=f"--batch {low} or {low + length}",
        )
    return batch, length


def _costs(sheet: Sheet) -> list[str]:
    """Parameters, FLOPs and tokens, a line each."""
    from headway.models.budget import CHINCHILLA, PAPERS
    from headway.models.cost import formula_parameters, parameters

    count, work = parameters(sheet.config), _work(sheet)
    c, paper = sheet.config, PAPERS.get(sheet.size)
    said = f" (the paper says {_short(paper)})" if paper else ""
    best = f"; {CHINCHILLA} would be {CHINCHILLA * count.total:.3g}"
    best = "" if sheet.tokens == CHINCHILLA * count.total else best
    return [
        f"{sheet.size}: {c.num_layers} layers, {c.model_dim} wide, {c.num_heads} heads of "
        f"{c.head_width}, vocabulary {c.vocabulary:,}, texts of {sheet.length:,} tokens",
        f"parameters  {count.total:,}{said}",
        f"            {formula_parameters(c):,} by the formula; {count.multiplied:,} multiply (N)",
        f"a token     {work['forward']:.3g} FLOPs forward, {work['training']:.3g} in training, "
        f"{work['attention_share']:.1%} of them attention's scores and sums",
        f"tokens      {sheet.tokens:.3g}, {sheet.tokens / count.total:.3g} a parameter{best}",
        f"training    {work['total']:.3g} FLOPs; {work['six_n']:.3g} without attention's (6 N)",
        f"time        {_time(sheet, work)}",
    ]


def _time(sheet: Sheet, work: dict[str, float | int]) -> str:
    """On what, and how long."""
    start = f"{sheet.rated} at {sheet.rate / 1e12:g} TFLOP/s x {sheet.mfu:g} (MFU): "
    if sheet.gpus == 0:
        return start + _span(work["seconds"])
    days = work["gpu_days"]
    spent = f"{days:,.0f}" if days >= 100 else f"{days:.3g}"
    return f"{start}{spent} GPU-days, on {sheet.gpus:,} {_span(work['seconds'])}"


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
        *(sheet.config, way, PRECISIONS[sheet.step.dtype]),
        tokens=sheet.batch,
        length=sheet.length,
        flash=sheet.step.flash,
        recompute=sheet.step.recompute,
    )


def _memory_table(sheet: Sheet) -> list[str]:
    """GB on one device, a line for each way to split."""
    kinds = ["parameters", "gradients", "optimizer", "gathered", "activations", "total"]
    fits = [f"fits {sheet.room:g}"] if sheet.room else []
    rows = [[f"GB on each, {sheet.batch:,} tokens", *kinds, *fits]]
    for way in sheet.ways:
        found = _memory_of(sheet, way)
        sizes = [*vars(found).values(), found.total]
        answer = ["yes" if found.total <= sheet.room * 1e9 else "no"] if sheet.room else []
        rows.append([str(way), *map(_gigabytes, sizes), *answer])
    return _aligned(rows)


RECOMPUTED: tuple[tuple[str, bool, Recompute], ...] = (
    ("all kept", False, "none"),
    ("scores not held (flash, or selective)", True, "none"),
    ("full recomputation, scores held", False, "full"),
    ("full recomputation, flash", True, "full"),
)


def _activation_table(sheet: Sheet) -> list[str]:
    """GB of activations, a line for each way to hold fewer of them."""
    from headway.models.budget import PRECISIONS
    from headway.models.cost import activation_bytes

    sizes = sorted({way.tensor for way in sheet.ways})
    rows = [["GB of activations", *(f"tensor {k}" if k > 1 else "whole" for k in sizes)]]
    for name, flash, recompute in RECOMPUTED:
        found = (
            activation_bytes(
                *(sheet.config, sheet.batch, sheet.length),
                element=PRECISIONS[sheet.step.dtype].element,
                tensor=size,
                flash=flash,
                recompute=recompute,
            )
            for size in sizes
        )
        rows.append([name, *map(_gigabytes, found)])
    return _aligned(rows)


def _notes(sheet: Sheet) -> list[str]:
    from headway.models.budget import CHINCHILLA

    notes = [
        f"Numbers in {sheet.step.dtype}, AdamW. Not counted: communication, what the allocator "
        "loses, logits (the loss makes them in pieces).",
    ]
    if sheet.step.recompute != "none":
        notes.append("Recomputing takes time that MFU does not count: lower --mfu for it.")
    if sheet.room and not any(
        _memory_of(sheet, way).total <= sheet.room * 1e9 for way in sheet.ways
    ):
        notes.append("None fits: --recompute full, --batch smaller, --tensor, or more --gpus.")
    return [*notes, f"{CHINCHILLA} tokens a parameter: Hoffmann et al. 2022. More: docs/plan.md"]


def _facts(sheet: Sheet) -> dict[str, Any]:
    """The same for a program, in bytes and seconds."""
    from headway.models.budget import CHINCHILLA, PAPERS
    from headway.models.cost import formula_parameters, parameters

    count = parameters(sheet.config)
    ways = []
    for way in sheet.ways:
        found = _memory_of(sheet, way)
        fits = None if sheet.room is None else found.total <= sheet.room * 1e9
        ways.append({**vars(way), **vars(found), "total": found.total, "fits": fits})
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


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The first column to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.2f}" if size < 1e11 else f"{size / 1e9:,.0f}"


def _short(number: float) -> str:
    """175 B, 1542 M."""
    millions = number / 1e6
    return f"{millions:g} M" if number < 1.6e9 else f"{number / 1e9:g} B"


def _span(seconds: float) -> str:
    """A time in the unit that a person would use."""
    for unit, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:.1f} seconds"
