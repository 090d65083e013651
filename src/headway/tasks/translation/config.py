"""Configuration of a translation run, how a translator is evaluated, and the recipes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headway.machine import MachineConfig
from headway.models import TranslatorConfig
from headway.settings import BATCH, BEAMS, LENGTH, PENALTY, VOCABULARY, section, setting
from headway.tasks.sections import (
    BlocksLoopConfig,
    CheckpointConfig,
    ObservationConfig,
    RunSettings,
)
from headway.training import OptimizerConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class TranslationDataConfig:
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
class TranslationTrainingConfig(BlocksLoopConfig):
    tokens: int = setting(
        4096, "budget of a batch: rows x longest side, padding included", gt=0, le=BATCH
    )
    smoothing: float = setting(0.1, "label smoothing", ge=0, lt=1)


@dataclass(frozen=True, kw_only=True)
class TranslationEvaluationConfig(ObservationConfig):
    metric: Literal["bleu", "chrf", "nats"] = setting("bleu", "metric that selects the best model")
    beam: int = setting(1, "beam width while training (1: greedy)", gt=0, le=BEAMS)
    length_penalty: float = setting(1.0, "exponent of the length penalty", ge=0, le=PENALTY)
    sentences: int = setting(1000, "validation sentences translated each time", gt=0)
    samples: int = setting(2, "of those, shown on the screen", ge=0, le=BEAMS)


@dataclass(frozen=True, kw_only=True)
class TranslationScoring:
    """What can be chosen for the evaluation of a translator."""

    beam: int = setting(5, "beam width (1: greedy)", gt=0, le=BEAMS)
    length_penalty: float = setting(1.0, "exponent of the length penalty", ge=0, le=PENALTY)
    split: Literal["test", "valid"] = setting(
        "test",
        "which of a run's pairs: the test pairs, or the validation pairs that are translated while "
        "training (with a beam width of 1 the scores are the logged ones)",
    )
    source: str | None = setting(None, "column or file ending of the source language")
    target: str | None = setting(None, "column or file ending of the target language")
    sentences: int | None = setting(
        None,
        "maximum number of sentences that are translated, the first ones; if unset, "
        "evaluation.sentences of a run's validation pairs, and all of other pairs",
        gt=0,
    )
    samples: int = setting(0, "number of translations that are shown", ge=0, le=BEAMS)
    float32: bool = setting(
        False,
        "compute in float32 even where the machine computes in bfloat16: a near tie between two "
        "tokens is then decided as on any other machine; validation while training does",
    )


@dataclass(frozen=True, kw_only=True)
class TranslationRunConfig(RunSettings):
    """One training run of a translator. `model.size` chooses a named size before other model
    settings apply."""

    recipe: str = setting("translate", "name of the recipe this came from")
    data: TranslationDataConfig = section(TranslationDataConfig)
    model: TranslatorConfig = section(TranslatorConfig)
    training: TranslationTrainingConfig = section(TranslationTrainingConfig)
    evaluation: TranslationEvaluationConfig = section(TranslationEvaluationConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        """Settings that follow from the text."""
        return frozenset(
            {"model.source_vocabulary", "model.target_vocabulary", "model.share_embeddings"}
        )

    @property
    def name(self) -> str:
        """What the run is called unless the user names it: its recipe and languages."""
        sides = [side for side in (self.data.source, self.data.target) if side]
        return "-".join([self.recipe, *sides])


def translate() -> TranslationRunConfig:
    """A Transformer translator on your own sentence pairs: 4 + 4 layers, width 128.

    For some ten thousand to a few hundred thousand pairs on a laptop.
    """
    return TranslationRunConfig(recipe="translate")


def translate_multi30k() -> TranslationRunConfig:
    """Multi30k English-German (29,000 picture captions), from $HEADWAY_DATA/mt.

    Cost and score: docs/results.md. Small data, so strong dropout and many epochs; the vocabulary
    of 8,000 and the 4 + 4 layers of width 128 are the size that this data supports.
    """
    folder = os.environ.get("HEADWAY_DATA")
    return TranslationRunConfig(
        recipe="translate-multi30k",
        data=TranslationDataConfig(
            train=str(Path(folder, "mt", "multi30k")) if folder else None,
            source="en",
            target="de",
        ),
        model=TranslatorConfig(dropout=0.3),
        optimizer=OptimizerConfig(lr=5e-3),
        schedule=ScheduleConfig(warmup=1000),
        training=TranslationTrainingConfig(steps=12_000, average=0.9985),
        machine=MachineConfig(dtype="bfloat16"),
    )


def emoji_names() -> TranslationRunConfig:
    """Names of emoji, English to another language: what `make demo` trains.

    Two to three minutes on 2 cores for BLEU 85 and more on held-out names.
    """
    return TranslationRunConfig(
        recipe="emoji-names",
        data=TranslationDataConfig(vocabulary=2000, max_length=100),
        model=TranslatorConfig(dropout=0.1, encoder_layers=3, decoder_layers=3),
        optimizer=OptimizerConfig(lr=3e-3),
        schedule=ScheduleConfig(kind="cosine", warmup=200, final=0.02),
        training=TranslationTrainingConfig(steps=900, tokens=2048, average=0.995),
        evaluation=TranslationEvaluationConfig(every=300, sentences=400),
        checkpoint=CheckpointConfig(every=300),
    )
