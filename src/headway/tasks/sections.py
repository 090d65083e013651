"""Configuration sections that the training runs of several tasks share."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, Literal

from headway.base.devices import MachineConfig
from headway.base.settings import (
    BATCH,
    COPIES,
    LENGTH,
    SEED,
    WIDTH,
    count,
    fraction,
    section,
    setting,
)
from headway.data.bad_rows import bad_rows_setting
from headway.data.documents import Split
from headway.training import DistillationConfig, OptimizerConfig, ScheduleConfig
from headway.training.budget import parse_time


def unset_settings(config: object, *keys: str) -> frozenset[str]:
    """Select the dotted keys whose value is None; the data or the initial model decides them."""
    return frozenset(key for key in keys if attrgetter(key)(config) is None)


def batch_setting(config: RunSettings) -> str | None:
    """Return the dotted key of the batch size that a time limit may make smaller; None if it may
    not, because there is no time limit or the user has set the batch size."""
    training = config.training
    return None if training.time is None or not training.updates else batch_key(config)


def batch_key(config: RunSettings) -> str | None:
    """Return the dotted key of the batch size, in tokens or in examples; None if there is none."""
    training = config.training
    if isinstance(getattr(training, "tokens", None), int):
        return "training.tokens"
    return "training.batch_size" if hasattr(training, "batch_size") else None


def averaging(decay: float) -> Any:
    """Declare the setting for the exponential moving average of the weights, with its default."""
    help = "decay of the exponential moving average of the weights; 0 switches it off"
    return fraction(decay, help)


def desired_updates(number: int) -> Any:
    """Declare the setting for the number of updates that a time limit should allow."""
    return setting(
        number,
        "with a time limit, the number of updates for which the batch is made smaller: it is "
        "halved, to a quarter at most, until the time is enough for them; 0, or a batch size that "
        "you set: never",
        ge=0,
    )


def pre_trained(model: str) -> Any:
    """Declare the setting for the model that a run starts from. model: its kind and use."""
    return setting(
        None,
        f"{model}: a run, a model or a Hugging Face folder (short: --from); if unset, training "
        "from scratch",
    )


@dataclass(frozen=True, kw_only=True)
class LoopConfig:
    """Settings of the training loop that apply to every model."""

    steps: int = setting(6000, "number of updates", gt=0)
    time: str | None = setting(
        None,
        "maximum training time with its unit: 90s, 30m, 2h, 1d, 1h30m; warm-up, decay, evaluations "
        "and checkpoints are fitted to it; if unset, no limit",
    )
    updates: int = desired_updates(800)
    sizes: tuple[str, ...] = setting(
        (),
        "smaller sizes of the model, one of which is trained with a time limit that is too short "
        "for the model of the recipe; if unset, or if you set a size: none",
    )
    accumulate: int = count(1, "gradient accumulation steps: number of batches per update", COPIES)
    clip: float = setting(
        1.0, "maximum gradient norm (gradient clipping); larger gradients are rescaled", gt=0
    )
    average: float = averaging(0.998)
    seed: int = setting(
        42, "random seed of initialisation, data order, dropout and sampling", ge=0, le=SEED
    )

    def __post_init__(self) -> None:
        if self.time is not None:
            parse_time(self.time)


@dataclass(frozen=True, kw_only=True)
class BlocksLoopConfig(LoopConfig):
    """Settings of the training loop for models that are stacks of blocks."""

    recompute: bool = setting(
        False,
        "activation checkpointing: store only the input of each block and recompute the rest in "
        "the backward pass; slower, but needs less memory",
    )


@dataclass(frozen=True, kw_only=True)
class FineTuningConfig(BlocksLoopConfig):
    """Settings of the training loop for fine-tuning a pre-trained model.

    The average of the weights is off: fine-tuning has too few steps for it.
    """

    steps: int | None = setting(  # type: ignore[assignment]
        None,
        "number of updates; if unset, training.epochs decides, or else a number that suits the "
        "examples and the pre-trained model",
        gt=0,
    )
    epochs: float | None = setting(
        None, "number of passes over the training examples, instead of steps", gt=0
    )
    average: float = averaging(0.0)
    updates: int = desired_updates(600)
    frozen: int | None = setting(
        None,
        "number of blocks, counted from the input, that are frozen together with the embeddings; "
        "if unset, all weights are trained",
        ge=0,
    )
    start: str | None = setting(
        None, "pre-trained encoder to fine-tune: a run or a model (short: --from)"
    )


@dataclass(frozen=True, kw_only=True)
class BatchSizeConfig(FineTuningConfig):
    """Fine-tuning with a fixed batch size."""

    batch_size: int = count(
        16, "batch size, in examples: texts, sentences, or windows of a text", BATCH
    )


@dataclass(frozen=True, kw_only=True)
class BalancedConfig(BatchSizeConfig):
    """Fine-tuning of a model that assigns classes or tags."""

    balance: bool = setting(
        False,
        "weight the loss by inverse frequency, so that every class or tag, the outside tag O "
        "included, counts the same",
    )


@dataclass(frozen=True, kw_only=True)
class ObservationConfig:
    """Settings of the evaluation during training, and of early stopping."""

    every: int | None = setting(
        None,
        "number of steps between evaluations; if unset, early in the run and then after each tenth "
        "of its steps or time",
        gt=0,
    )
    patience: int | None = setting(
        None,
        "early stopping: number of evaluations without a new best score after which training "
        "stops; if unset, it never stops early",
        gt=0,
    )


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """When checkpoints are written, and how many are kept."""

    every: int | None = setting(
        None,
        "number of steps between checkpoints; if unset, early in the run, then after each tenth of "
        "its steps or time, and every 10 minutes",
        gt=0,
    )
    keep: int = setting(2, "number of checkpoints that are kept, the newest ones", ge=1)


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The sections of a run's configuration.

    A task declares its own sections `data` and `model`, and `training` and `evaluation` if they
    have further settings.
    """

    recipe: str = setting("", "name of the recipe that these settings extend")
    data: Any = None
    model: Any = None
    optimizer: OptimizerConfig = section(OptimizerConfig)
    schedule: ScheduleConfig = section(ScheduleConfig)
    training: LoopConfig = section(LoopConfig)
    evaluation: ObservationConfig = section(ObservationConfig)
    checkpoint: CheckpointConfig = section(CheckpointConfig)
    machine: MachineConfig = section(MachineConfig)

    data_decide: ClassVar[frozenset[str]] = frozenset()
    """The dotted keys that the examples always decide."""
    data_may_decide: ClassVar[tuple[str, ...]] = ("training.steps",)
    """The dotted keys that the examples decide if they are unset."""
    machine_may_decide: ClassVar[tuple[str, ...]] = ()
    """The dotted keys that the device decides if they are unset, besides those of `machine`."""

    @property
    def decided_by_data(self) -> frozenset[str]:
        """The dotted keys of the settings that the examples or a pre-trained model decide."""
        return self.data_decide | unset_settings(self, *self.data_may_decide)

    @property
    def name(self) -> str:
        """The default name of the run: the name of its recipe."""
        return self.recipe


@dataclass(frozen=True, kw_only=True)
class StartedModelConfig:
    """Settings of a model with the shape of a pre-trained encoder, and a head on top."""

    dropout: float = fraction(0.1, "dropout probability of activations")

    sizes: ClassVar[dict[str, dict[str, object]]] = {}


@dataclass(frozen=True, kw_only=True)
class StartedLanguageModelConfig(StartedModelConfig):
    """Settings of a model with the shape of a pre-trained language model."""

    dropout: float = fraction(0.0, "dropout probability of activations")


@dataclass(frozen=True, kw_only=True)
class LinearHeadConfig(StartedModelConfig):
    """Settings of a pre-trained model with a linear head."""

    head_dropout: float = fraction(0.1, "dropout probability of the vectors before the head")


@dataclass(frozen=True, kw_only=True)
class ExamplesConfig:
    """The labelled examples that a model is trained on."""

    train: tuple[str, ...] = setting(
        (), "training examples; those of a student are in the format of its teacher's"
    )
    valid: tuple[str, ...] = setting(
        (), "validation examples; if unset, a fraction of train is held out"
    )
    held_out: float = setting(
        0.1, "fraction of the training examples that is held out if valid is unset", gt=0, lt=1
    )
    bad_rows: str = bad_rows_setting()


@dataclass(frozen=True, kw_only=True)
class FineTuningRunConfig(RunSettings):
    """Configuration of a run that fine-tunes the model `training.start` on labelled examples."""

    model: StartedModelConfig = section(StartedModelConfig)
    training: BatchSizeConfig = section(BatchSizeConfig)


@dataclass(frozen=True, kw_only=True)
class TextDataConfig:
    """The running text that a model is trained on."""

    train: tuple[str, ...] = setting(
        (),
        "training text: files (.txt, .md, or a column of .csv, .tsv, .jsonl, .json or .parquet), "
        "plain or .gz, folders, or python-docs",
    )
    valid: tuple[str, ...] = setting(
        (), "validation text; if unset, the end of each training text is held out"
    )
    held_out: float = setting(
        0.05, "fraction of the training text that is held out if valid is unset", gt=0, lt=1
    )
    split: Split = setting(
        "file",
        "unit of a text file that is one document: the file, a paragraph, a line, or an article "
        "under a title in the format of WikiText",
    )
    text: str | None = setting(
        None,
        "column of the text in a table, by name or number from 1, or its key in records; if unset, "
        "text, or the only column",
    )


@dataclass(frozen=True, kw_only=True)
class LoRAConfig:
    """Fine-tuning by low-rank adapters (Hu et al. 2021), merged into the weights that are saved."""

    rank: int = count(
        0, "rank of the adapters; 0: no adapters, all weights are trained", WIDTH, least=0
    )
    alpha: float = setting(16.0, "scale of the adapters: their output times alpha / rank", gt=0)
    dropout: float = fraction(0.0, "dropout probability of the adapters' inputs")
    targets: tuple[str, ...] = setting(
        (),
        "patterns of the names of the adapted layers, such as *.query; if unset, all linear layers "
        "of attention and feed-forward",
    )
    base: Literal["float32", "bfloat16", "int8", "int4"] = setting(
        "float32",
        "dtype of the frozen weights that adapters are added to; int8 and int4 need a quarter and "
        "an eighth of the memory (QLoRA)",
    )

    def __post_init__(self) -> None:
        if self.rank == 0 and self.targets:
            raise ValueError(
                f"lora.targets={','.join(self.targets)}: there are no adapters, since lora.rank is "
                "0; set it, as by --lora.rank 8"
            )


@dataclass(frozen=True, kw_only=True)
class AdaptedRunConfig(FineTuningRunConfig):
    """Configuration of a run that fine-tunes all weights of a model, or low-rank adapters."""

    lora: LoRAConfig = section(LoRAConfig, after="training")


@dataclass(frozen=True, kw_only=True)
class LanguageTuningRunConfig(AdaptedRunConfig):
    """Configuration of a run that fine-tunes the language model `training.start`."""

    model: StartedLanguageModelConfig = section(StartedLanguageModelConfig)

    data_may_decide: ClassVar[tuple[str, ...]] = ("training.steps", "training.length")


@dataclass(frozen=True, kw_only=True)
class TwoStageConfig(DistillationConfig):
    """Distillation of models with outputs: outputs alone, or hidden layers in a first stage.

    The paper compares hidden layers first and outputs afterwards (section 3.2). A student that
    starts with layers of its teacher learns more from outputs alone in the same time. Hidden layers
    and outputs in every step are possible, too: in a 2-layer student of a 6-layer encoder, the
    first gradient of the attention term is 17 times as large as that of the outputs.
    """

    first_stage: float = fraction(
        0.0,
        "fraction of the steps, the first ones, whose loss compares hidden layers only; the "
        "remaining steps compare outputs only. 0: every step compares outputs, and the hidden "
        "layers whose weight is set",
    )


@dataclass(frozen=True, kw_only=True)
class StudentTrainingConfig(LoopConfig):
    """Settings of the training loop of a student."""

    steps: int = setting(2000, "number of updates", gt=0)
    average: float = averaging(0.0)
    batch_size: int = count(32, "batch size, in texts", BATCH)
    teacher: str | None = setting(None, "teacher model: a run or a model (short: --teacher)")
    task: str | None = setting(None, "task of the teacher; if unset, the teacher decides it")
    student: str | None = setting(
        None,
        "model that initialises the student: the student of an earlier run, or a small encoder or "
        "language model with the teacher's tokenizer; if unset, layers of the teacher",
    )


@dataclass(frozen=True, kw_only=True)
class TextStudentTrainingConfig(StudentTrainingConfig):
    """Settings of the training loop of a student that is trained on running text."""

    length: int = count(
        128, "maximum sequence length in tokens, special tokens included", LENGTH, least=8
    )
