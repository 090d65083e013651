"""Configuration of a tagging run, and the recipe."""

from dataclasses import dataclass
from typing import Literal

from headway.base.settings import LENGTH, count, section, setting
from headway.tasks.sections import (
    BalancedConfig,
    ExamplesConfig,
    FineTuningRunConfig,
    LinearHeadConfig,
    ObservationConfig,
)
from headway.training import OptimizerConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class TagDataConfig(ExamplesConfig):
    """The tagged sentences of a run."""

    train: tuple[str, ...] = setting(
        (), "training sentences with tags: CoNLL columns, .conllu, .jsonl or .parquet"
    )
    column: str | None = setting(
        None,
        "column of the tags: its number from 1 (CoNLL), its name (.conllu) or its key (.jsonl, "
        ".parquet); if unset, the last column, upos or tags",
    )
    max_length: int = count(
        128,
        "maximum sequence length in tokens; longer sentences are split into several sequences",
        LENGTH,
        least=8,
    )


@dataclass(frozen=True, kw_only=True)
class TagEvaluationConfig(ObservationConfig):
    """Settings of the evaluation during training."""

    metric: Literal["f1", "accuracy"] = setting(
        "f1", "metric that selects the best model; always accuracy if the tags have no spans"
    )


@dataclass(frozen=True, kw_only=True)
class TagRunConfig(FineTuningRunConfig):
    """Configuration of a tagging run, which fine-tunes the encoder `training.start`."""

    data: TagDataConfig = section(TagDataConfig)
    model: LinearHeadConfig = section(LinearHeadConfig)
    training: BalancedConfig = section(BalancedConfig)
    evaluation: TagEvaluationConfig = section(TagEvaluationConfig)

    data_decide = frozenset({"evaluation.metric"})


def tag() -> TagRunConfig:
    """A tagger of words (named entities, slots, parts of speech) fine-tuned from an encoder.

    --from MODEL names the encoder. A linear head on the first token of every word, all weights
    trained. The learning rate suits encoders of about 20 million parameters; --optimizer.lr 5e-5 is
    the paper's, for 110 million.
    """
    return TagRunConfig(
        recipe="tag",
        optimizer=OptimizerConfig(lr=2e-4, beta2=0.999, eps=1e-8, weight_decay=0.01),
        schedule=ScheduleConfig(kind="linear", final=0.0),
    )
