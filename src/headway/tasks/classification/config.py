"""Configuration of a classification run, and the recipes: classes, pairs and numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from headway.data.formats import Columns
from headway.settings import BATCH, LENGTH, section, setting
from headway.tasks.sections import (
    CheckpointConfig,
    LoRAConfig,
    ObservationConfig,
    RowsConfig,
    RunSettings,
    StartedModelConfig,
    left_open,
)
from headway.training import OptimizerConfig, ScheduleConfig

SUITED = "none: what suits the model it starts from"

METRICS = {
    "class": ("accuracy", "macro_f1", "matthews", "loss"),
    "number": ("pearson", "spearman", "mse"),
}
"""What labels are -> what the kept model can be best by."""


@dataclass(frozen=True, kw_only=True)
class ClassifyDataConfig:
    train: tuple[str, ...] = setting(
        (), "labelled texts: .tsv or .csv with a header, or .jsonl, plain or .gz"
    )
    valid: tuple[str, ...] = setting(
        (), "held-out texts with labels; none keeps some of train from training"
    )
    held_out: float = setting(0.1, "share of the texts kept so", gt=0, lt=1)
    text: str = setting("text", "name of the column (or key) that holds the text")
    second: str | None = setting(
        None, "name of the column of a second text, if pairs of texts are judged"
    )
    label: str = setting("label", "name of the column (or key) that says what it is")
    kind: Literal["class", "number"] = setting("class", "what labels are: names, or numbers")
    max_length: int = setting(
        256,
        "longer texts (in tokens, of pairs together) are cut at their end",
        ge=4,
        le=LENGTH,
    )

    @property
    def columns(self) -> Columns:
        """What is read of a table."""
        return Columns(self.text, self.label, self.second)


@dataclass(frozen=True, kw_only=True)
class ClassifierModelConfig(StartedModelConfig):
    """The model is the one that it starts from, with a matrix for the classes on top."""

    head_dropout: float = setting(
        0.1, "share of the text's vector dropped while training", ge=0, lt=1
    )
    pooling: Literal["first", "mean"] = setting(
        "mean", "of an encoder, a text's vector: the pooler's of [CLS], or the mean of all tokens"
    )


@dataclass(frozen=True, kw_only=True)
class ClassifyOptimizerConfig(OptimizerConfig):
    # a job fills in what is None before the loop reads it
    lr: float | None = setting(  # type: ignore[assignment]
        None, f"highest learning rate of the schedule; {SUITED}", gt=0
    )


@dataclass(frozen=True, kw_only=True)
class ClassifyScheduleConfig(ScheduleConfig):
    warmup: int | None = setting(  # type: ignore[assignment]
        None, f"steps over which the learning rate rises from 0; {SUITED}", ge=0
    )


@dataclass(frozen=True, kw_only=True)
class ClassifyTrainingConfig(RowsConfig):
    rows: int = setting(32, "texts of a batch", gt=0, le=BATCH)
    balance: bool = setting(False, "rare classes count more: each class as much as any other")
    auxiliary: float = setting(
        0.5, "of a language model, weight of its own loss beside that of the labels", ge=0
    )
    start: str | None = setting(
        None, "the language model or encoder that is fine-tuned: a run or a model (short: --from)"
    )


@dataclass(frozen=True, kw_only=True)
class ClassifyEvaluationConfig(ObservationConfig):
    metric: (
        Literal[
            "accuracy",
            "macro_f1",
            "matthews",
            "loss",
            "pearson",
            "spearman",
            "mse",
        ]
        | None
    ) = setting(None, "what the kept model is best by; none: accuracy, of numbers pearson")


@dataclass(frozen=True, kw_only=True)
class ClassifyRunConfig(RunSettings):
    """One training run of a classifier, from a language model or encoder (`training.start`)."""

    recipe: str = setting("classify", "name of the recipe this came from")
    data: ClassifyDataConfig = section(ClassifyDataConfig)
    model: ClassifierModelConfig = section(ClassifierModelConfig)
    optimizer: ClassifyOptimizerConfig = section(ClassifyOptimizerConfig)
    schedule: ClassifyScheduleConfig = section(ClassifyScheduleConfig)
    training: ClassifyTrainingConfig = section(ClassifyTrainingConfig)
    lora: LoRAConfig = section(LoRAConfig, after="training")
    evaluation: ClassifyEvaluationConfig = section(ClassifyEvaluationConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        """Settings that follow from the texts, or from the model it starts from."""
        keys = "optimizer.lr", "schedule.warmup", "training.steps", "evaluation.metric"
        return left_open(self, *keys)


def classify() -> ClassifyRunConfig:
    """A classifier from a language model or an encoder and labelled texts (--from MODEL).

    Of a language model GPT-1's way: a linear head on the last token, all weights trained, its own
    loss beside it, 600 steps; --optimizer.lr 6.25e-5 is the paper's, for one of 117 million. Of an
    encoder BERT's way: a head on the text's vector, 3 passes over the texts. Costs and scores:
    docs/results.md. --data.second COLUMN judges pairs, --data.kind number learns numbers.
    """
    return ClassifyRunConfig(
        recipe="classify",
        optimizer=ClassifyOptimizerConfig(beta2=0.99, eps=1e-8, weight_decay=0.01),
        schedule=ClassifyScheduleConfig(kind="cosine", final=0.0),
        evaluation=ClassifyEvaluationConfig(every=100),
        checkpoint=CheckpointConfig(every=100),
    )


def pairs() -> ClassifyRunConfig:
    """A classifier of pairs of texts (inference, paraphrase): columns sentence1, sentence2, label.

    As classify, which it is; --data.text, --data.second and --data.label name other columns.
    """
    data = ClassifyDataConfig(text="sentence1", second="sentence2")
    return replace(classify(), recipe="pairs", data=data)


def regress() -> ClassifyRunConfig:
    """Numbers of texts, from texts with a column score: as classify, by the squared error.

    --data.text sentence1 --data.second sentence2 for pairs (how alike two texts are).
    """
    data = ClassifyDataConfig(label="score", kind="number")
    return replace(classify(), recipe="regress", data=data)
