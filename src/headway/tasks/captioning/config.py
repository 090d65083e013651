"""Configuration of a captioning run, and the captioning recipes."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from headway.base.settings import (
    BATCH,
    BEAMS,
    LENGTH,
    VOCABULARY,
    count,
    flat,
    fraction,
    section,
    setting,
    with_default,
)
from headway.data.augmentation import AugmentationConfig
from headway.data.bad_rows import bad_rows_setting
from headway.decoding import BeamSettings
from headway.models import CaptionerConfig, GPTConfig
from headway.tasks.captioning.caption_files import SPLIT
from headway.tasks.image_config import ImageDataConfig, ImageEncoderSettings, decided_by_images
from headway.tasks.sections import BlocksLoopConfig, ObservationConfig, RunSettings
from headway.training import OptimizerConfig


@dataclass(frozen=True, kw_only=True)
class CaptionDataConfig(ImageDataConfig):
    """The images and captions of a run."""

    train: str | None = setting(
        None, "table of captions: .tsv or .csv with a header, or .jsonl, plain or .gz"
    )
    images: str | None = setting(
        None,
        "an .npz file whose array `images` has one image for each row of the table; if unset, the "
        "table names image files",
    )
    image: str = setting(
        "image",
        "name of the column that holds the paths of the image files, relative to the table's "
        "folder, if data.images is unset",
    )
    text: tuple[str, ...] = setting(
        ("caption",),
        "name of the column that holds the captions; several columns are languages, each with a "
        "language token",
    )
    split_column: str | None = setting(
        SPLIT,
        "name of the column that assigns rows to the splits train, valid and test; the default "
        "column is optional",
    )
    bad_rows: str = bad_rows_setting()
    vocabulary: int = count(4000, "vocabulary size of the tokenizer", VOCABULARY, least=257)
    max_length: int = count(
        60, "maximum length of a caption in tokens; longer captions are left out", LENGTH
    )


@dataclass(frozen=True, kw_only=True)
class CaptionModelConfig:
    """Shapes of the image encoder and the decoder.

    A pre-trained encoder or decoder decides its own shape; only its dropout can be set.
    """

    vit: ImageEncoderSettings = section(ImageEncoderSettings)
    gpt: GPTConfig = section(GPTConfig)

    sizes = CaptionerConfig.sizes

    @property
    def captioner(self) -> CaptionerConfig:
        """The configuration of the model; the settings that the data decide must be set."""
        return CaptionerConfig(vit=self.vit.vit, gpt=self.gpt)


WRITES = tuple(name for name in flat(GPTConfig()) if name not in ("dropout", "vocabulary"))
"""The settings of the decoder that a pre-trained language model decides."""


@dataclass(frozen=True, kw_only=True)
class CaptionTrainingConfig(BlocksLoopConfig):
    """Settings of the training loop of a captioner."""

    steps: int = with_default(BlocksLoopConfig, "steps", 3000)
    batch_size: int = count(32, "batch size, in images; an image brings all its captions", BATCH)
    smoothing: float = fraction(0.1, "label smoothing")
    encoder: str | None = setting(
        None, "pre-trained image encoder: a run or a model (short: --from-encoder)"
    )
    decoder: str | None = setting(
        None,
        "pre-trained language model that initialises the decoder and brings its tokenizer: a run "
        "or a model (short: --from-decoder)",
    )
    frozen: bool = setting(False, "freeze the pre-trained image encoder")


@dataclass(frozen=True, kw_only=True)
class CaptionEvaluationConfig(ObservationConfig):
    """Settings of the evaluation during training."""

    metric: Literal["cider", "bleu", "chrf", "nats"] = setting(
        "cider", "metric that selects the best model"
    )
    beam: int = with_default(BeamSettings, "beam", 1)
    length_penalty: float = with_default(BeamSettings, "length_penalty", 1.0)
    images: int = setting(
        500,
        "number of held-out images that are captioned at each evaluation, in every language",
        gt=1,
    )
    samples: int = count(2, "number of captions that are shown at each evaluation", BEAMS, least=0)


@dataclass(frozen=True, kw_only=True)
class CaptionEvaluation(BeamSettings):
    """Options of the evaluation of a captioner."""

    beam: int = with_default(BeamSettings, "beam", 5)
    images: int | None = setting(
        None,
        "maximum number of images captioned in each language, evenly spaced; if unset, all",
        gt=1,
    )
    split: Literal["test", "valid"] = setting(
        "test",
        "split of the run's images; if there are no test images, the validation images",
    )
    worst: int = setting(0, "number of captions with the lowest CIDEr-D that are shown", ge=0)
    samples: int = count(0, "number of captions that are shown during training", BEAMS, least=0)


@dataclass(frozen=True, kw_only=True)
class CaptionRunConfig(RunSettings):
    """Configuration of a captioning run."""

    recipe: str = setting("caption", "name of the recipe that these settings extend")
    data: CaptionDataConfig = section(CaptionDataConfig)
    augmentation: AugmentationConfig = section(AugmentationConfig, after="data")
    model: CaptionModelConfig = section(CaptionModelConfig)
    training: CaptionTrainingConfig = section(CaptionTrainingConfig)
    evaluation: CaptionEvaluationConfig = section(CaptionEvaluationConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        """The dotted keys of the settings that the data or the pre-trained models decide."""
        training, vit = self.training, self.model.vit
        decided = {"model.gpt.vocabulary", *decided_by_images(vit, training.encoder, "model.vit")}
        if training.decoder is not None:
            decided |= {f"model.gpt.{name}" for name in WRITES}
        return frozenset(decided)


def caption() -> CaptionRunConfig:
    """An image captioner from your own images: ViT with 4 layers, decoder with 3, width 128.

    For a few thousand small images, on a laptop. Images are never flipped, because captions may
    mention left and right. --from-encoder VIT and --from-decoder GPT initialise from pre-trained
    models; add --optimizer.kind adamw --optimizer.lr 2e-4 then. For an export to Hugging Face,
    train with learned positions: --model.vit.positions learned.
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
        training=CaptionTrainingConfig(sizes=("mini",)),
    )


def transcribe() -> CaptionRunConfig:
    """A transcriber of speech: a table of WAV files and their words, for example short commands.

    A captioner of log-mel spectrograms with 64 bands and 100 frames per second; a patch has all
    bands of 4 frames, and shorter recordings are padded. Score: docs/results.md.
    """
    captioner = caption()
    vit = replace(captioner.model.vit, patch_size=64, patch_width=4)
    return replace(
        captioner,
        recipe="transcribe",
        data=CaptionDataConfig(fit="pad"),
        augmentation=AugmentationConfig(flip=0.0, padding=4),
        model=replace(captioner.model, vit=vit),
    )


def caption_emoji() -> CaptionRunConfig:
    """Captions of 3,354 emoji, 304 of them held out, in English, French and German.

    The data are in $HEADWAY_DATA/captioning. Cost and score: docs/results.md.
    """
    root = os.environ.get("HEADWAY_DATA")
    folder = Path(root, "captioning") if root else None
    return replace(
        caption(),
        recipe="caption-emoji",
        data=CaptionDataConfig(
            train=None if folder is None else str(folder / "emoji_captions.tsv.gz"),
            images=None if folder is None else str(folder / "emoji_twitter_32.npz"),
            text=("en", "fr", "de"),
            vocabulary=2000,
        ),
        training=CaptionTrainingConfig(steps=1500, sizes=("mini",)),
    )
