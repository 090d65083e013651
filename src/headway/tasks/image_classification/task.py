"""The task of image classification: job, evaluation, output, and the record that names them.

A Vision Transformer, from scratch or pre-trained. Dosovitskiy et al. 2021, section 3; training on
few images: Touvron et al. 2021.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from headway.base.chunks import chunks
from headway.base.devices import Machine
from headway.base.errors import DataError
from headway.base.settings import override
from headway.base.shapes import Float, Tensor
from headway.base.sharing import Share
from headway.blocks import patchify
from headway.bundle import (
    ClassifiedImage,
    ImageClassOptions,
    ImageEncoding,
    ImageInput,
    ImageTextBundle,
    ZeroShotClassifier,
    label_cells,
    label_scores,
)
from headway.data.image_corpus import ImageExamples, examples_of_corpus
from headway.data.image_reader import IMAGES_AT_ONCE
from headway.data.overlap import Sides
from headway.data.split import check_known
from headway.data.stream import Batches, Shuffled
from headway.evaluation import score_classes
from headway.evaluation.scores import Scores
from headway.models import ViT, ViTClassifier, ViTConfig, initialise_vit
from headway.tasks.image_classification.config import (
    EPOCHS,
    VisionRunConfig,
    sound,
    vision,
    vision_digits,
)
from headway.tasks.image_classification.data import (
    AugmentedImages,
    ImageBatch,
    check,
    held_out_images,
    images_of_files,
)
from headway.tasks.image_classification.model import (
    ImageClasses,
    ImageClassifierBundle,
    from_hugging_face,
    image_text_from_hugging_face,
    to_hugging_face,
)
from headway.tasks.image_config import LabelledImageDataConfig
from headway.tasks.image_data import (
    PreparedImages,
    decided_settings,
    digest,
    labelled_images,
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
from headway.tasks.task import (
    NO_OPTIONS,
    BundleSpec,
    NoOptions,
    Pipeline,
    Predicts,
    Styled,
    Task,
    shown_as,
)
from headway.training import ImageObjective

PRINCIPAL = 2000
"""Number of images of whose patches the principal components are computed."""

TOP = 5
"""k of the top-k accuracy, and the default number of labels of each image."""

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
    decided = {
        **planned_steps(training, batches.batches_per_epoch, 1, EPOCHS),
        **decided_settings(config.model, prepared.reader, start),
    }
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
        example=Example(
            prepared.valid.pixels[0].transpose(1, 2, 0),
            label=prepared.labels[prepared.valid.labels[0]],
        ),
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


def evaluate(
    bundle: ImageClassifierBundle | ImageTextBundle,
    images: ImageExamples,
    options: NoOptions,
    share: Share,
) -> Scores:
    """Evaluate an image classifier (`score_classes`).

    A model of images and texts chooses among the classes of the images (zero-shot). Raises
    DataError if there is no image, and for a class that the model does not have.
    """
    if not len(images):
        raise DataError("no images to evaluate")
    classifier: ImageClassifierBundle | ZeroShotClassifier
    if isinstance(bundle, ImageTextBundle):
        classifier = bundle.classifier(sorted({*images.labels}))
    else:
        classifier = bundle
    numbers = {label: i for i, label in enumerate(classifier.labels)}
    labelled = ((label, images.where(i)) for i, label in enumerate(images.labels))
    check_known(labelled, numbers, "class")

    def compute(chosen: Sequence[int]) -> Float[Tensor, "B C"]:
        return classifier.logits(images.batch(chosen, bundle.reader).to(bundle.device)).cpu()

    parts = share.each(chunks(range(len(images)), IMAGES_AT_ONCE), compute, len)
    true = [numbers[label] for label in images.labels]
    return score_classes(torch.cat(parts), true, classifier.labels, "images", TOP)


def prediction_lines(
    bundle: ImageClassifierBundle | ImageTextBundle,
    prediction: ClassifiedImage,
    options: ImageClassOptions,
) -> list[Styled]:
    """Format the file, then labels and probabilities, most probable first, separated by tabs."""
    cells = label_cells(prediction.probabilities, options.top or TOP)
    return [[("\t".join([prediction.file, *cells]), "")]]


def pipeline_form(
    bundle: ImageClassifierBundle | ImageTextBundle,
    prediction: ClassifiedImage,
    options: ImageClassOptions,
) -> list[dict[str, object]]:
    """Return the labels with their scores."""
    return label_scores(prediction.probabilities)


def sides(data: LabelledImageDataConfig) -> Sides:
    """Read the images of a run; only equal images are found."""
    found = labelled_images(data)
    return Sides(train=map(digest, found.train), held_out=map(digest, found.valid), are_texts=False)


IMAGE_CLASSIFICATION = Task(
    name="image_classification",
    config=VisionRunConfig,
    recipes={"vision": vision, "vision-digits": vision_digits, "sound": sound},
    check=check,
    prepare=prepare,
    evaluation=NoOptions,
    score=evaluate,
    read=images_of_files,
    held_out=held_out_images,
    sides=sides,
    show_scores=shown_as("{metrics}   {correct:,} of {images:,} images correct"),
    bundles={
        "vit-classifier": BundleSpec(ImageClassifierBundle, from_hugging_face, to_hugging_face),
        "image-text": BundleSpec(ImageTextBundle, image_text_from_hugging_face),
    },
    predicts=Predicts(
        input=ImageInput,
        options=ImageClassOptions,
        show=prediction_lines,
        pipeline=Pipeline(
            form=pipeline_form,
            option_names={
                "top_k": "top",
                "candidate_labels": "labels",
                "hypothesis_template": "template",
            },
        ),
    ),
    next_commands=("classify {run} FILES", "eval {run} --confusion confusion.png"),
)
