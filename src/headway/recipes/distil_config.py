"""All that the making of a small student is told."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from headway.machine import MachineConfig
from headway.settings import BATCH, COPIES, HEADS, LAYERS, LENGTH, WIDTH, section, setting
from headway.tasks.classification.config import ClassifyDataConfig, ClassifyEvaluationConfig
from headway.tasks.language_modeling.config import LanguageEvaluationConfig
from headway.tasks.question_answering.config import AnswerDataConfig, AnswerEvaluationConfig
from headway.tasks.sections import (
    CheckpointConfig,
    LoopConfig,
    ObservationConfig,
    TextDataConfig,
    left_open,
)
from headway.tasks.tagging.config import TagDataConfig, TagEvaluationConfig
from headway.training import (
    DistillationConfig,
    LayersConfig,
    OptimizerConfig,
    ScheduleConfig,
)


@dataclass(frozen=True, kw_only=True)
class StudentConfig:
    """What the student has otherwise than its teacher; none: as the teacher."""

    num_layers: int = setting(2, "blocks", gt=0, le=LAYERS)
    model_dim: int | None = setting(None, "width of every layer's input and output", gt=0, le=WIDTH)
    num_heads: int | None = setting(None, "attention heads", gt=0, le=HEADS)
    ffn_dim: int | None = setting(None, "inner width of the feed-forward layers", gt=0, le=WIDTH)
    embedding_dim: int | None = setting(
        None,
        "of encoders, width of the embeddings, widened by a matrix: most of a small model is its "
        "words",
        gt=0,
        le=WIDTH,
    )
    dropout: float = setting(0.1, "share of activations dropped while training", ge=0, lt=1)

    family: ClassVar[str] = "classifier"
    sizes: ClassVar[dict[str, dict[str, Any]]] = {}

    @property
    def shape(self) -> dict[str, int | float | None]:
        """By name, for `student_config`."""
        return asdict(self)


class TaggerStudentConfig(StudentConfig):
    family: ClassVar[str] = "tagger"


class AnswererStudentConfig(StudentConfig):
    family: ClassVar[str] = "answerer"


class LanguageStudentConfig(StudentConfig):
    family: ClassVar[str] = "gpt"


class EncoderStudentConfig(StudentConfig):
    family: ClassVar[str] = "encoder"


@dataclass(frozen=True, kw_only=True)
class StagedConfig(DistillationConfig):
    """Of models that say something: what is compared, and when.

    One after the other is the paper's way (section 3.2), and for cause: of a 6-layer encoder's
    2-layer student the first gradient of the attention term is 17 times that of the outputs.
    """

    inside_first: float = setting(
        0.5,
        "share of the steps that compare the insides alone; those after it compare the outputs "
        "alone. 0: both at every step",
        ge=0,
        lt=1,
    )


@dataclass(frozen=True, kw_only=True)
class DistilTrainingConfig(LoopConfig):
    steps: int = setting(2000, "updates", gt=0)
    average: float = setting(
        0.0, "decay of the running average of the weights; 0 switches it off", ge=0, lt=1
    )
    rows: int = setting(32, "texts of a batch", gt=0, le=BATCH)
    start: str | None = setting(None, "the teacher: a run or a model (short: --from)")
    student: str | None = setting(
        None,
        "what the student goes on from: that of an earlier run, or a small encoder (language "
        "model) with the teacher's tokenizer; none: a fresh one of model.*",
    )


@dataclass(frozen=True, kw_only=True)
class DistilTextTrainingConfig(DistilTrainingConfig):
    """Of models of running text."""

    length: int = setting(128, "most tokens of a row, marks included", ge=8, le=LENGTH)


@dataclass(frozen=True, kw_only=True)
class DistilDataConfig(ClassifyDataConfig):
    """Of classifiers: the labels are for scores alone, so texts without any can be added."""

    extra: tuple[str, ...] = setting(
        (),
        "texts without labels, which the teacher judges: lines of .txt, or the text column of a "
        "table; plain or .gz",
    )
    augment: int = setting(
        0,
        "copies of every text in which words are replaced by words of like vectors",
        ge=0,
        le=COPIES,
    )
    replaced: float = setting(0.4, "share of a copy's words that are replaced", gt=0, le=1)


@dataclass(frozen=True, kw_only=True)
class DistilLanguageDataConfig(TextDataConfig):
    """Of language models, which bring their tokenizer."""

    weights: tuple[float, ...] = setting(
        (), "shares of training rows from each of train; none: by length"
    )


@dataclass(frozen=True, kw_only=True)
class DistilEncoderDataConfig(TextDataConfig):
    """Of encoders, which bring their tokenizer."""

    smoothing: float = setting(
        0.7, "exponent of the shares of several texts: 1 by length, 0 all alike", ge=0, le=1
    )


@dataclass(frozen=True, kw_only=True)
class DistilEncoderEvaluationConfig(ObservationConfig):
    metric: Literal["negative_difference"] = setting(
        "negative_difference", "what the kept student is best by: the weighted differences"
    )
    rows: int = setting(400, "held-out rows looked at each time", gt=0, le=BATCH)


@dataclass(frozen=True, kw_only=True)
class StudentRunConfig:
    """One training run of a student, beside its teacher (`training.start`), of whatever kind."""

    recipe: str = setting("distil", "name of the recipe this came from")
    data: Any = None
    model: StudentConfig = section(StudentConfig)
    distillation: LayersConfig = section(StagedConfig)
    optimizer: OptimizerConfig = section(OptimizerConfig)
    schedule: ScheduleConfig = section(ScheduleConfig)
    training: DistilTrainingConfig = section(DistilTrainingConfig)
    evaluation: Any = None
    checkpoint: CheckpointConfig = section(CheckpointConfig)
    machine: MachineConfig = section(MachineConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        """Settings that follow from the data, or from the teacher."""
        return frozenset()

    @property
    def name(self) -> str:
        """What the run is called unless the user names it: its recipe."""
        return self.recipe


@dataclass(frozen=True, kw_only=True)
class DistilRunConfig(StudentRunConfig):
    """Of a classifier."""

    data: DistilDataConfig = section(DistilDataConfig)
    evaluation: ClassifyEvaluationConfig = section(ClassifyEvaluationConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        return left_open(self, "evaluation.metric") | {"data.max_length"}


@dataclass(frozen=True, kw_only=True)
class DistilTagRunConfig(StudentRunConfig):
    """Of a tagger."""

    recipe: str = setting("distil-tag", "name of the recipe this came from")
    data: TagDataConfig = section(TagDataConfig)
    model: TaggerStudentConfig = section(TaggerStudentConfig)
    evaluation: TagEvaluationConfig = section(TagEvaluationConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        return frozenset({"data.max_length", "evaluation.metric"})


@dataclass(frozen=True, kw_only=True)
class DistilAnswerRunConfig(StudentRunConfig):
    """Of an answerer."""

    recipe: str = setting("distil-answer", "name of the recipe this came from")
    data: AnswerDataConfig = section(AnswerDataConfig)
    model: AnswererStudentConfig = section(AnswererStudentConfig)
    evaluation: AnswerEvaluationConfig = section(AnswerEvaluationConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        return frozenset({"data.window", "data.stride"})


@dataclass(frozen=True, kw_only=True)
class DistilLanguageRunConfig(StudentRunConfig):
    """Of a language model."""

    recipe: str = setting("distil-gpt", "name of the recipe this came from")
    data: DistilLanguageDataConfig = section(DistilLanguageDataConfig)
    model: LanguageStudentConfig = section(LanguageStudentConfig)
    training: DistilTextTrainingConfig = section(DistilTextTrainingConfig)
    evaluation: LanguageEvaluationConfig = section(LanguageEvaluationConfig)


@dataclass(frozen=True, kw_only=True)
class DistilEncoderRunConfig(StudentRunConfig):
    """Of an encoder, which says nothing that could be compared: of its insides alone."""

    recipe: str = setting("distil-encoder", "name of the recipe this came from")
    data: DistilEncoderDataConfig = section(DistilEncoderDataConfig)
    model: EncoderStudentConfig = section(EncoderStudentConfig)
    distillation: LayersConfig = section(LayersConfig)
    training: DistilTextTrainingConfig = section(DistilTextTrainingConfig)
    evaluation: DistilEncoderEvaluationConfig = section(DistilEncoderEvaluationConfig)
