"""Configuration of an image classification run, and the recipes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway.data.augmentation import AugmentationConfig
from headway.models.vit_classifier import ImagePooling
from headway.settings import BATCH, section, setting
from headway.tasks.image_config import (
    ImageEncoderSettings,
    LabelledImageDataConfig,
    decided_by_images,
)
from headway.tasks.sections import (
    CheckpointConfig,
    FineTuningConfig,
    ObservationConfig,
    RunSettings,
    averaging,
    left_open,
)
from headway.training import OptimizerConfig, ScheduleConfig

EPOCHS = 30.0
"""Number of epochs if neither steps nor epochs are set."""


@dataclass(frozen=True, kw_only=True)
class VisionModelConfig(ImageEncoderSettings):
    """The encoder's shape, and what stands on it. With --from it is that of the model to start
    from; dropout, and another image_size, may be named."""

    projection: Literal["learned", "pca"] = setting(
        "learned", "patches to tokens: a trained matrix, or principal components of the pictures"
    )
    pooling: ImagePooling = setting(
        "mean", "a picture's vector: [CLS]'s, the mean of its patches', or the two side by side"
    )
    head_dropout: float = setting(
        0.0, "share of the picture's vector dropped while training", ge=0, lt=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pooling != "mean" and not self.class_token:
            raise ValueError(f"pooling={self.pooling} reads [CLS]: class_token must be true")
        if self.projection == "pca" and self.model_dim > self._numbers:
            raise ValueError(
                f"projection=pca: patches of {self._numbers} numbers have no {self.model_dim} "
                "principal components"
            )

    @property
    def _numbers(self) -> int:
        """In a patch, at most."""
        return self.patch[0] * self.patch[1] * (self.channels or 3)


@dataclass(frozen=True, kw_only=True)
class VisionTrainingConfig(FineTuningConfig):
    average: float = averaging(0.998)
    rows: int = setting(64, "pictures of a batch", gt=0, le=BATCH)
    smoothing: float = setting(0.1, "label smoothing", ge=0, lt=1)
    start: str | None = setting(
        None, "the image encoder that is fine-tuned: a run or a model (short: --from)"
    )


@dataclass(frozen=True, kw_only=True)
class VisionEvaluationConfig(ObservationConfig):
    metric: Literal["accuracy", "macro_f1", "loss"] = setting(
        "accuracy", "what the kept model is best by"
    )


@dataclass(frozen=True, kw_only=True)
class VisionRunConfig(RunSettings):
    """One training run of an image classifier."""

    recipe: str = setting("vision", "name of the recipe this came from")
    data: LabelledImageDataConfig = section(LabelledImageDataConfig)
    augmentation: AugmentationConfig = section(AugmentationConfig, after="data")
    model: VisionModelConfig = section(VisionModelConfig)
    training: VisionTrainingConfig = section(VisionTrainingConfig)
    evaluation: VisionEvaluationConfig = section(VisionEvaluationConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        """Settings that follow from the pictures, or from the model it starts from."""
        decided = decided_by_images(self.model, self.training.start)
        return decided | left_open(self, "training.steps")


_OPTIMIZER = OptimizerConfig(
    kind="muon", lr=3e-3, muon_lr=1e-2, beta2=0.99, eps=1e-8, weight_decay=0.05
)


def vision() -> VisionRunConfig:
    """A Vision Transformer from your own pictures: 6 layers of width 128, patches of 4 x 4.

    For some thousand small pictures on a laptop; --model.size b for photographs on a GPU. Sines for
    places and Muon for the matrices take a fraction of the passes that the paper's way takes, which
    Hugging Face's form has: --model.positions learned --model.pooling first --optimizer.kind adamw
    --optimizer.lr 1e-3. --from MODEL fine-tunes one that has learned to see (a run, or a folder of
    ViT, DINO or DINOv2): --optimizer.kind adamw --optimizer.lr 1e-4 then.
    """
    return VisionRunConfig(
        recipe="vision",
        optimizer=_OPTIMIZER,
        schedule=ScheduleConfig(kind="cosine", warmup=100, final=0.01),
        evaluation=VisionEvaluationConfig(every=500),
    )


def vision_digits() -> VisionRunConfig:
    """Handwritten digits of 8 x 8 pixels, from the package scikit-learn: nothing to download.

    Under two minutes on one core, for 97 % and more of the held-out digits.
    """
    model = VisionModelConfig(patch_size=2, model_dim=64, num_heads=4, ffn_dim=128, num_layers=4)
    return VisionRunConfig(
        recipe="vision-digits",
        data=LabelledImageDataConfig(train=("digits",), held_out=0.2),
        augmentation=AugmentationConfig(flip=0.0, padding=1),
        model=model,
        optimizer=_OPTIMIZER,
        schedule=ScheduleConfig(kind="cosine", warmup=50, final=0.01),
        training=VisionTrainingConfig(steps=920, average=0.99),
        evaluation=VisionEvaluationConfig(every=200),
        checkpoint=CheckpointConfig(every=400),
    )


def sound() -> VisionRunConfig:
    """What a sound is: spoken words, bells, birds; WAV files in a folder for each class.

    A sound is read as its log-mel spectrogram, 64 bands and 100 frames a second, in patches of all
    bands and 4 frames: a Vision Transformer that hears. Costs and scores: docs/results.md.
    """
    return VisionRunConfig(
        recipe="sound",
        data=LabelledImageDataConfig(fit="pad"),
        augmentation=AugmentationConfig(flip=0.0, padding=4, erase=0.25),
        model=VisionModelConfig(patch_size=64, patch_width=4),
        optimizer=_OPTIMIZER,
        schedule=ScheduleConfig(kind="cosine", warmup=50, final=0.01),
        training=VisionTrainingConfig(average=0.99),
        evaluation=VisionEvaluationConfig(every=200),
        checkpoint=CheckpointConfig(every=200),
    )
