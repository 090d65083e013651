"""Configuration of a sentence-embedding run, and the recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway.settings import BATCH, LENGTH, section, setting
from headway.tasks.sections import (
    CheckpointConfig,
    ObservationConfig,
    RowsConfig,
    RunSettings,
    StartedModelConfig,
    left_open,
)
from headway.training import OptimizerConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class EmbedDataConfig:
    train: tuple[str, ...] = setting(
        (), "pairs of similar texts: .tsv or .csv with a header, or .jsonl, plain or .gz"
    )
    valid: tuple[str, ...] = setting((), "held-out pairs; none keeps some of train from training")
    held_out: float = setting(0.1, "share of the pairs kept so", gt=0, lt=1)
    first: str = setting("first", "name of the column (or key) that holds the first text")
    second: str = setting("second", "name of the column (or key) that holds the second text")
    score: str = setting(
        "score", "name of the column (or key) that says how similar they are, if there is one"
    )
    max_length: int = setting(128, "longer texts (in pieces) are cut at their end", ge=3, le=LENGTH)


@dataclass(frozen=True, kw_only=True)
class EmbedTrainingConfig(RowsConfig):
    rows: int = setting(32, "pairs of a batch: each is held against all others", gt=1, le=BATCH)
    scale: float = setting(20.0, "by what cosines are multiplied before the softmax", gt=0)
    symmetric: bool = setting(False, "find the first text by the second as well")


@dataclass(frozen=True, kw_only=True)
class EmbedEvaluationConfig(ObservationConfig):
    metric: Literal["spearman", "reciprocal_rank"] = setting(
        "reciprocal_rank",
        "what the kept model is best by: spearman where held-out pairs have "
        "scores, else reciprocal_rank",
    )
    pairs: int = setting(1000, "held-out pairs evaluated each time, the first ones", gt=1)


@dataclass(frozen=True, kw_only=True)
class EmbedScoring:
    """How an evaluation is made."""

    pairs: int | None = setting(
        None,
        "Maximum number of pairs, the first ones; if unset, 5,000 pairs without scores, of which "
        "each is compared with all others, or all pairs with scores.",
        gt=1,
    )


@dataclass(frozen=True, kw_only=True)
class EmbedRunConfig(RunSettings):
    """One training run of a sentence encoder, from an encoder (`training.start`)."""

    recipe: str = setting("embed", "name of the recipe this came from")
    data: EmbedDataConfig = section(EmbedDataConfig)
    model: StartedModelConfig = section(StartedModelConfig)
    training: EmbedTrainingConfig = section(EmbedTrainingConfig)
    evaluation: EmbedEvaluationConfig = section(EmbedEvaluationConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        """Settings that follow from the examples."""
        return left_open(self, "training.steps") | {"evaluation.metric"}


def embed() -> EmbedRunConfig:
    """A sentence encoder from an encoder and pairs of similar texts (--from ENCODER).

    Each first text learns to find its second among those of the batch; where pairs have scores,
    cosines learn to be the scores. The rate suits an encoder that was pre-trained by others.
    """
    return EmbedRunConfig(
        recipe="embed",
        optimizer=OptimizerConfig(lr=2e-5, beta2=0.999, eps=1e-8, weight_decay=0.01),
        schedule=ScheduleConfig(kind="cosine", warmup=50, final=0.0),
        evaluation=EmbedEvaluationConfig(every=100),
        checkpoint=CheckpointConfig(every=100),
    )
