"""Configuration of a word-vector run, and the recipe."""

from dataclasses import dataclass
from typing import Literal

from headway.base.settings import (
    BATCH,
    COPIES,
    LENGTH,
    VOCABULARY,
    count,
    fraction,
    section,
    setting,
    with_default,
)
from headway.models import WordsConfig
from headway.tasks.sections import (
    LoopConfig,
    ObservationConfig,
    RunSettings,
    TextDataConfig,
    averaging,
    desired_updates,
)
from headway.training import OptimizerConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """Plain text, and its vocabulary."""

    train: tuple[str, ...] = setting(
        (),
        "training text: files with one sentence or paragraph per line (.txt), or a column of .csv, "
        ".tsv, .jsonl, .json or .parquet, plain or .gz",
    )
    text: str | None = with_default(TextDataConfig, "text", None)
    vocabulary: int = count(30_000, "maximum vocabulary size: the most frequent words", VOCABULARY)
    min_count: int = setting(
        5, "minimum count of a word of the vocabulary; rarer words are left out", gt=0
    )
    held_out: float = fraction(0.02, "fraction of the lines that is held out for validation")


@dataclass(frozen=True, kw_only=True)
class WordsTrainingConfig(LoopConfig):
    """Settings of the training loop of word vectors."""

    steps: int = setting(3000, "number of updates", gt=0)
    average: float = averaging(0.0)
    updates: int = desired_updates(0)  # a batch takes less than 50 ms
    batch_size: int = count(4096, "batch size, in centre words", BATCH)
    window: int = count(
        5,
        "maximum context window: words on each side; the width is sampled between 1 and this",
        LENGTH,
    )
    negatives: int = count(
        5, "number of negative samples per context word: their weight in the loss", COPIES
    )
    subsample: float = setting(
        1e-3,
        "subsampling threshold: words with a higher relative frequency are skipped at random; 0: "
        "no subsampling",
        ge=0,
    )


@dataclass(frozen=True, kw_only=True)
class WordsEvaluationConfig(ObservationConfig):
    """Settings of the evaluation during training."""

    metric: Literal["loss"] = setting("loss", "metric that selects the best model")


@dataclass(frozen=True, kw_only=True)
class WordsRunConfig(RunSettings):
    """Configuration of a word-vector run."""

    data: TextConfig = section(TextConfig)
    model: WordsConfig = section(WordsConfig)
    training: WordsTrainingConfig = section(WordsTrainingConfig)
    evaluation: WordsEvaluationConfig = section(WordsEvaluationConfig)

    data_decide = frozenset({"model.vocabulary"})

    @property
    def name(self) -> str:
        """The default name of the run: its recipe and the kind of model."""
        return f"{self.recipe}-{self.model.kind}"


def words() -> WordsRunConfig:
    """Word vectors from plain text: skip-gram with negative sampling, 100 dimensions.

    About a minute and a half for 3,000 steps on one core, whatever the length of the text (370,000
    words per second). Neighbours and analogies to expect: docs/log/results.md. A text of a few
    lines needs --data.min-count 1 --training.subsample 0.
    """
    return WordsRunConfig(
        recipe="words",
        optimizer=OptimizerConfig(lr=3e-3),
        schedule=ScheduleConfig(final=0.05),
    )
