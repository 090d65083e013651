"""All that the pre-training run of an encoder is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway.data.corruption import MaskingConfig
from headway.machine import MachineConfig
from headway.models import BertConfig
from headway.settings import BATCH, COPIES, LENGTH, VOCABULARY, section, setting
from headway.tasks.sections import (
    BlocksLoopConfig,
    CheckpointConfig,
    ObservationConfig,
    TextDataConfig,
)
from headway.training import OptimizerConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class EncoderDataConfig(TextDataConfig):
    """Of encoders. Where several texts (languages) are named, each has its own share and pairs."""

    smoothing: float = setting(
        0.7,
        "exponent of the shares of several texts, in rows and where word pieces are learned: "
        "1 by length, 0 all alike",
        ge=0,
        le=1,
    )
    tokenizer: str | None = setting(
        None, "the folder of a model, to take its tokenizer; none: word pieces are learned"
    )
    vocabulary: int = setting(8000, "word pieces that are learned", ge=100, le=VOCABULARY)
    lower: bool = setting(True, "of those: no capitals and no accents")
    new_pieces: int = setting(
        0,
        "words of this text that a model to start from learns as pieces of their own",
        ge=0,
        le=VOCABULARY,
    )


@dataclass(frozen=True, kw_only=True)
class EncoderTrainingConfig(BlocksLoopConfig):
    steps: int = setting(6000, "updates", gt=0)
    average: float = setting(
        0.0, "decay of the running average of the weights; 0 switches it off", ge=0, lt=1
    )
    rows: int = setting(32, "rows of a batch", gt=0, le=BATCH)
    length: int = setting(128, "most tokens of a row, its marks included", ge=8, le=LENGTH)
    short: float = setting(0.1, "share of the pairs that aim at a shorter length", ge=0, le=1)
    mixed: int = setting(
        0,
        "of several texts, so many passes first in which a second text that stands elsewhere may "
        "come from any of them; afterwards from its own",
        ge=0,
        le=COPIES,
    )
    start: str | None = setting(
        None, "go on from this: a run, or the folder of an encoder (short: --from)"
    )


@dataclass(frozen=True, kw_only=True)
class EncoderEvaluationConfig(ObservationConfig):
    metric: Literal["negative_mlm_nats"] = setting(
        "negative_mlm_nats", "what the kept model is best by"
    )
    rows: int = setting(400, "held-out rows looked at each time", gt=0, le=BATCH)
    sample: int = setting(5, "guesses shown at a hidden word each time; 0: none", ge=0, le=COPIES)
    sentences: int = setting(
        40, "of runs that go on from a model: held-out sentences for pseudo-perplexity", gt=0
    )


@dataclass(frozen=True, kw_only=True)
class EncoderRunConfig:
    """One pre-training run of an encoder, from nothing or from another (`training.start`).

    `model.next_sentence` says what a row is: two texts of which one must tell whether they belong
    together (BERT), or as many sentences as fit (RoBERTa).
    """

    recipe: str = setting("bert", "name of the recipe this came from")
    data: EncoderDataConfig = section(EncoderDataConfig)
    masking: MaskingConfig = section(MaskingConfig)
    model: BertConfig = section(BertConfig)
    optimizer: OptimizerConfig = section(OptimizerConfig)
    schedule: ScheduleConfig = section(ScheduleConfig)
    training: EncoderTrainingConfig = section(EncoderTrainingConfig)
    evaluation: EncoderEvaluationConfig = section(EncoderEvaluationConfig)
    checkpoint: CheckpointConfig = section(CheckpointConfig)
    machine: MachineConfig = section(MachineConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        """Settings that follow from the data, or from the model it starts from."""
        if self.training.start is None:
            return frozenset({"model.vocabulary", "model.max_length"})
        given = {f"model.{name}" for name in BertConfig.__dataclass_fields__}
        return frozenset(given - {"model.dropout"})

    @property
    def name(self) -> str:
        """What the run is called unless the user names it: its recipe."""
        return self.recipe
