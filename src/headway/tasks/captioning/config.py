"""Configuration of a captioning run, and the recipes."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from headway.data.augmentation import AugmentationConfig
from headway.data.formats.captions import SPLIT
from headway.models import CaptionerConfig, GPTConfig
from headway.settings import BATCH, BEAMS, LENGTH, PENALTY, VOCABULARY, section, setting
from headway.tasks.image_config import ImageDataConfig, ImageEncoderSettings, decided_by_images
from headway.tasks.sections import BlocksLoopConfig, ObservationConfig, RunSettings
from headway.training import OptimizerConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class CaptionDataConfig(ImageDataConfig):
    train: str | None = setting(
        None, "a table of captions: .tsv or .csv with a header, or .jsonl, plain or .gz"
    )
    images: str | None = setting(
        None, "an .npz file whose array images has a picture for each row of the table"
    )
    image: str = setting("image", "without that: column of picture files, from the table's folder")
    text: tuple[str, ...] = setting(
        ("caption",), "column of captions; several are languages, each with a token of its own"
    )
    split_column: str | None = setting(
        SPLIT, "column that says train, valid or test; the usual one need not be there"
    )
    vocabulary: int = setting(4000, "pieces of the tokenizer", ge=257, le=VOCABULARY)
    max_length: int = setting(60, "longer captions (in pieces) are left out", gt=0, le=LENGTH)


@dataclass(frozen=True, kw_only=True)
class CaptionModelConfig:
    """The two halves' shapes; that of a half to start from is its own, but for its dropout."""

    vit: ImageEncoderSettings = section(ImageEncoderSettings)
    gpt: GPTConfig = section(GPTConfig)

    sizes: ClassVar[dict[str, dict[str, Any]]] = CaptionerConfig.sizes

    @property
    def captioner(self) -> CaptionerConfig:
        """The model's configuration; what the data decide must be there."""
        return CaptionerConfig(vit=self.vit.vit, gpt=self.gpt)


WRITES = tuple(
    each.name for each in fields(GPTConfig) if each.name not in ("dropout", "vocabulary")
)
"""What of the decoder the language model to start from decides."""


@dataclass(frozen=True, kw_only=True)
class CaptionTrainingConfig(BlocksLoopConfig):
    steps: int = setting(3000, "updates", gt=0)
    rows: int = setting(32, "pictures of a batch, each with all its captions", gt=0, le=BATCH)
    smoothing: float = setting(0.1, "label smoothing", ge=0, lt=1)
    encoder: str | None = setting(
        None, "the image encoder to start from: a run or a model (short: --from-encoder)"
    )
    decoder: str | None = setting(
        None, "the language model to start from, tokenizer included (short: --from-decoder)"
    )
    frozen: bool = setting(False, "the encoder to start from stays as it is")


@dataclass(frozen=True, kw_only=True)
class CaptionEvaluationConfig(ObservationConfig):
    metric: Literal["cider", "bleu", "chrf", "nats"] = setting(
        "cider", "what the kept model is best by"
    )
    beam: int = setting(1, "beam width while training (1: greedy)", gt=0, le=BEAMS)
    length_penalty: float = setting(1.0, "exponent of the length penalty", ge=0, le=PENALTY)
    pictures: int = setting(500, "held-out pictures captioned each time, in every language", gt=1)
    samples: int = setting(2, "of those, shown on the screen", ge=0, le=BEAMS)


@dataclass(frozen=True, kw_only=True)
class CaptionRunConfig(RunSettings):
    """One training run of a captioner."""

    recipe: str = setting("caption", "name of the recipe this came from")
    data: CaptionDataConfig = section(CaptionDataConfig)
    augmentation: AugmentationConfig = section(AugmentationConfig, after="data")
    model: CaptionModelConfig = section(CaptionModelConfig)
    training: CaptionTrainingConfig = section(CaptionTrainingConfig)
    evaluation: CaptionEvaluationConfig = section(CaptionEvaluationConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        """Settings that follow from the data, or from the models it starts from."""
        training, vit = self.training, self.model.vit
        decided = {"model.gpt.vocabulary", *decided_by_images(vit, training.encoder, "model.vit")}
        if training.decoder is not None:
            decided |= {f"model.gpt.{name}" for name in WRITES}
        return frozenset(decided)


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
