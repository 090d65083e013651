"""Configuration of a classification run, and the recipes: classes, text pairs and regression."""

from dataclasses import dataclass, replace
from typing import Literal

from headway.base.settings import BATCH, COPIES, LENGTH, count, section, setting
from headway.tasks.classification.label_files import Columns
from headway.tasks.sections import (
    AdaptedRunConfig,
    BalancedConfig,
    ExamplesConfig,
    LinearHeadConfig,
    ObservationConfig,
)
from headway.training import OptimizerConfig, ScheduleConfig

IF_UNSET = "if unset, a value that suits the pre-trained model"

METRICS = {
    "class": ("accuracy", "macro_f1", "matthews", "loss"),
    "number": ("pearson", "spearman", "mse"),
}
"""Kind of the labels -> metrics that can select the best model."""


@dataclass(frozen=True, kw_only=True)
class ClassifyDataConfig(ExamplesConfig):
    """The labelled texts of a run."""

    train: tuple[str, ...] = setting(
        (), "labelled training texts: .tsv or .csv with a header, .jsonl, .json or .parquet"
    )
    text: str = setting("text", "name of the column (or key) that holds the text")
    second: str | None = setting(
        None,
        "name of the column (or key) that holds the second text of a pair; if unset, single texts "
        "are classified",
    )
    label: str = setting("label", "name of the column (or key) that holds the label")
    kind: Literal["class", "number"] = setting(
        "class", "kind of the labels: names of classes, or numbers (regression)"
    )
    max_length: int = count(
        256,
        "maximum sequence length in tokens, of both texts of a pair together; longer texts are "
        "truncated at the end",
        LENGTH,
        least=4,
    )

    @property
    def columns(self) -> Columns:
        """The names of the columns of a table."""
        return Columns(self.text, self.label, self.second)


@dataclass(frozen=True, kw_only=True)
class StudentDataConfig(ClassifyDataConfig):
    """The texts of a student's run. Labels are used for the evaluation only."""

    extra: tuple[str, ...] = setting(
        (),
        "additional texts without labels: lines of .txt files, or the text column of tables; plain "
        "or .gz",
    )
    augment: int = count(
        0,
        "data augmentation: number of copies of every text in which words are replaced by words "
        "with similar vectors",
        COPIES,
        least=0,
    )
    replaced: float = setting(0.4, "fraction of the words of a copy that are replaced", gt=0, le=1)


@dataclass(frozen=True, kw_only=True)
class ClassifierModelConfig(LinearHeadConfig):
    """Settings of a classifier: a pre-trained model with a linear classification head."""

    pooling: Literal["first", "mean"] = setting(
        "mean",
        "pooling of an encoder: the pooler's vector of [CLS], or the mean of all token vectors",
    )


@dataclass(frozen=True, kw_only=True)
class ClassifyOptimizerConfig(OptimizerConfig):
    """Settings of the optimizer; the job sets values that are None before training."""

    lr: float | None = setting(  # type: ignore[assignment]
        None, f"peak learning rate; {IF_UNSET}", gt=0
    )


@dataclass(frozen=True, kw_only=True)
class ClassifyTrainingConfig(BalancedConfig):
    """Settings of the training loop of a classifier."""

    batch_size: int = count(32, "batch size, in texts", BATCH)
    auxiliary: float = setting(
        0.5,
        "weight of the auxiliary language-modelling loss if a language model is fine-tuned",
        ge=0,
    )
    start: str | None = setting(
        None, "pre-trained language model or encoder to fine-tune: a run or a model (short: --from)"
    )


@dataclass(frozen=True, kw_only=True)
class ClassifyEvaluationConfig(ObservationConfig):
    """Settings of the evaluation during training."""

    metric: (
        Literal["accuracy", "macro_f1", "matthews", "loss", "pearson", "spearman", "mse"] | None
    ) = setting(
        None,
        "metric that selects the best model; if unset, accuracy for classes and pearson for "
        "numbers",
    )


@dataclass(frozen=True, kw_only=True)
class ClassifyRunConfig(AdaptedRunConfig):
    """Configuration of a classification run, which fine-tunes the model `training.start`."""

    data: ClassifyDataConfig = section(ClassifyDataConfig)
    model: ClassifierModelConfig = section(ClassifierModelConfig)
    optimizer: ClassifyOptimizerConfig = section(ClassifyOptimizerConfig)
    training: ClassifyTrainingConfig = section(ClassifyTrainingConfig)
    evaluation: ClassifyEvaluationConfig = section(ClassifyEvaluationConfig)

    data_may_decide = ("optimizer.lr", "training.steps", "evaluation.metric")


def classify() -> ClassifyRunConfig:
    """A text classifier fine-tuned from a language model or an encoder (--from MODEL).

    A language model is fine-tuned as in GPT-1: a linear head on the last token, all weights
    trained, an auxiliary language-modelling loss, 600 steps; --optimizer.lr 6.25e-5 is the paper's
    learning rate, for 117 million parameters. An encoder is fine-tuned as in BERT: a head on the
    pooled vector, 3 epochs. Costs and scores: docs/results.md. --data.second COLUMN classifies
    pairs of texts, --data.kind number trains a regression.
    """
    return ClassifyRunConfig(
        recipe="classify",
        optimizer=ClassifyOptimizerConfig(beta2=0.99, eps=1e-8, weight_decay=0.01),
        schedule=ScheduleConfig(final=0.0),
    )


def pairs() -> ClassifyRunConfig:
    """A classifier of text pairs (inference, paraphrase): columns sentence1, sentence2, label.

    The recipe classify with these columns; --data.text, --data.second and --data.label name others.
    """
    data = ClassifyDataConfig(text="sentence1", second="sentence2")
    return replace(classify(), recipe="pairs", data=data)


def regress() -> ClassifyRunConfig:
    """A regression model of texts, trained on a column score: as classify, with squared error.

    --data.text sentence1 --data.second sentence2 for text pairs (semantic textual similarity).
    """
    data = ClassifyDataConfig(label="score", kind="number")
    return replace(classify(), recipe="regress", data=data)
