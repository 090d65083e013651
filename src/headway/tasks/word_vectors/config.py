"""Configuration of a run of word vectors, and the recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway.models import WordsConfig
from headway.settings import BATCH, COPIES, LENGTH, VOCABULARY, section, setting
from headway.tasks.sections import (
    CheckpointConfig,
    LoopConfig,
    ObservationConfig,
    RunSettings,
    averaging,
)
from headway.training import OptimizerConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """Plain text, and which of its words are learned."""

    train: tuple[str, ...] = setting(
        (), "text files, one sentence or paragraph a line: .txt or .tsv, plain or .gz"
    )
    column: str | None = setting(
        None, "of .tsv files: name or number of the column that holds the text"
    )
    vocabulary: int = setting(30_000, "most frequent words kept", gt=0, le=VOCABULARY)
    min_count: int = setting(5, "words that stand less often are left out", gt=0)
    held_out: float = setting(
        0.02, "share of the lines kept from training, to choose the best model by", ge=0, lt=1
    )


@dataclass(frozen=True, kw_only=True)
class WordsTrainingConfig(LoopConfig):
    steps: int = setting(3000, "updates", gt=0)
    average: float = averaging(0.0)
    rows: int = setting(4096, "words visited for one batch", gt=0, le=BATCH)
    window: int = setting(5, "neighbours looked at on each side, 1 to this many", gt=0, le=LENGTH)
    negatives: int = setting(
        5, "weight of the noise: so many sampled words for a neighbour", gt=0, le=COPIES
    )
    subsample: float = setting(
        1e-3, "words more frequent than this share are visited less often; 0: all always", ge=0
    )


@dataclass(frozen=True, kw_only=True)
class WordsEvaluationConfig(ObservationConfig):
    metric: Literal["loss"] = setting("loss", "metric that selects the best model")


@dataclass(frozen=True, kw_only=True)
class WordsRunConfig(RunSettings):
    """One training run of word vectors."""

    recipe: str = setting("words", "name of the recipe this came from")
    data: TextConfig = section(TextConfig)
    model: WordsConfig = section(WordsConfig)
    training: WordsTrainingConfig = section(WordsTrainingConfig)
    evaluation: WordsEvaluationConfig = section(WordsEvaluationConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        """Settings that follow from the text."""
        return frozenset({"model.vocabulary"})

    @property
    def name(self) -> str:
        """What the run is called unless the user names it: its recipe and kind."""
        return f"{self.recipe}-{self.model.kind}"


def words() -> WordsRunConfig:
    """Word vectors from plain text: skip-gram with negative sampling, 100 numbers a word.

    About a minute and a half for 3,000 steps on one core, whatever the length of the text (370,000
    words a second). Neighbours and analogies to expect: docs/results.md. A text of a few lines
    wants --data.min-count 1 --training.subsample 0.
    """
    return WordsRunConfig(
        recipe="words",
        optimizer=OptimizerConfig(lr=3e-3),
        schedule=ScheduleConfig(kind="cosine", warmup=100, final=0.05),
        evaluation=WordsEvaluationConfig(every=500),
        checkpoint=CheckpointConfig(every=1000),
    )
