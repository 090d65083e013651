"""The named recipes of models that look at pictures; costs and scores as in `catalogue`."""

from __future__ import annotations

from headway.data.augmentation import AugmentationConfig
from headway.recipes.dino_config import DinoEvaluationConfig, DinoModelConfig, DinoRunConfig
from headway.recipes.vision_config import (
    VisionDataConfig,
    VisionEvaluationConfig,
    VisionModelConfig,
    VisionRunConfig,
    VisionTrainingConfig,
)
from headway.tasks.sections import CheckpointConfig
from headway.training import OptimizerConfig, ScheduleConfig

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
        data=VisionDataConfig(train=("digits",), held_out=0.2),
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
        data=VisionDataConfig(fit="pad"),
        augmentation=AugmentationConfig(flip=0.0, padding=4, erase=0.25),
        model=VisionModelConfig(patch_size=64, patch_width=4),
        optimizer=_OPTIMIZER,
        schedule=ScheduleConfig(kind="cosine", warmup=50, final=0.01),
        training=VisionTrainingConfig(average=0.99),
        evaluation=VisionEvaluationConfig(every=200),
        checkpoint=CheckpointConfig(every=200),
    )


def dino() -> DinoRunConfig:
    """An encoder of pictures that learns without labels: DINO, with a momentum teacher and
    multi-crop.

    For some thousand small pictures on a laptop; costs and scores: docs/results.md. Classes, where
    the pictures stand in folders of them, are for the scores alone. headway train vision PICTURES
    --from RUN goes on with labels.
    """
    return DinoRunConfig(
        recipe="dino",
        model=DinoModelConfig(),
        optimizer=OptimizerConfig(lr=1e-3, beta2=0.999, eps=1e-8, weight_decay=0.04),
        schedule=ScheduleConfig(kind="cosine", warmup=100, final=0.01),
        evaluation=DinoEvaluationConfig(every=250),
        checkpoint=CheckpointConfig(every=250),
    )
