"""The named recipes of captioners; costs and scores as in `catalogue`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from headway.data.augmentation import AugmentationConfig
from headway.models import GPTConfig
from headway.recipes.caption_config import (
    CaptionDataConfig,
    CaptionEvaluationConfig,
    CaptionModelConfig,
    CaptionRunConfig,
    CaptionTrainingConfig,
)
from headway.tasks.image_config import ImageEncoderSettings
from headway.training import OptimizerConfig, ScheduleConfig


def caption() -> CaptionRunConfig:
    """A captioner from your own pictures and captions: ViT of 4 layers, decoder of 3, width 128.

    For some thousand small pictures on a laptop. Pictures are never flipped: captions speak of left
    and right. --from-encoder VIT and --from-decoder GPT start from models that have learned to see
    and to write: --optimizer.kind adamw --optimizer.lr 2e-4 then. Hugging Face's form has learned
    places alone: --model.vit.positions learned.
    """
    gpt = GPTConfig(
        model_dim=128, num_heads=4, ffn_dim=512, num_layers=3, dropout=0.1, max_length=64
    )
    vit = ImageEncoderSettings(model_dim=128, num_heads=4, ffn_dim=512, num_layers=4, dropout=0.1)
    return CaptionRunConfig(
        recipe="caption",
        augmentation=AugmentationConfig(flip=0.0, padding=2),
        model=CaptionModelConfig(vit=vit, gpt=gpt),
        optimizer=OptimizerConfig(
            kind="muon", lr=3e-3, muon_lr=1e-2, beta2=0.99, eps=1e-8, weight_decay=0.05
        ),
        schedule=ScheduleConfig(kind="cosine", warmup=100, final=0.01),
        evaluation=CaptionEvaluationConfig(every=500),
    )


def caption_emoji() -> CaptionRunConfig:
    """What 3,054 emoji show, in English, French and German, from $HEADWAY_DATA/captioning.

    Cost and score: docs/results.md.
    """
    folder = os.environ.get("HEADWAY_DATA")
    place = Path(folder, "captioning") if folder else None
    return replace(
        caption(),
        recipe="caption-emoji",
        data=CaptionDataConfig(
            train=None if place is None else str(place / "emoji_captions.tsv.gz"),
            images=None if place is None else str(place / "emoji_twitter_32.npz"),
            text=("en", "fr", "de"),
            vocabulary=2000,
        ),
        training=CaptionTrainingConfig(steps=1500),
    )
