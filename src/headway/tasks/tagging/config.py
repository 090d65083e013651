"""Configuration of a tagging run, and the recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway.settings import LENGTH, section, setting
from headway.tasks.sections import (
    CheckpointConfig,
    ObservationConfig,
    RowsConfig,
    RunSettings,
    StartedModelConfig,
)
from headway.training import OptimizerConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class TagDataConfig:
    train: tuple[str, ...] = setting(
        (), "sentences with tags: CoNLL columns, .conllu or .jsonl, plain or .gz"
    )
    valid: tuple[str, ...] = setting(
        (), "held-out sentences with tags; none keeps some of train from training"
    )
    held_out: float = setting(0.1, "share of the sentences kept so", gt=0, lt=1)
    column: str | None = setting(
        None,
        "which column is the tag, from 1 (of .conllu its name, of .jsonl a key); none: the last "
        "(upos, tags)",
    )
    max_length: int = setting(
        128,
        "longer sentences (in pieces) are read in several parts, none lost",
        ge=8,
        le=LENGTH,
    )


@dataclass(frozen=True, kw_only=True)
class TaggerModelConfig(StartedModelConfig):
    """The model is the one that it starts from, with a matrix for the tags on top."""

    head_dropout: float = setting(
        0.1, "share of each word's vector dropped while training", ge=0, lt=1
    )


@dataclass(frozen=True, kw_only=True)
class TagTrainingConfig(RowsConfig):
    balance: bool = setting(
        False, "rare tags count more: each tag as much as any other, O and names alike"
    )


@dataclass(frozen=True, kw_only=True)
class TagEvaluationConfig(ObservationConfig):
    metric: Literal["f1", "accuracy"] = setting(
        "f1", "what the kept model is best by; accuracy where the tags mark no spans"
    )


@dataclass(frozen=True, kw_only=True)
class TagRunConfig(RunSettings):
    """One training run of a tagger, from an encoder (`training.start`)."""

    recipe: str = setting("tag", "name of the recipe this came from")
    data: TagDataConfig = section(TagDataConfig)
    model: TaggerModelConfig = section(TaggerModelConfig)
    training: TagTrainingConfig = section(TagTrainingConfig)
    evaluation: TagEvaluationConfig = section(TagEvaluationConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        """Settings that follow from the examples."""
        return super().decided_by_data | {"evaluation.metric"}


def tag() -> TagRunConfig:
    """A tagger of words (names, slots, parts of speech) from an encoder and tagged sentences
    (--from MODEL).

    A linear head on the first piece of every word, all weights trained. The rate suits encoders of
    some 20 million; --optimizer.lr 5e-5 is the paper's, for one of 110 million.
    """
    return TagRunConfig(
        recipe="tag",
        optimizer=OptimizerConfig(lr=2e-4, beta2=0.999, eps=1e-8, weight_decay=0.01),
        schedule=ScheduleConfig(kind="linear", warmup=50, final=0.0),
        evaluation=TagEvaluationConfig(every=100),
        checkpoint=CheckpointConfig(every=100),
    )
