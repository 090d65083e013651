"""Configuration of a sentence-embedding run, and the recipe."""

from dataclasses import dataclass
from typing import Literal

from headway.base.settings import BATCH, LENGTH, count, section, setting, with_default
from headway.tasks.sections import (
    BatchSizeConfig,
    ExamplesConfig,
    FineTuningRunConfig,
    ObservationConfig,
    desired_updates,
)
from headway.training import OptimizerConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class EmbedDataConfig(ExamplesConfig):
    """The pairs of similar texts of a run."""

    train: tuple[str, ...] = setting(
        (), "training pairs of similar texts: .tsv or .csv with a header, .jsonl, .json or .parquet"
    )
    first: str = setting("first", "name of the column (or key) that holds the first text")
    second: str = setting("second", "name of the column (or key) that holds the second text")
    score: str = setting(
        "score", "name of the column (or key) that holds the similarity of the pair; optional"
    )
    max_length: int = count(
        128,
        "maximum sequence length in tokens; longer texts are truncated at the end",
        LENGTH,
        least=3,
    )


@dataclass(frozen=True, kw_only=True)
class EmbedTrainingConfig(BatchSizeConfig):
    """Settings of the training loop of a sentence encoder."""

    updates: int = desired_updates(0)  # a smaller batch has fewer negatives
    batch_size: int = setting(
        32,
        "batch size, in pairs; the other pairs of a batch are in-batch negatives",
        gt=1,
        le=BATCH,
    )
    scale: float = setting(
        20.0, "inverse temperature: factor of the cosines before the softmax", gt=0
    )
    symmetric: bool = setting(
        False, "symmetric loss: retrieve the first text by the second as well"
    )


@dataclass(frozen=True, kw_only=True)
class EmbedScoring:
    """Options of the evaluation of a sentence encoder."""

    pairs: int | None = setting(
        None,
        "maximum number of pairs, the first ones; if unset, all pairs that have scores, or 5,000 "
        "pairs without scores, for which every text is compared with all others",
        gt=1,
    )


@dataclass(frozen=True, kw_only=True)
class EmbedEvaluationConfig(EmbedScoring, ObservationConfig):
    """Settings of the evaluation during training."""

    metric: Literal["spearman", "reciprocal_rank"] = setting(
        "reciprocal_rank",
        "metric that selects the best model: spearman if the held-out pairs have scores, else "
        "reciprocal_rank; the data decide",
    )
    pairs: int = with_default(EmbedScoring, "pairs", 1000)


@dataclass(frozen=True, kw_only=True)
class EmbedRunConfig(FineTuningRunConfig):
    """Configuration of a sentence-embedding run, which fine-tunes the encoder `training.start`."""

    data: EmbedDataConfig = section(EmbedDataConfig)
    training: EmbedTrainingConfig = section(EmbedTrainingConfig)
    evaluation: EmbedEvaluationConfig = section(EmbedEvaluationConfig)

    data_decide = frozenset({"evaluation.metric"})


def embed() -> EmbedRunConfig:
    """A sentence encoder fine-tuned on pairs of similar texts (--from ENCODER).

    The contrastive loss ranks the second text of a pair above those of the other pairs in the batch
    (in-batch negatives); if the pairs have scores, the loss fits the cosines to the scores. The
    learning rate suits published pre-trained encoders.
    """
    return EmbedRunConfig(
        recipe="embed",
        optimizer=OptimizerConfig(lr=2e-5, beta2=0.999, eps=1e-8, weight_decay=0.01),
        schedule=ScheduleConfig(final=0.0),
    )
