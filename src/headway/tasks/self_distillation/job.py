"""The job of a self-distillation run: trains a Vision Transformer without labels.

Caron et al. 2021 (DINO). Labels of the images are used for the scores only.
"""

from __future__ import annotations

from pathlib import Path

from headway.base.devices import Machine
from headway.base.settings import override
from headway.blocks import PrototypeHead
from headway.bundle import ImageEncoderBundle, ImageEncoding
from headway.data.image_examples import examples_of_corpus
from headway.data.stream import Batches, Shuffled
from headway.models import SelfDistilled, ViT, initialise_vit
from headway.tasks.image_data import PreparedImages, prepare_labelled_images
from headway.tasks.image_start import decided_settings, load_image_encoder
from headway.tasks.job import Emit, Example, Job, Summary, prepare_blocks, update_size
from headway.tasks.self_distillation.config import DinoRunConfig, NeighbourOptions
from headway.tasks.self_distillation.data import NeighbourExamples
from headway.tasks.self_distillation.multi_crop import ViewBatch, Views
from headway.tasks.self_distillation.objective import SelfDistillationObjective

DinoJob = Job[ViewBatch, NeighbourExamples, NeighbourOptions]


def dino_job(
    config: DinoRunConfig,
    prepared: PreparedImages,
    start: ImageEncoding | None,
    machine: Machine,
) -> DinoJob:
    """Return the job that trains a ViT on images. start: the pre-trained encoder, or None.

    The bundle is that of the teacher, which is better than the student (Caron et al. 2021,
    section 5.2).
    """
    decided = decided_settings(config.model, prepared.reader, start)
    if len(prepared.labels) < 2:
        decided["evaluation.metric"] = "spread"
    config = override(config, decided, "the images")
    model, training, crops = config.model, config.training, config.views
    train, normalise = prepared.train, prepared.reader.normalised
    views = Views(train, normalise, crops, model.patch, training.seed)
    order = Shuffled(len(train), training.batch_size, training.seed)
    batches = Batches(order, views.batch, machine.device)

    def build() -> SelfDistilled:
        shape = model.vit
        vit = ViT(shape) if start is None else initialise_vit(start.vit, shape)
        head = PrototypeHead(shape.model_dim, model.hidden_dim, model.bottleneck, model.prototypes)
        network = SelfDistilled(vit, head, config.teacher.teacher_start)
        return prepare_blocks(network, training, config.machine)

    images = f"{update_size(training, batches.examples_per_epoch):,} images"
    height, width = views.small
    return Job(
        config=config,
        build=build,
        batches=batches,
        objective=SelfDistillationObjective(config.teacher, training.steps),
        held_out=NeighbourExamples(
            examples_of_corpus(prepared.valid), examples_of_corpus(prepared.train)
        ),
        evaluation=NeighbourOptions(
            known_limit=config.evaluation.images, neighbours=config.evaluation.neighbours
        ),
        bundle=lambda trained: ImageEncoderBundle(trained.teacher, prepared.reader),
        summary=Summary(
            model=f"{model.described}, and a teacher",
            batches=f"{images}, each in {crops.global_crops} large views and "
            f"{crops.local_crops} of {height} x {width}",
            unit="images",
        ),
        example=Example(prepared.valid.pixels[0].transpose(1, 2, 0)),
    )


def prepare(config: DinoRunConfig, folder: Path, machine: Machine, emit: Emit) -> DinoJob:
    """Load the pre-trained encoder, and prepare images of one size."""
    start = load_image_encoder(config.training.start, "an image encoder")
    reader = None if start is None else start.reader
    images = prepare_labelled_images(
        config.data, config.model, reader, folder, emit, least_classes=1
    )
    return dino_job(config, images, start, machine)
