"""`headway plan`: what training takes, before it is run; and what a time is enough for."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from headway.base.errors import UsageError, did_you_mean
from headway.base.settings import COMMAND_LINE, Most, declared, override, setting
from headway.cli.flags import SEVERAL, WORDS, as_flags, check_name, spelled, split_words
from headway.cli.train import configured
from headway.models import GPTConfig
from headway.models.budget import (
    CHINCHILLA,
    DAY,
    GPUS,
    MACHINE,
    PAPERS,
    PRECISIONS,
    Exchange,
    Links,
    Memory,
    Split,
    exchange,
    memory,
    seconds,
    splits,
)
from headway.models.cost import (
    Recompute,
    activation_bytes,
    attention_flops,
    formula_parameters,
    forward_flops,
    parameters,
    training_flops,
)
from headway.runs import resolved
from headway.runs.pace import bought
from headway.tasks.registry import task_of_config
from headway.terminal.console import data, data_json, talk
from headway.terminal.numbers import aligned, gigabytes, short_number, time_span

MOST_TERAFLOPS = 1e5
ASSUMED_MFU = 0.4
TOKENS = Most(10**18, "far beyond any data set")


@as_flags
class PlanFlags:
    gpus: int = setting(
        1, "Number of GPUs; 0 for a machine without a GPU, whose speed --tflops sets.", ge=0
    )
    tokens: float | None = setting(
        None,
        "Number of training tokens. If unset, 20 per parameter (Hoffmann et al. 2022).",
        ge=1,
        le=TOKENS,
    )
    tensor: Annotated[tuple[int, ...], SEVERAL] = setting(
        (),
        "Tensor parallelism: number of GPUs that share each weight matrix; one value or several. "
        "If unset, 8 where the numbers of GPUs and heads are divisible by 8.",
    )
    gpu: Literal["a100", "h100", "h200"] | None = setting(
        None, "GPU type, for its FLOP/s and memory. If unset, a100."
    )
    tflops: float | None = setting(
        None,
        "Speed of one GPU in TFLOP/s (10^12 FLOP/s), instead of --gpu.",
        gt=0,
        le=Most(10**18, "FLOP/s of any machine"),
    )
    mfu: float | None = setting(
        None,
        "Model FLOP/s utilisation: the fraction of the FLOP/s that the model uses. If unset, 0.4; "
        "with --gpus 0, 1.",
        gt=0,
        le=1,
    )
    memory: float | None = setting(
        None, "Memory of one GPU in GB (10^9 bytes). If unset, that of the GPU type.", gt=0
    )
    link: float | None = setting(
        None,
        "Bandwidth between the GPUs of a machine in GB/s (10^9 bytes), in one direction. If unset, "
        "what NCCL reaches with NVLink: a100 230, h100 and h200 370.",
        gt=0,
        le=Most(10**6, "GB/s of any link"),
    )
    network: float | None = setting(
        None,
        "Bandwidth between machines of 8 GPUs in GB/s for each GPU. If unset, what NCCL reaches "
        "with an InfiniBand adapter for each GPU: a100 24, h100 and h200 46.",
        gt=0,
        le=Most(10**6, "GB/s of any network"),
    )
    batch: int | None = setting(None, "Batch size in tokens. If unset, one sequence.", ge=1)
    length: int | None = setting(
        None, "Sequence length in tokens. If unset, the maximum length of the model.", ge=1
    )
    dtype: Literal["bf16", "bf16-fp32-grad", "fp32"] = setting(
        "bf16",
        "Dtype of training: bf16, bf16-fp32-grad and fp32 take 16, 18 and 16 bytes per parameter "
        "with AdamW.",
    )
    flash: bool = setting(True, "Flash attention, which never stores all attention scores.")
    recompute: Literal["none", "selective", "full"] = setting(
        "none",
        "Activation checkpointing: what the backward pass recomputes instead of storing; "
        "selective: attention scores; full: whole blocks.",
    )
    json: bool = setting(False, "Print one JSON object.")


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """The checked request, and the quantities derived from it."""

    size: str
    config: GPTConfig
    flags: PlanFlags
    tokens: float
    rate: float
    rated: str
    mfu: float
    room: float | None
    batch: int
    length: int
    ways: list[Split]

    @property
    def exchanges(self) -> list[Exchange]:
        """What GPUs with known links send in the ways in which Headway trains."""
        flags = self.flags
        links = _links(flags)
        if links is None or flags.gpus <= 1:
            return []
        count = parameters(self.config)
        flops = float(self.batch * training_flops(self.config, self.length))
        computing = seconds(flops, 1, self.rate, self.mfu)
        ways = (way for way in self.ways if way.tensor == 1)
        return [exchange(count, way, PRECISIONS[flags.dtype], links, computing) for way in ways]


def plan(*words: Annotated[str, WORDS], flags: PlanFlags = PlanFlags()) -> None:
    """Estimate parameters, FLOPs per token, memory per GPU and training time, or what a time buys.

    headway plan gpt3-175b --gpus 1024 --tokens 300e9
    headway plan translate pairs.tsv --source en --target de --time 5m

    With the size of a language model (gpt2-xl, gpt3-175b, modern-small ...), nothing is trained and
    no GPU is needed; docs/plan.md has the formulas. With a recipe, its data and --time, a few steps
    are measured on this machine: the number of updates that the time is enough for, and a smaller
    model if they are too few. All settings of `headway train` are flags there.
    """
    arguments, settings = split_words(words)
    if arguments and resolved(arguments[0]) is not None:
        _plan_time(arguments, settings, flags)
        return
    if not arguments:
        raise UsageError("the size is missing", hint=f"headway plan {next(iter(GPTConfig.sizes))}")
    check_name(arguments[0], GPTConfig.sizes, "size of language model")
    for name in settings:
        meant = did_you_mean(spelled(name), map(spelled, declared(PlanFlags)))
        raise UsageError(f"unknown option {spelled(name)}{meant}", hint="headway plan --help")
    if arguments[1:]:
        raise UsageError(f"unexpected argument {arguments[1]!r}: expected one size")
    sheet = _sheet(arguments[0], flags)
    if flags.json:
        data_json(_as_dict(sheet))
        return
    parts = (_costs(sheet), _memory_table(sheet), _exchange_table(sheet), _activation_table(sheet))
    for part in filter(None, parts):
        data("\n".join(part) + "\n")
    for line in _notes(sheet):
        data(line)


def _plan_time(words: Sequence[str], settings: Mapping[str, object], flags: PlanFlags) -> None:
    """Print what the time limit of a run of a recipe is enough for."""
    if flags != PlanFlags(json=flags.json):
        raise UsageError(
            "a recipe is planned for the machine at hand: the flags of GPUs and tokens are for "
            "sizes of language models",
            hint=f"headway plan {words[0]} --time 5m",
        )
    config = configured(words, [(COMMAND_LINE, settings)])
    if not config.training.time:
        raise UsageError(
            "the time of the run is missing", hint=f"headway plan {words[0]} --time 5m"
        )
    task_of_config(config).check(config)
    with tempfile.TemporaryDirectory() as folder, talk.status("measuring a few steps"):
        lines = bought(config, Path(folder))
    if flags.json:
        data_json({"recipe": config.recipe, "time": config.training.time, "lines": lines})
    elif lines:
        data("\n".join(lines))
    else:
        data("the steps of this recipe change while it trains, and cannot be measured before")


def _sheet(size: str, flags: PlanFlags) -> Sheet:
    config = override(GPTConfig(), GPTConfig.sizes[size], "the size")
    # without a GPU, --tflops is the measured speed, not the peak: the model uses all of it
    mfu = flags.mfu if flags.mfu is not None else ASSUMED_MFU if flags.gpus else 1.0
    rate, rated, room = _rate(flags)
    batch, length = _batch(config, flags)
    return Sheet(
        size=size,
        config=config,
        flags=flags,
        tokens=flags.tokens or float(CHINCHILLA * parameters(config).total),
        rate=rate,
        rated=rated,
        mfu=mfu,
        room=room,
        batch=batch,
        length=length,
        ways=splits(config, max(flags.gpus, 1), flags.tensor or None),
    )


def _rate(flags: PlanFlags) -> tuple[float, str, float | None]:
    """The FLOP/s of one device, its name, and its memory in GB if known."""
    gpus = flags.gpus
    if flags.gpu and (flags.tflops is not None or gpus == 0):
        flag = "--gpus 0" if gpus == 0 else "--tflops"
        raise UsageError(
            f"--gpu {flags.gpu} and {flag} cannot be combined", hint="leave one of them out"
        )
    if flags.tflops is not None:
        if flags.tflops >= MOST_TERAFLOPS:
            raise UsageError(
                f"--tflops {flags.tflops:g}: must be less than {MOST_TERAFLOPS:,.0f} TFLOP/s "
                f"(10^12 FLOP/s); for {flags.tflops:g} FLOP/s, write --tflops "
                f"{flags.tflops / 1e12:g}"
            )
        return flags.tflops * 1e12, "one machine" if gpus == 0 else "one GPU", flags.memory
    if gpus == 0:
        raise UsageError(
            "--gpus 0 needs the speed of the machine",
            hint="add its measured speed in TFLOP/s: --tflops 0.2",
        )
    name = flags.gpu or "a100"
    kind = GPUS[name]
    rate = kind.single if flags.dtype == "fp32" else kind.half
    return rate, f"one {name}", flags.memory or kind.memory


def _links(flags: PlanFlags) -> Links | None:
    """The links of the GPUs; None if they are not known."""
    if flags.tflops is None and flags.gpus:
        usual = GPUS[flags.gpu or "a100"].links
        return Links(
            link=usual.link if flags.link is None else flags.link * 1e9,
            network=usual.network if flags.network is None else flags.network * 1e9,
        )
    if flags.link is None or (flags.network is None and flags.gpus > MACHINE):
        return None
    return Links(link=flags.link * 1e9, network=(flags.network or flags.link) * 1e9)


def _batch(config: GPTConfig, flags: PlanFlags) -> tuple[int, int]:
    """The batch size and the sequence length in tokens; a batch holds whole sequences."""
    length = config.max_length if flags.length is None else flags.length
    if config.positions == "learned" and length > config.max_length:
        raise UsageError(
            f"--length {length}: this size has learned positions for at most {config.max_length} "
            "tokens"
        )
    batch = length if flags.batch is None else flags.batch
    if batch % length:
        low = max(1, batch // length) * length
        raise UsageError(
            f"--batch {batch}: must be a multiple of the sequence length, {length} tokens",
            hint=f"--batch {low} or {low + length}",
        )
    return batch, length


def _costs(sheet: Sheet) -> list[str]:
    """Lines on parameters, FLOPs, tokens and time."""
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
    if sheet.flags.gpus == 0:
        return start + time_span(work["seconds"])
    days = work["gpu_days"]
    spent = f"{days:,.0f}" if days >= 100 else f"{days:.3g}"
    return f"{start}{spent} GPU-days, on {sheet.flags.gpus:,} {time_span(work['seconds'])}"


def _work(sheet: Sheet) -> dict[str, float | int]:
    forward = forward_flops(sheet.config, sheet.length)
    training = training_flops(sheet.config, sheet.length)
    total = training * sheet.tokens
    many = max(sheet.flags.gpus, 1)
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
    return memory(
        sheet.config,
        way,
        PRECISIONS[sheet.flags.dtype],
        tokens=sheet.batch,
        length=sheet.length,
        flash=sheet.flags.flash,
        recompute=sheet.flags.recompute,
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


def _exchange_table(sheet: Sheet) -> list[str]:
    """A table of what a GPU sends for an update, with a line for DDP and for FSDP."""
    if not sheet.exchanges:
        return []
    rate = sheet.exchanges[0].rate / 1e9
    title = f"an update of {sheet.batch:,} tokens per device, sent at {rate:g} GB/s"
    rows = [[title, "GB sent", "s sending", "s computing", "speed"]]
    for e in sheet.exchanges:
        times = [f"{e.sending:.3f}", f"{e.computing:.3f}", f"{e.speed:.0%}"]
        rows.append([str(e.way), gigabytes(e.sent), *times])
    return aligned(rows)


RECOMPUTED: tuple[tuple[str, bool, Recompute], ...] = (
    ("all stored", False, "none"),
    ("scores not stored (flash, or selective)", True, "none"),
    ("full recomputation, scores stored", False, "full"),
    ("full recomputation, flash", True, "full"),
)


def _activation_table(sheet: Sheet) -> list[str]:
    """A table of the GB of activations, with a line for each way to store fewer of them."""
    sizes = sorted({way.tensor for way in sheet.ways})
    rows = [["GB of activations", *(f"tensor {k}" if k > 1 else "whole" for k in sizes)]]
    for name, flash, recompute in RECOMPUTED:
        bytes_by_size = (
            activation_bytes(
                sheet.config,
                sheet.batch,
                sheet.length,
                element=PRECISIONS[sheet.flags.dtype].element,
                tensor=size,
                flash=flash,
                recompute=recompute,
            )
            for size in sizes
        )
        rows.append([name, *map(gigabytes, bytes_by_size)])
    return aligned(rows)


def _notes(sheet: Sheet) -> list[str]:
    notes = [
        f"Dtype {sheet.flags.dtype}, AdamW. Not counted: memory fragmentation, logits (the loss "
        "computes them in chunks); in the time, what GPUs send.",
    ]
    if sheet.flags.recompute != "none":
        notes.append("Recomputation takes time that MFU does not count: lower --mfu to include it.")
    if sheet.room and not any(
        _memory_of(sheet, way).total <= sheet.room * 1e9 for way in sheet.ways
    ):
        notes.append(
            "No split fits: use --recompute full, a smaller --batch, --tensor or more --gpus."
        )
    return [*notes, f"{CHINCHILLA} tokens per parameter: Hoffmann et al. 2022. More: docs/plan.md"]


def _as_dict(sheet: Sheet) -> dict[str, object]:
    """The same quantities for a program, in bytes and seconds."""
    count = parameters(sheet.config)
    ways = []
    for way in sheet.ways:
        memory = _memory_of(sheet, way)
        fits = None if sheet.room is None else memory.total <= sheet.room * 1e9
        ways.append({**vars(way), **vars(memory), "total": memory.total, "fits": fits})
    return {
        **{
            "size": sheet.size,
            "gpus": sheet.flags.gpus,
            "length": sheet.length,
            "batch": sheet.batch,
        },
        **{"parameters": vars(count), "formula": formula_parameters(sheet.config)},
        "paper": PAPERS.get(sheet.size),
        **{"tokens": sheet.tokens, "chinchilla": CHINCHILLA * count.total},
        **{"rate": sheet.rate, "mfu": sheet.mfu, "memory": sheet.room},
        **{
            "dtype": sheet.flags.dtype,
            "flash": sheet.flags.flash,
            "recompute": sheet.flags.recompute,
        },
        "flops": _work(sheet),
        "ways": ways,
        "updates": [
            {
                **vars(e.way),
                "sent": e.sent,
                "rate": e.rate,
                "sending": e.sending,
                "computing": e.computing,
            }
            for e in sheet.exchanges
        ],
    }
