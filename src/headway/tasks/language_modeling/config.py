"""Configuration of a language-modelling run, options of its evaluation, and the recipes."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from headway.base.settings import (
    BATCH,
    COPIES,
    LENGTH,
    VOCABULARY,
    count,
    flat,
    section,
    setting,
    with_default,
)
from headway.models import GPTConfig
from headway.tasks.sections import (
    BlocksLoopConfig,
    LoRAConfig,
    ObservationConfig,
    RunSettings,
    TextDataConfig,
    averaging,
    pre_trained,
    unset_settings,
)
from headway.training import AutomaticOptimizerConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class WeightedTextConfig(TextDataConfig):
    """The training text of a language model, also of a student with its teacher's tokenizer."""

    weights: tuple[float, ...] = setting(
        (),
        "sampling weights of the texts of train: the fraction of sequences from each; if unset, "
        "in proportion to their lengths",
    )


@dataclass(frozen=True, kw_only=True)
class LanguageDataConfig(WeightedTextConfig):
    """The training text of a language model, and its tokenizer."""

    tokenizer: str = setting(
        "bpe",
        "tokenizer: bpe, unigram or characters, trained on the text, or the folder of a model "
        "whose tokenizer is used",
    )
    vocabulary: int = count(
        4000, "vocabulary size of the tokenizers bpe and unigram", VOCABULARY, least=257
    )


@dataclass(frozen=True, kw_only=True)
class LanguageTrainingConfig(BlocksLoopConfig):
    """Settings of the training loop of a language model."""

    steps: int = with_default(BlocksLoopConfig, "steps", 3000)
    average: float = averaging(0.0)
    batch_size: int | None = count(
        None,
        "batch size, in sequences; if unset, 16, or 32 to 64 for a large model from scratch on an "
        "NVIDIA GPU",
        BATCH,
    )
    length: int | None = count(
        None,
        "sequence length in tokens; if unset, 256, or up to 1,024 for a large model from scratch "
        "on an NVIDIA GPU",
        LENGTH,
    )
    start: str | None = pre_trained("pre-trained language model to fine-tune")


@dataclass(frozen=True, kw_only=True)
class LanguageEvaluationConfig(ObservationConfig):
    """Settings of the evaluation during training."""

    metric: Literal["nats"] = setting("nats", "metric that selects the best model")
    tokens: int = setting(
        200_000, "maximum number of held-out tokens that are scored at each evaluation", gt=0
    )
    sample: int = count(
        40,
        "number of tokens of a text that is generated and shown at each evaluation; 0: none",
        COPIES,
        least=0,
    )
    prompt: str = setting("", "prompt of that text")


@dataclass(frozen=True, kw_only=True)
class LanguageScoring:
    """Options of the evaluation of a language model."""

    length: int | None = setting(
        None,
        "window length in tokens; if unset, training.length of the run, or the model's context "
        "length, at most 1,024",
    )
    tokens: int | None = setting(
        None,
        "maximum number of tokens that are scored; if unset, evaluation.tokens of a run's held-out "
        "text, and all tokens of a file",
        gt=0,
    )
    sample: int = count(
        0, "number of tokens of a text that is generated from the prompt; 0: none", COPIES, least=0
    )
    prompt: str = with_default(LanguageEvaluationConfig, "prompt", "")


@dataclass(frozen=True, kw_only=True)
class LanguageRunConfig(RunSettings):
    """Configuration of a language-modelling run, from scratch or from `training.start`."""

    recipe: str = setting("gpt", "name of the recipe that these settings extend")
    data: LanguageDataConfig = section(LanguageDataConfig)
    model: GPTConfig = section(GPTConfig)
    optimizer: AutomaticOptimizerConfig = section(AutomaticOptimizerConfig)
    training: LanguageTrainingConfig = section(LanguageTrainingConfig)
    lora: LoRAConfig = section(LoRAConfig, after="training")
    evaluation: LanguageEvaluationConfig = section(LanguageEvaluationConfig)

    machine_may_decide = ("training.batch_size", "training.length")

    @property
    def decided_by_data(self) -> frozenset[str]:
        optimizer = unset_settings(self, "optimizer.kind", "optimizer.lr")
        if self.training.start is None:
            is_longer = (self.training.length or SEQUENCES[1]) > self.model.max_length
            return optimizer | {"model.vocabulary", *(["model.max_length"] if is_longer else [])}
        shape = {f"model.{name}" for name in flat(self.model)}
        return optimizer | shape - {"model.dropout"}


SEQUENCES = 16, 256
"""Number of sequences of a batch, and of tokens of each."""

LARGE = ((800e6, 64), (50e6, 32))
"""From how many parameters of the blocks on a batch has how many sequences on a GPU."""

LARGE_LENGTH = 1024
"""Maximum number of tokens of such a sequence; at most the context length of the model."""


def batch_on(device: str, config: LanguageRunConfig) -> dict[str, int]:
    """Return the batch size and the sequence length of a run, by dotted key; set values stay.

    A large model on an NVIDIA GPU gets 32,768 tokens an update, one of 800 M parameters 65,536: a
    sixteenth of GPT-3's batches, which double about there (Brown et al. 2020, table 2.1). With
    4,096 tokens GPT-2's smallest model uses 19 % of an H100's matrix rate. With GPT-3's 0.5 M
    tokens a step of it would take 1.7 seconds, so that ten minutes would buy 350 updates. At the
    losses of the first hours, larger batches would also learn little more from an update: at 5 nats
    the critical batch size is about 100,000 tokens (Kaplan et al. 2020, equation 1.4).

    All others have the 4,096 tokens with which Headway's results were measured. Small models are
    for texts of a few megabytes, which larger batches would repeat too often; on a CPU a batch of
    twice the size takes twice the time.
    """
    training, model = config.training, config.model
    sequences, length = SEQUENCES
    if device == "cuda" and training.start is None:
        parameters = 12 * model.num_layers * model.model_dim**2
        large = next((count for least, count in LARGE if parameters >= least), None)
        if large is not None:
            sequences, length = large, min(LARGE_LENGTH, model.max_length)
    return {
        "training.batch_size": training.batch_size or sequences,
        "training.length": training.length or length,
    }


_OPTIMIZER = AutomaticOptimizerConfig(beta2=0.95, eps=1e-8, weight_decay=0.1)
_SCHEDULE = ScheduleConfig(kind="warmup-stable-decay", warmup=0.04, decay=0.5, final=0.0)


def gpt() -> LanguageRunConfig:
    """A language model (GPT) trained on your own text: 4 layers, width 256, vocabulary 4,000.

    Blocks as in recent models (modern-micro), trained with Muon. For a few megabytes of text, and
    minutes to an hour on a laptop; --model modern-mini for more. --from MODEL fine-tunes a model
    instead, and --lora.rank 8 trains low-rank adapters only.
    """
    return LanguageRunConfig(
        recipe="gpt",
        model=GPTConfig(**GPTConfig.sizes["modern-micro"]),  # type: ignore[arg-type]
        optimizer=_OPTIMIZER,
        schedule=_SCHEDULE,
        training=LanguageTrainingConfig(sizes=("modern-char",)),
    )


def gpt_tiny() -> LanguageRunConfig:
    """A small language model for a first try: 4 layers, width 128, vocabulary 2,000.

    headway train gpt-tiny --data python-docs: under 3 minutes on 2 cores, nothing to download.
    """
    return LanguageRunConfig(
        recipe="gpt-tiny",
        data=LanguageDataConfig(vocabulary=2000),
        model=GPTConfig(**GPTConfig.sizes["modern-char"]),  # type: ignore[arg-type]
        optimizer=replace(_OPTIMIZER, kind="adamw", lr=4e-3),
        schedule=_SCHEDULE,
        training=LanguageTrainingConfig(steps=800, batch_size=8, length=128),
    )


def gpt_shakespeare() -> LanguageRunConfig:
    """A character-level language model of tiny Shakespeare, from $HEADWAY_DATA/lm.

    4 layers, 4 heads and width 128, as in nanoGPT's setting for a CPU, but with the blocks of
    recent models (modern-char), a context length of 128 and Muon; about three minutes. --model
    char for GPT-2's blocks. Losses: docs/results.md.
    """
    folder = os.environ.get("HEADWAY_DATA")

    def split(name: str) -> tuple[str, ...]:
        return (str(Path(folder, "lm", f"tinyshakespeare.{name}.txt.gz")),) if folder else ()

    return LanguageRunConfig(
        recipe="gpt-shakespeare",
        data=LanguageDataConfig(train=split("train"), valid=split("valid"), tokenizer="characters"),
        model=GPTConfig(**GPTConfig.sizes["modern-char"]),  # type: ignore[arg-type]
        optimizer=_OPTIMIZER,
        schedule=_SCHEDULE,
        training=LanguageTrainingConfig(steps=2000, length=128),
    )
