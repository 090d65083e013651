"""The job of an image classification run: trains a Vision Transformer, or fine-tunes an encoder.

Dosovitskiy et al. 2021, section 3; training on few images: Touvron et al. 2021.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from headway.base.devices import Machine
from headway.base.settings import override
from headway.base.shapes import Float, Tensor
from headway.blocks import patchify
from headway.bundle import ImageEncoding
from headway.data.image_examples import PreparedExamples
from headway.data.stream import Batches, Shuffled
from headway.models import ViT, ViTClassifier, ViTConfig, initialise_vit
from headway.tasks.image_classification.batches import AugmentedImages
from headway.tasks.image_classification.bundle import ImageClasses, ImageClassifierBundle
from headway.tasks.image_classification.config import EPOCHS, VisionRunConfig
from headway.tasks.image_data import PreparedImages, prepare_labelled_images
from headway.tasks.image_start import decided_settings, load_image_encoder
from headway.tasks.job import Emit, Example, Job, planned_steps, prepare_blocks, update_size
from headway.tasks.task import NO_OPTIONS
from headway.training import ImageObjective, Stream

PRINCIPAL = 2000
"""Number of images of whose patches the principal components are computed."""


class VisionJob:
    """A `Job` that trains a ViT on labelled images. start: the pre-trained encoder, or None."""

    def __init__(
        self,
        config: VisionRunConfig,
        prepared: PreparedImages,
        start: ImageEncoding | None,
        machine: Machine,
    ) -> None:
        self.prepared, self.start, self.machine = prepared, start, machine
        self.held_out, self.evaluation = PreparedExamples(prepared.valid), NO_OPTIONS
        train, training = prepared.train, config.training
        images = AugmentedImages(
            train, prepared.reader.normalised, config.augmentation, training.seed
        )
        order = Shuffled(len(train), training.batch_size, training.seed)
        self.train_batches = Batches(order, images.batch, machine.device)
        self.config = _fitted(config, prepared, start, self.train_batches.batches_per_epoch)
        self.objective = ImageObjective(config.training.smoothing)

    def build(self) -> nn.Module:
        config = self.config
        shape = config.model.vit
        vit = ViT(shape) if self.start is None else initialise_vit(self.start.vit, shape)
        if config.model.projection == "pca":
            vit.embedding.patches.fix(self._some_patches(shape))
        classes = len(self.prepared.labels)
        model = ViTClassifier(vit, classes, config.model.pooling, config.model.head_dropout)
        prepare_blocks(model, config.training, config.machine)
        return model

    def _some_patches(self, shape: ViTConfig) -> Float[Tensor, "N I"]:
        """Return patches of randomly chosen training images; the seed decides which."""
        train = self.prepared.train
        random = np.random.default_rng(self.config.training.seed)
        chosen = np.sort(random.permutation(len(train))[:PRINCIPAL])
        images = self.prepared.reader.normalised(torch.from_numpy(train.pixels[chosen]))
        return patchify(images, *shape.patch).flatten(0, 1)

    def stream(self, epoch: int, position: int) -> Stream:
        return self.train_batches.stream(epoch, position)

    def example(self) -> Example:
        return Example(self.prepared.valid.pixels[0].transpose(1, 2, 0))

    def bundle(self, model: Any) -> ImageClassifierBundle:
        return ImageClassifierBundle(
            model, ImageClasses(self.prepared.reader, self.prepared.labels)
        )

    def plan(self) -> dict[str, Any]:
        model, training = self.config.model, self.config.training
        unit = "sounds" if self.config.recipe == "sound" else "images"
        examples = update_size(training, self.train_batches.examples_per_epoch)
        return {
            "model": f"{model.described}, {len(self.prepared.labels)} classes",
            "batches": f"{examples:,} {unit}",
            "batches_per_epoch": self.train_batches.batches_per_epoch,
            "unit": unit,
        }


def _fitted(
    config: VisionRunConfig, prepared: PreparedImages, start: ImageEncoding | None, batches: int
) -> VisionRunConfig:
    """Set the settings that the images and the pre-trained model decide.

    Raises UsageError if a requested setting differs from the pre-trained model's.
    """
    decided: dict[str, Any] = planned_steps(config.training, batches, 1, EPOCHS)
    decided |= decided_settings(config.model, prepared.reader, start)
    return override(config, decided, "the images" if start is None else "the pre-trained model")


def prepare(config: VisionRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
    """Load the pre-trained encoder, and prepare images of one size."""
    start = load_image_encoder(config.training.start, "an image classifier")
    reader = None if start is None else start.reader
    images = prepare_labelled_images(config.data, config.model, reader, folder, emit)
    return VisionJob(config, images, start, machine)
