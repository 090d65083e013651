"""The job of a self-distillation run: trains a Vision Transformer without labels.

Caron et al. 2021 (DINO). Labels of the images are used for the scores only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from headway.base.devices import Machine
from headway.base.settings import override
from headway.blocks import PrototypeHead
from headway.bundle import ImageEncoderBundle, ImageEncoding
from headway.data.image_examples import PreparedExamples
from headway.data.stream import Batches, Shuffled
from headway.models import SelfDistilled, ViT, initialise_vit
from headway.tasks.image_data import PreparedImages, prepare_labelled_images
from headway.tasks.image_start import decided_settings, load_image_encoder
from headway.tasks.job import Emit, Example, Job, prepare_blocks, update_size
from headway.tasks.self_distillation.config import DinoRunConfig
from headway.tasks.self_distillation.data import NeighbourExamples
from headway.tasks.self_distillation.evaluation import NeighbourOptions
from headway.tasks.self_distillation.multi_crop import Views
from headway.tasks.self_distillation.objective import SelfDistillationObjective
from headway.training import Stream


class DinoJob:
    """A `Job` that trains a ViT on images. start: the pre-trained encoder, or None."""

    def __init__(
        self,
        config: DinoRunConfig,
        prepared: PreparedImages,
        start: ImageEncoding | None,
        machine: Machine,
    ) -> None:
        decided = decided_settings(config.model, prepared.reader, start)
        if len(prepared.labels) < 2:
            decided["evaluation.metric"] = "spread"
        self.config: DinoRunConfig = override(config, decided, "the images")
        self.prepared, self.start, self.machine = prepared, start, machine
        model, training = self.config.model, self.config.training
        train, normalise = prepared.train, prepared.reader.normalised
        self.views = Views(train, normalise, config.views, model.patch, training.seed)
        order = Shuffled(len(train), training.batch_size, training.seed)
        self.train_batches = Batches(order, self.views.batch, machine.device)
        self.held_out = NeighbourExamples(
            PreparedExamples(prepared.valid), PreparedExamples(prepared.train)
        )
        self.evaluation = NeighbourOptions(
            known_limit=config.evaluation.images, neighbours=config.evaluation.neighbours
        )
        self.objective = SelfDistillationObjective(config.teacher, training.steps)

    def build(self) -> nn.Module:
        config = self.config
        shape = config.model.vit
        vit = ViT(shape) if self.start is None else initialise_vit(self.start.vit, shape)
        head = PrototypeHead(
            shape.model_dim,
            config.model.hidden_dim,
            config.model.bottleneck,
            config.model.prototypes,
        )
        model = SelfDistilled(vit, head, config.teacher.teacher_start)
        prepare_blocks(model, config.training, config.machine)
        return model

    def stream(self, epoch: int, position: int) -> Stream:
        return self.train_batches.stream(epoch, position)

    def example(self) -> Example:
        return Example(self.prepared.valid.pixels[0].transpose(1, 2, 0))

    def bundle(self, model: Any) -> ImageEncoderBundle:
        """Return the teacher, which is better than the student (Caron et al. 2021, section 5.2)."""
        return ImageEncoderBundle(model.teacher, self.prepared.reader)

    def plan(self) -> dict[str, Any]:
        model, training, views = self.config.model, self.config.training, self.config.views
        small = self.views.small
        examples = update_size(training, self.train_batches.examples_per_epoch)
        return {
            "model": f"{model.described}, and a teacher",
            "batches": f"{examples:,} images, each in "
            f"{views.global_crops} large views and {views.local_crops} of {small[0]} x {small[1]}",
            "batches_per_epoch": self.train_batches.batches_per_epoch,
            "unit": "images",
        }


def prepare(config: DinoRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
    """Load the pre-trained encoder, and prepare images of one size."""
    start = load_image_encoder(config.training.start, "an image encoder")
    reader = None if start is None else start.reader
    images = prepare_labelled_images(
        config.data, config.model, reader, folder, emit, least_classes=1
    )
    return DinoJob(config, images, start, machine)
