"""Configuration of a language-modelling run, options of its evaluation, and the recipes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headway.models import GPTConfig
from headway.settings import BATCH, COPIES, LENGTH, VOCABULARY, section, setting
from headway.tasks.sections import (
    BlocksLoopConfig,
    CheckpointConfig,
    LoRAConfig,
    ObservationConfig,
    RunSettings,
    TextDataConfig,
    averaging,
)
from headway.training import OptimizerConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class LanguageDataConfig(TextDataConfig):
    """The training text of a language model, and its tokenizer."""

    weights: tuple[float, ...] = setting(
        (),
        "sampling weights of the texts of train: the fraction of sequences from each; if unset, "
        "in proportion to their lengths",
    )
    tokenizer: str = setting(
        "bpe",
        "tokenizer: bpe, unigram or characters, trained on the text, or the folder of a model "
        "whose tokenizer is used",
    )
    vocabulary: int = setting(
        8000, "vocabulary size of the tokenizers bpe and unigram", ge=257, le=VOCABULARY
    )


@dataclass(frozen=True, kw_only=True)
class LanguageTrainingConfig(BlocksLoopConfig):
    """Settings of the training loop of a language model."""

    steps: int = setting(3000, "number of updates", gt=0)
    average: float = averaging(0.0)
    batch_size: int = setting(16, "batch size, in sequences", gt=0, le=BATCH)
    length: int = setting(256, "sequence length in tokens", gt=0, le=LENGTH)
    start: str | None = setting(
        None,
        "pre-trained language model to fine-tune: a run, a model or a Hugging Face folder (short: "
        "--from); if unset, training from scratch",
    )


@dataclass(frozen=True, kw_only=True)
class LanguageEvaluationConfig(ObservationConfig):
    """Settings of the evaluation during training."""

    metric: Literal["nats"] = setting("nats", "metric that selects the best model")
    tokens: int = setting(
        200_000, "maximum number of held-out tokens that are scored at each evaluation", gt=0
    )
    sample: int = setting(
        40,
        "number of tokens of a text that is generated and shown at each evaluation; 0: none",
        ge=0,
        le=COPIES,
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
    sample: int = setting(
        0, "number of tokens of a text that is generated from the prompt; 0: none", ge=0, le=COPIES
    )
    prompt: str = setting("", "prompt of that text")


@dataclass(frozen=True, kw_only=True)
class LanguageRunConfig(RunSettings):
    """Configuration of a language-modelling run, from scratch or from `training.start`."""

    recipe: str = setting("gpt", "name of the recipe that these settings extend")
    data: LanguageDataConfig = section(LanguageDataConfig)
    model: GPTConfig = section(GPTConfig)
    training: LanguageTrainingConfig = section(LanguageTrainingConfig)
    lora: LoRAConfig = section(LoRAConfig, after="training")
    evaluation: LanguageEvaluationConfig = section(LanguageEvaluationConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        """The dotted keys of the settings that the data or the pre-trained model decide."""
        if self.training.start is None:
            is_longer = self.training.length > self.model.max_length
            return frozenset({"model.vocabulary"} | ({"model.max_length"} if is_longer else set()))
        shape = {f"model.{name}" for name in GPTConfig.__dataclass_fields__}
        return frozenset(shape - {"model.dropout"})


def gpt() -> LanguageRunConfig:
    """A language model (GPT) trained on your own text: 6 layers, width 384, vocabulary 8,000.

    Blocks as in recent models (modern-mini). For a few megabytes of text and an hour or two on a
    laptop. --from MODEL fine-tunes a model instead, and --lora.rank 8 trains low-rank adapters
    only.
    """
    return LanguageRunConfig(
        recipe="gpt",
        model=GPTConfig(**GPTConfig.sizes["modern-mini"]),  # type: ignore[arg-type]
        optimizer=OptimizerConfig(lr=2e-3, beta2=0.95, eps=1e-8, weight_decay=0.1),
        schedule=ScheduleConfig(kind="warmup-stable-decay", warmup=100, final=0.0),
        evaluation=LanguageEvaluationConfig(every=250),
        checkpoint=CheckpointConfig(every=250),
    )


def gpt_tiny() -> LanguageRunConfig:
    """A small language model for a first try: 4 layers, width 128, vocabulary 2,000.

    headway train gpt-tiny --data python-docs: under 3 minutes on 2 cores, nothing to download.
    """
    return LanguageRunConfig(
        recipe="gpt-tiny",
        data=LanguageDataConfig(vocabulary=2000),
        model=GPTConfig(**GPTConfig.sizes["modern-char"]),  # type: ignore[arg-type]
        optimizer=OptimizerConfig(lr=4e-3, beta2=0.95, eps=1e-8, weight_decay=0.1),
        schedule=ScheduleConfig(kind="warmup-stable-decay", warmup=50, final=0.0),
        training=LanguageTrainingConfig(steps=800, batch_size=8, length=128),
        evaluation=LanguageEvaluationConfig(every=200),
        checkpoint=CheckpointConfig(every=200),
    )


def gpt_shakespeare() -> LanguageRunConfig:
    """A character-level language model of tiny Shakespeare, from $HEADWAY_DATA/lm.

    nanoGPT's settings for a CPU: 4 layers, 4 heads, width 128, context length 64, batch size 12,
    2,000 steps; about two minutes. --model modern-char for blocks as in recent models. Losses:
    docs/results.md.
    """
    folder = os.environ.get("HEADWAY_DATA")

    def split(name: str) -> tuple[str, ...]:
        return (str(Path(folder, "lm", f"tinyshakespeare.{name}.txt.gz")),) if folder else ()

    return LanguageRunConfig(
        recipe="gpt-shakespeare",
        data=LanguageDataConfig(train=split("train"), valid=split("valid"), tokenizer="characters"),
        model=GPTConfig(**GPTConfig.sizes["char"]),  # type: ignore[arg-type]
        optimizer=OptimizerConfig(lr=2e-3, beta2=0.99, eps=1e-8, weight_decay=0.1),
        schedule=ScheduleConfig(kind="cosine", warmup=100, final=0.1),
        training=LanguageTrainingConfig(steps=2000, batch_size=12, length=64),
        evaluation=LanguageEvaluationConfig(every=500),
        checkpoint=CheckpointConfig(every=500),
    )
