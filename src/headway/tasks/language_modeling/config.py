"""Configuration of a run of a language model, how it is evaluated, and the recipes."""

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
    """Of language models."""

    weights: tuple[float, ...] = setting(
        (), "shares of training rows from each of train; none: by length"
    )
    tokenizer: str = setting(
        "bpe", "bpe and characters are trained; or the folder of a model, to take its tokenizer"
    )
    vocabulary: int = setting(8000, "pieces of the tokenizer bpe", ge=257, le=VOCABULARY)


@dataclass(frozen=True, kw_only=True)
class LanguageTrainingConfig(BlocksLoopConfig):
    steps: int = setting(3000, "updates", gt=0)
    average: float = averaging(0.0)
    rows: int = setting(16, "rows of a batch", gt=0, le=BATCH)
    length: int = setting(256, "tokens of a row", gt=0, le=LENGTH)
    start: str | None = setting(
        None, "fine-tune this: a run, a model, or a Hugging Face folder (short: --from)"
    )


@dataclass(frozen=True, kw_only=True)
class LanguageEvaluationConfig(ObservationConfig):
    metric: Literal["nats"] = setting("nats", "metric that selects the best model")
    tokens: int = setting(200_000, "held-out tokens looked at each time", gt=0)
    sample: int = setting(
        40, "tokens of a text that is written and shown each time; 0: none", ge=0, le=COPIES
    )
    prompt: str = setting("", "what that text begins with")


@dataclass(frozen=True, kw_only=True)
class LanguageScoring:
    """What can be chosen for the evaluation of a language model."""

    length: int | None = setting(
        None,
        "window length in tokens; if unset, training.length of the run, or the model's context, at "
        "most 1,024",
    )
    tokens: int | None = setting(
        None,
        "maximum number of tokens that are scored; if unset, evaluation.tokens of a run's held-out "
        "text, and all tokens of a file",
        gt=0,
    )
    sample: int = setting(
        0, "number of tokens of a text that is written after the prompt", ge=0, le=COPIES
    )
    prompt: str = setting("", "what that text begins with")


@dataclass(frozen=True, kw_only=True)
class LanguageRunConfig(RunSettings):
    """One training run of a language model, from nothing or from another (`training.start`)."""

    recipe: str = setting("gpt", "name of the recipe this came from")
    data: LanguageDataConfig = section(LanguageDataConfig)
    model: GPTConfig = section(GPTConfig)
    training: LanguageTrainingConfig = section(LanguageTrainingConfig)
    lora: LoRAConfig = section(LoRAConfig, after="training")
    evaluation: LanguageEvaluationConfig = section(LanguageEvaluationConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        """Settings that follow from the data, or from the model it starts from."""
        if self.training.start is None:
            return frozenset({"model.vocabulary"})
        given = {f"model.{name}" for name in GPTConfig.__dataclass_fields__}
        return frozenset(given - {"model.dropout"})


def gpt() -> LanguageRunConfig:
    """A language model on your own text: 6 layers, width 384, today's blocks, 8,000 pieces.

    For some megabytes of text and an hour or two on a laptop. --from MODEL fine-tunes instead, and
    --lora.rank 8 trains small adapters only.
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
    """A small language model to see it work: 4 layers, width 128, 2,000 pieces.

    headway train gpt-tiny --data python-docs: under 3 minutes on 2 cores, nothing to download.
    """
    return LanguageRunConfig(
        recipe="gpt-tiny",
        data=LanguageDataConfig(vocabulary=2000),
        model=GPTConfig(**GPTConfig.sizes["modern-char"]),  # type: ignore[arg-type]
        optimizer=OptimizerConfig(lr=4e-3, beta2=0.95, eps=1e-8, weight_decay=0.1),
        schedule=ScheduleConfig(kind="warmup-stable-decay", warmup=50, final=0.0),
        training=LanguageTrainingConfig(steps=800, rows=8, length=128),
        evaluation=LanguageEvaluationConfig(every=200),
        checkpoint=CheckpointConfig(every=200),
    )


def gpt_shakespeare() -> LanguageRunConfig:
    """The classroom's character model: tiny Shakespeare, from $HEADWAY_DATA/lm.

    nanoGPT's setting for a CPU: 4 layers, 4 heads, width 128, context 64, 12 rows, 2,000 steps;
    about two minutes. --model modern-char for today's blocks. Losses: docs/results.md.
    """
    folder = os.environ.get("HEADWAY_DATA")

    def half(name: str) -> tuple[str, ...]:
        return (str(Path(folder, "lm", f"tinyshakespeare.{name}.txt.gz")),) if folder else ()

    return LanguageRunConfig(
        recipe="gpt-shakespeare",
        data=LanguageDataConfig(train=half("train"), valid=half("valid"), tokenizer="characters"),
        model=GPTConfig(**GPTConfig.sizes["char"]),  # type: ignore[arg-type]
        optimizer=OptimizerConfig(lr=2e-3, beta2=0.99, eps=1e-8, weight_decay=0.1),
        schedule=ScheduleConfig(kind="cosine", warmup=100, final=0.1),
        training=LanguageTrainingConfig(steps=2000, rows=12, length=64),
        evaluation=LanguageEvaluationConfig(every=500),
        checkpoint=CheckpointConfig(every=500),
    )
