"""Sections that the configurations of runs share, each declared once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar

from headway.data.documents import Split
from headway.errors import UsageError
from headway.machine import MachineConfig
from headway.settings import BATCH, COPIES, SEED, WIDTH, section, setting
from headway.training import OptimizerConfig, ScheduleConfig

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_TIME = re.compile(r"(?:(\d+(?:\.\d+)?) ?([smhd]) ?)+")
LONGEST_TIME = 366 * _SECONDS["d"]


def parse_time(text: str) -> float:
    """90s, 30m, 2h, 1d or 1h30m -> seconds. UsageError unless there is a unit, and for no time at
    all or more than a year, which is a slip."""
    text = text.strip()
    examples = "90s (seconds), 30m (minutes), 2h (hours), 1d (days) or 1h30m"
    if not _TIME.fullmatch(text):
        number = re.fullmatch(r"\d+(\.\d+)?", text)
        why = "has no unit" if number else "is not a time"
        raise UsageError(f"training.time={text} {why}", hint=examples)
    parts = re.findall(r"([\d.]+) ?([smhd])", text)
    seconds = sum(float(amount) * _SECONDS[unit] for amount, unit in parts)
    if not 0 < seconds <= LONGEST_TIME:
        raise UsageError(f"training.time={text} must be above 0 and at most 366d", hint=examples)
    return seconds


def left_open(config: Any, *keys: str) -> frozenset[str]:
    """Those of the dotted keys whose value is None: what the data or the start will decide."""
    return frozenset(key for key in keys if attrgetter(key)(config) is None)


def averaging(decay: float) -> Any:
    """The setting for the running average of weights, with its default."""
    help = "decay of the running average of the weights; 0 switches it off"
    return setting(decay, help, ge=0, lt=1)


@dataclass(frozen=True, kw_only=True)
class LoopConfig:
    """What the training loop itself is told, whatever it trains."""

    steps: int = setting(6000, "updates", gt=0)
    time: str | None = setting(
        None, "maximum training time with its unit: 90s, 30m, 2h, 1d, 1h30m; if unset, no limit"
    )
    accumulate: int = setting(1, "batches for each update", gt=0, le=COPIES)
    clip: float = setting(1.0, "largest norm of the gradient", gt=0)
    average: float = averaging(0.998)
    seed: int = setting(42, "everything random follows from it", ge=0, le=SEED)

    def __post_init__(self) -> None:
        if self.time is not None:
            parse_time(self.time)


@dataclass(frozen=True, kw_only=True)
class BlocksLoopConfig(LoopConfig):
    """Of models that are stacks of blocks."""

    recompute: bool = setting(
        False, "blocks keep only their inputs and run again for gradients: slower, less memory"
    )


@dataclass(frozen=True, kw_only=True)
class FineTuningConfig(BlocksLoopConfig):
    """Of models that begin as others: average, which needs more steps than these have, is off."""

    steps: int | None = setting(  # type: ignore[assignment]
        None, "updates; none: training.epochs, or what suits the examples and the start", gt=0
    )
    epochs: float | None = setting(None, "passes over the examples, instead of steps", gt=0)
    average: float = averaging(0.0)
    frozen: int | None = setting(
        None, "so many of the lowest blocks stay as they are, and the embeddings", ge=0
    )
    start: str | None = setting(
        None, "the encoder that is fine-tuned: a run or a model (short: --from)"
    )


@dataclass(frozen=True, kw_only=True)
class RowsConfig(FineTuningConfig):
    """With batches of so many examples."""

    rows: int = setting(16, "examples of a batch", gt=0, le=BATCH)


@dataclass(frozen=True, kw_only=True)
class ObservationConfig:
    """When a run is evaluated, and when that ends it."""

    every: int = setting(500, "steps between evaluations", gt=0)
    patience: int | None = setting(None, "stop after so many evaluations without a new best", gt=0)


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    every: int = setting(500, "steps between checkpoints", gt=0)
    keep: int = setting(2, "newest checkpoints kept", ge=1)


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The sections of a run. A task declares its own data and model, and training and evaluation
    where they have more settings."""

    recipe: str = setting("", "name of the recipe this came from")
    data: Any = None
    model: Any = None
    optimizer: OptimizerConfig = section(OptimizerConfig)
    schedule: ScheduleConfig = section(ScheduleConfig)
    training: LoopConfig = section(LoopConfig)
    evaluation: ObservationConfig = section(ObservationConfig)
    checkpoint: CheckpointConfig = section(CheckpointConfig)
    machine: MachineConfig = section(MachineConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        """Settings that follow from the examples."""
        return left_open(self, "training.steps")

    @property
    def name(self) -> str:
        """What the run is called unless the user names it: its recipe."""
        return self.recipe


@dataclass(frozen=True, kw_only=True)
class StartedModelConfig:
    """Of a model that has the shape of the one that it starts from, with a head on top."""

    dropout: float = setting(0.1, "share of activations dropped while training", ge=0, lt=1)

    sizes: ClassVar[dict[str, dict[str, Any]]] = {}


@dataclass(frozen=True, kw_only=True)
class TextDataConfig:
    """Which running text a model learns from."""

    train: tuple[str, ...] = setting(
        (), "text: .txt, .md or .jsonl files, plain or .gz, folders of them, or python-docs"
    )
    valid: tuple[str, ...] = setting((), "held-out text; none keeps the end of each of train")
    held_out: float = setting(0.05, "share of the text kept so", gt=0, lt=1)
    split: Split = setting(
        "file",
        "what is a document of a text file: all of it, a paragraph, a line, or what follows a "
        "title as WikiText writes it",
    )
    key: str = setting("text", "what holds the text in a line of a .jsonl file")


@dataclass(frozen=True, kw_only=True)
class LoRAConfig:
    """Fine-tuning by low-rank adapters (Hu et al. 2021), merged into the weights that are saved."""

    rank: int = setting(0, "rank of each adapter; 0 trains all weights", ge=0, le=WIDTH)
    alpha: float = setting(16.0, "adapters count alpha / rank", gt=0)
    dropout: float = setting(0.0, "share of an adapter's inputs dropped", ge=0, lt=1)
    targets: tuple[str, ...] = setting(
        (), "patterns of layers, such as *.query; none: all of attention and feed-forward"
    )
