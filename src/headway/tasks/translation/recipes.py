"""The recipes of translation, text-to-text and span corruption."""

from __future__ import annotations

import os
from pathlib import Path

from headway.models import TranslatorConfig
from headway.tasks.translation.config import (
    TranslationDataConfig,
    TranslationEvaluationConfig,
    TranslationRunConfig,
    TranslationTrainingConfig,
)
from headway.training import AutomaticOptimizerConfig, ScheduleConfig

_SCHEDULE = ScheduleConfig(warmup=0.12, final=0.02)
_ADAMW = AutomaticOptimizerConfig(kind="adamw", lr=3e-3)


def translate() -> TranslationRunConfig:
    """A Transformer translator trained on your own sentence pairs: 4 + 4 layers, width 128.

    For ten thousand to a few hundred thousand pairs, on a laptop.
    """
    return TranslationRunConfig(recipe="translate", schedule=_SCHEDULE)


def translate_multi30k() -> TranslationRunConfig:
    """Multi30k English-German (29,000 image captions), from $HEADWAY_DATA/mt.

    Cost and score: docs/results.md. The data set is small, so dropout is strong and there are many
    epochs; it supports a vocabulary of 5,000 and 4 + 4 layers of width 128.
    """
    folder = os.environ.get("HEADWAY_DATA")
    return TranslationRunConfig(
        recipe="translate-multi30k",
        data=TranslationDataConfig(
            train=(str(Path(folder, "mt", "multi30k")),) if folder else (),
            source="en",
            target="de",
            vocabulary=5000,
        ),
        model=TranslatorConfig(dropout=0.2),
        schedule=_SCHEDULE,
        training=TranslationTrainingConfig(steps=12_000, average=0.999),
    )


def text_to_text() -> TranslationRunConfig:
    """Any text to any text: normal forms, transliteration, corrections, short summaries.

    An encoder-decoder of 2 + 2 layers, width 128, selected by exact match: for short texts that
    follow rules. Four minutes with one thread for 99 % of the dates in docs/tasks/text_to_text.md.
    """
    return TranslationRunConfig(
        recipe="text-to-text",
        data=TranslationDataConfig(vocabulary=1000),
        model=TranslatorConfig(encoder_layers=2, decoder_layers=2),
        optimizer=_ADAMW,
        schedule=_SCHEDULE,
        training=TranslationTrainingConfig(tokens=1024, smoothing=0.0),
        evaluation=TranslationEvaluationConfig(metric="exact"),
    )


def span_corruption() -> TranslationRunConfig:
    """Pre-training of an encoder-decoder on plain text, by T5's span corruption: 2 + 2 layers.

    headway train span-corruption text.txt, then headway train text-to-text DATA --from RUN. What
    a few minutes gained, namely nothing, is in docs/tasks/text_to_text.md.
    """
    return TranslationRunConfig(
        recipe="span-corruption",
        data=TranslationDataConfig(vocabulary=1000, corruption=0.15),
        model=TranslatorConfig(encoder_layers=2, decoder_layers=2),
        optimizer=_ADAMW,
        schedule=_SCHEDULE,
        training=TranslationTrainingConfig(smoothing=0.0),
        evaluation=TranslationEvaluationConfig(metric="nats"),
    )


def emoji_names() -> TranslationRunConfig:
    """Names of emoji, from English to another language: the model that `make demo` trains.

    Two to three minutes on 2 cores for BLEU 85 or more on held-out names.
    """
    return TranslationRunConfig(
        recipe="emoji-names",
        data=TranslationDataConfig(vocabulary=2000, max_length=100),
        model=TranslatorConfig(dropout=0.1, encoder_layers=3, decoder_layers=3),
        optimizer=_ADAMW,
        schedule=ScheduleConfig(warmup=0.22, final=0.02),
        training=TranslationTrainingConfig(steps=900, tokens=2048, average=0.995),
        evaluation=TranslationEvaluationConfig(every=300, sentences=400),
    )
