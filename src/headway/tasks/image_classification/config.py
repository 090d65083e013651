"""Configuration of an image classification run, and its recipes."""

from dataclasses import dataclass
from typing import Literal

from headway.base.settings import BATCH, count, fraction, section, setting
from headway.data.augmentation import AugmentationConfig
from headway.models.vit_classifier import ImagePooling
from headway.tasks.image_config import (
    ImageEncoderSettings,
    LabelledImageDataConfig,
    decided_by_images,
)
from headway.tasks.sections import (
    FineTuningConfig,
    ObservationConfig,
    RunSettings,
    averaging,
    desired_updates,
    unset_settings,
)
from headway.training import OptimizerConfig

EPOCHS = 30.0
"""Number of epochs if neither steps nor epochs are set."""


@dataclass(frozen=True, kw_only=True)
class VisionModelConfig(ImageEncoderSettings):
    """The shape of the encoder, and its classification head.

    With --from, the shape is that of the pre-trained model; dropout and image_size can be set.
    """

    projection: Literal["learned", "pca"] = setting(
        "learned",
        "patch projection: a trained matrix, or the principal components of the training patches",
    )
    pooling: ImagePooling = setting(
        "mean",
        "pooling: the vector of [CLS], the mean of the patch vectors, or both concatenated",
    )
    head_dropout: float = fraction(0.0, "dropout probability of the pooled vector before the head")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pooling != "mean" and not self.class_token:
            raise ValueError(f"pooling={self.pooling} needs [CLS]: class_token must be true")
        if self.projection == "pca" and self.model_dim > self._numbers:
            raise ValueError(
                f"projection=pca: patches of {self._numbers} values have at most {self._numbers} "
                f"principal components, and model_dim is {self.model_dim}"
            )

    @property
    def _numbers(self) -> int:
        """The number of values of a patch; with 3 channels if their number is not yet known."""
        return self.patch[0] * self.patch[1] * (self.channels or 3)


@dataclass(frozen=True, kw_only=True)
class VisionTrainingConfig(FineTuningConfig):
    """Settings of the training loop of an image classifier."""

    average: float = averaging(0.998)
    updates: int = desired_updates(300)
    batch_size: int = count(64, "batch size, in images", BATCH)
    smoothing: float = fraction(0.1, "label smoothing")
    start: str | None = setting(
        None,
        "pre-trained image encoder to fine-tune: a run or a model (short: --from); if unset, "
        "training from scratch",
    )


@dataclass(frozen=True, kw_only=True)
class VisionEvaluationConfig(ObservationConfig):
    """Settings of the evaluation during training."""

    metric: Literal["accuracy", "macro_f1", "loss"] = setting(
        "accuracy", "metric that selects the best model"
    )


@dataclass(frozen=True, kw_only=True)
class VisionRunConfig(RunSettings):
    """Configuration of an image classification run."""

    data: LabelledImageDataConfig = section(LabelledImageDataConfig)
    augmentation: AugmentationConfig = section(AugmentationConfig, after="data")
    model: VisionModelConfig = section(VisionModelConfig)
    training: VisionTrainingConfig = section(VisionTrainingConfig)
    evaluation: VisionEvaluationConfig = section(VisionEvaluationConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        decided = decided_by_images(self.model, self.training.start)
        return decided | unset_settings(self, "training.steps")


_OPTIMIZER = OptimizerConfig(
    kind="muon", lr=3e-3, muon_lr=1e-2, beta2=0.99, eps=1e-8, weight_decay=0.05
)


def vision() -> VisionRunConfig:
    """An image classifier (Vision Transformer) trained on your own images: 6 layers, width 128.

    Patches of 4 x 4 pixels, for a few thousand small images on a laptop; --model.size b for
    photographs on a GPU. Sinusoidal positions and Muon need a fraction of the epochs of the paper's
    settings, which are those of Hugging Face: --model.positions learned --model.pooling first
    --optimizer.kind adamw --optimizer.lr 1e-3. --from MODEL fine-tunes a pre-trained encoder (a
    run, or a folder of ViT, DINO or DINOv2); add --optimizer.kind adamw --optimizer.lr 1e-4 then.
    """
    return VisionRunConfig(
        recipe="vision",
        optimizer=_OPTIMIZER,
        training=VisionTrainingConfig(sizes=("mini",)),
    )


def vision_digits() -> VisionRunConfig:
    """Handwritten digits of 8 x 8 pixels, from the package scikit-learn: nothing to download.

    Under two minutes on one core, for 97 % accuracy or more on the held-out digits.
    """
    model = VisionModelConfig(patch_size=2, model_dim=64, num_heads=4, ffn_dim=128, num_layers=4)
    return VisionRunConfig(
        recipe="vision-digits",
        data=LabelledImageDataConfig(train=("digits",), held_out=0.2),
        augmentation=AugmentationConfig(flip=0.0, padding=1),
        model=model,
        optimizer=_OPTIMIZER,
        training=VisionTrainingConfig(steps=920, average=0.99),
    )


def sound() -> VisionRunConfig:
    """A sound classifier (spoken words, bells, birds): WAV files in a folder for each class.

    A Vision Transformer on log-mel spectrograms with 64 bands and 100 frames per second; a patch
    has all bands of 4 frames. Costs and scores: docs/results.md.
    """
    return VisionRunConfig(
        recipe="sound",
        data=LabelledImageDataConfig(fit="pad"),
        augmentation=AugmentationConfig(flip=0.0, padding=4, erase=0.25),
        model=VisionModelConfig(patch_size=64, patch_width=4),
        optimizer=_OPTIMIZER,
        training=VisionTrainingConfig(average=0.99, sizes=("mini",)),
    )
