"""The job of an image classification run: trains a Vision Transformer, or fine-tunes an encoder.

Dosovitskiy et al. 2021, section 3; training on few images: Touvron et al. 2021.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from headway.base.devices import Machine
from headway.base.settings import override
from headway.base.shapes import Float, Tensor
from headway.blocks import patchify
from headway.bundle import ImageEncoding
from headway.data.image_examples import ImageExamples, examples_of_corpus
from headway.data.stream import Batches, Shuffled
from headway.models import ViT, ViTClassifier, ViTConfig, initialise_vit
from headway.tasks.image_classification.batches import AugmentedImages, ImageBatch
from headway.tasks.image_classification.bundle import ImageClasses, ImageClassifierBundle
from headway.tasks.image_classification.config import EPOCHS, VisionRunConfig
from headway.tasks.image_data import (
    PreparedImages,
    decided_settings,
    load_image_encoder,
    prepare_labelled_images,
)
from headway.tasks.job import (
    Emit,
    Example,
    Job,
    Summary,
    planned_steps,
    prepare_blocks,
    update_size,
)
from headway.tasks.task import NO_OPTIONS, NoOptions
from headway.training import ImageObjective

PRINCIPAL = 2000
"""Number of images of whose patches the principal components are computed."""

VisionJob = Job[ImageBatch, ImageExamples, NoOptions]


def vision_job(
    config: VisionRunConfig,
    prepared: PreparedImages,
    start: ImageEncoding | None,
    machine: Machine,
) -> VisionJob:
    """Return the job that trains a ViT on labelled images. start: the pre-trained encoder, or None.

    Raises UsageError if a requested setting differs from the pre-trained model's.
    """
    train, training, classes = prepared.train, config.training, len(prepared.labels)
    images = AugmentedImages(train, prepared.reader.normalised, config.augmentation, training.seed)
    order = Shuffled(len(train), training.batch_size, training.seed)
    batches = Batches(order, images.batch, machine.device)
    decided: dict[str, Any] = planned_steps(training, batches.batches_per_epoch, 1, EPOCHS)
    decided |= decided_settings(config.model, prepared.reader, start)
    origin = "the images" if start is None else "the pre-trained model"
    config = override(config, decided, origin)

    def build() -> ViTClassifier:
        shape = config.model.vit
        vit = ViT(shape) if start is None else initialise_vit(start.vit, shape)
        if config.model.projection == "pca":
            vit.embedding.patches.fix(_some_patches(prepared, shape, training.seed))
        model = ViTClassifier(vit, classes, config.model.pooling, config.model.head_dropout)
        return prepare_blocks(model, config.training, config.machine)

    unit = "sounds" if config.recipe == "sound" else "images"
    return Job(
        config=config,
        build=build,
        batches=batches,
        objective=ImageObjective(training.smoothing),
        held_out=examples_of_corpus(prepared.valid),
        evaluation=NO_OPTIONS,
        bundle=lambda model: ImageClassifierBundle(
            model, ImageClasses(prepared.reader, prepared.labels)
        ),
        summary=Summary(
            model=f"{config.model.described}, {classes} classes",
            batches=f"{update_size(training, batches.examples_per_epoch):,} {unit}",
            unit=unit,
        ),
        example=Example(prepared.valid.pixels[0].transpose(1, 2, 0)),
    )


def _some_patches(prepared: PreparedImages, shape: ViTConfig, seed: int) -> Float[Tensor, "N I"]:
    """Return patches of randomly chosen training images; the seed decides which."""
    train = prepared.train
    chosen = np.sort(np.random.default_rng(seed).permutation(len(train))[:PRINCIPAL])
    images = prepared.reader.normalised(torch.from_numpy(train.pixels[chosen]))
    return patchify(images, *shape.patch).flatten(0, 1)


def prepare(config: VisionRunConfig, folder: Path, machine: Machine, emit: Emit) -> VisionJob:
    """Load the pre-trained encoder, and prepare images of one size."""
    start = load_image_encoder(config.training.start, "an image classifier")
    reader = None if start is None else start.reader
    images = prepare_labelled_images(config.data, config.model, reader, folder, emit)
    return vision_job(config, images, start, machine)
