"""All that a training run is told. The same names are flags, YAML keys and attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from headway.machine import MachineConfig
from headway.models import TranslatorConfig
from headway.settings import BATCH, BEAMS, LENGTH, PENALTY, VOCABULARY, section, setting
from headway.tasks.sections import BlocksLoopConfig, CheckpointConfig, ObservationConfig
from headway.training import OptimizerConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    train: str | None = setting(
        None, "a .tsv file, a folder with splits, or the beginning of two aligned files"
    )
    valid: str | None = setting(
        None, "validation pairs; none looks beside train, or holds some out"
    )
    test: str | None = setting(None, "test pairs for headway eval; none looks beside train")
    source: str | None = setting(None, "column or file ending of the source language")
    target: str | None = setting(None, "column or file ending of the target language")
    vocabulary: int = setting(8000, "pieces of the tokenizer", ge=259, le=VOCABULARY)
    joint: bool = setting(True, "one vocabulary for both languages")
    max_length: int = setting(200, "longer pairs (in pieces) are left out", gt=0, le=LENGTH)


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(BlocksLoopConfig):
    tokens: int = setting(
        4096, "budget of a batch: rows x longest side, padding included", gt=0, le=BATCH
    )
    smoothing: float = setting(0.1, "label smoothing", ge=0, lt=1)


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig(ObservationConfig):
    metric: Literal["bleu", "chrf", "negative_nats"] = setting(
        "bleu", "what the kept model is best by"
    )
    beam: int = setting(1, "beam width while training (1: greedy)", gt=0, le=BEAMS)
    length_penalty: float = setting(1.0, "exponent of the length penalty", ge=0, le=PENALTY)
    sentences: int = setting(1000, "validation sentences translated each time", gt=0)
    samples: int = setting(2, "of those, shown on the screen", ge=0, le=BEAMS)


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One training run of a translator. `model.size` chooses a named size before other model
    settings apply."""

    recipe: str = setting("translate", "name of the recipe this came from")
    data: DataConfig = section(DataConfig)
    model: TranslatorConfig = section(TranslatorConfig)
    optimizer: OptimizerConfig = section(OptimizerConfig)
    schedule: ScheduleConfig = section(ScheduleConfig)
    training: TrainingConfig = section(TrainingConfig)
    evaluation: EvaluationConfig = section(EvaluationConfig)
    checkpoint: CheckpointConfig = section(CheckpointConfig)
    machine: MachineConfig = section(MachineConfig)

    decided_by_data: ClassVar[frozenset[str]] = frozenset(
        {"model.source_vocabulary", "model.target_vocabulary", "model.share_embeddings"}
    )

    @property
    def name(self) -> str:
        """What the run is called unless the user names it: its recipe and languages."""
        sides = [side for side in (self.data.source, self.data.target) if side]
        return "-".join([self.recipe, *sides])
