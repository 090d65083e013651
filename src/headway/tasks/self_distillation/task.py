"""The task of self-distillation: job, evaluation, output, and the record that names them.

Caron et al. 2021 (DINO). Labels of the images are used for the scores only: the quality of
embeddings without fine-tuning, by k-nearest-neighbour and linear classification.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F

from headway import interop
from headway.base.chunks import chunks
from headway.base.devices import Machine
from headway.base.errors import DataError
from headway.base.settings import override
from headway.base.shapes import Float, Int, Tensor
from headway.base.sharing import Share
from headway.blocks import PrototypeHead
from headway.bundle import ImageEncoderBundle, ImageEncoding
from headway.data.image_corpus import ImageExamples, examples_of_corpus
from headway.data.image_reader import IMAGES_AT_ONCE
from headway.data.split import evenly_spaced
from headway.data.stream import Batches, Shuffled
from headway.evaluation.scores import Metric, Scores
from headway.models import SelfDistilled, ViT, initialise_vit
from headway.tasks.image_data import (
    PreparedImages,
    decided_settings,
    load_image_encoder,
    prepare_labelled_images,
)
from headway.tasks.job import Emit, Example, Job, Summary, prepare_blocks, update_size
from headway.tasks.self_distillation.config import DinoRunConfig, NeighbourOptions, dino
from headway.tasks.self_distillation.data import (
    NeighbourExamples,
    check,
    held_out_images,
    images_of_files,
)
from headway.tasks.self_distillation.multi_crop import ViewBatch, Views
from headway.tasks.self_distillation.objective import SelfDistillationObjective
from headway.tasks.task import BundleSpec, Task, shown_as

CHUNK = 512


def knn_accuracy(
    vectors: Float[Tensor, "N D"],
    classes: Int[Tensor, " N"],
    queries: Float[Tensor, "M D"],
    true: Int[Tensor, " M"],
    k: int = 20,
    temperature: float = 0.07,
) -> float:
    """Return the k-nearest-neighbour accuracy: the fraction of queries with the correct class.

    vectors, classes: labelled examples. queries, true: examples to classify. The predicted class is
    argmax_c of the sum, over the k nearest neighbours i of class c, of exp(cos(query, vector_i) /
    temperature). Wu et al. 2018, section 3.4; Caron et al. 2021, section 4.1.
    """
    if not len(vectors) or not len(queries):
        raise ValueError(f"{len(vectors)=} and {len(queries)=} must not be 0")
    vectors, num_classes = F.normalize(vectors.float(), dim=-1), int(classes.max()) + 1
    correct = 0
    for start in range(0, len(queries), CHUNK):
        chunk = F.normalize(queries[start : start + CHUNK].float(), dim=-1)
        nearest = (chunk @ vectors.T).topk(min(k, len(vectors)), dim=-1)
        votes = torch.zeros(len(chunk), num_classes)
        weights = (nearest.values / temperature).exp()
        votes.scatter_add_(1, classes[nearest.indices].long(), weights)
        correct += int((votes.argmax(-1) == true[start : start + CHUNK]).sum())
    return correct / len(queries)


def linear_accuracy(
    vectors: Float[Tensor, "N D"],
    classes: Int[Tensor, " N"],
    queries: Float[Tensor, "M D"],
    true: Int[Tensor, " M"],
    penalty: float = 1e-3,
) -> float:
    """Return the accuracy on the queries of a linear classifier of the labelled vectors.

    The classifier minimises mean cross-entropy + penalty |W|^2 / 2 over vectors that are
    standardised to mean 0 and variance 1 per dimension. Caron et al. 2021, section 4.1 (linear
    evaluation); by L-BFGS from 0, so that the result does not depend on a random seed.
    """
    mean, deviation = vectors.float().mean(0), vectors.float().std(0).clamp_min(1e-6)
    x, y = (vectors.float() - mean) / deviation, classes.long()
    weight = torch.zeros(int(classes.max()) + 1, x.shape[1], requires_grad=True)
    bias = torch.zeros(len(weight), requires_grad=True)
    search = torch.optim.LBFGS([weight, bias], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> float:
        search.zero_grad()
        value = F.cross_entropy(x @ weight.T + bias, y) + penalty / 2 * weight.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return float(value.detach())

    with torch.enable_grad():
        search.step(loss)  # type: ignore[no-untyped-call]
    logits = ((queries.float() - mean) / deviation) @ weight.detach().T + bias.detach()
    return float((logits.argmax(-1) == true).float().mean())


def spread(vectors: Float[Tensor, "N D"]) -> float:
    """Return how evenly the vectors are spread over all directions, from 0 (collapsed) to 1.

    It is sqrt(D) times the standard deviation per dimension of the vectors scaled to length 1,
    averaged over dimensions. Chen and He 2021, section 4.1.
    """
    unit = F.normalize(vectors.float(), dim=-1)
    return float(unit.std(0, correction=0).mean() * unit.shape[1] ** 0.5)


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


def evaluate(
    bundle: ImageEncoderBundle, examples: NeighbourExamples, options: NeighbourOptions, share: Share
) -> Scores:
    """Compute k-nearest-neighbour accuracy, accuracy of a linear classifier, and spread of vectors.

    If the labelled neighbours have only one label, the spread is the only score. The vector of an
    image is that of [CLS], or the mean of its patches' if there is no [CLS]. Caron et al. 2021,
    section 4.1. Raises DataError for a label that no neighbour has.
    """
    known, images = examples.known, examples.images
    numbers = {label: i for i, label in enumerate(sorted(set(known.labels)))}
    for i, label in enumerate(images.labels):
        if label not in numbers:
            raise DataError(
                f"no labelled neighbour has the class {label!r}",
                images.where(i),
                "add images of that class to --known",
            )
    if not len(images) or not len(known):
        missing = "labelled images as neighbours" if len(images) else "images to evaluate"
        raise DataError(f"no {missing}")
    chosen = evenly_spaced(len(known), options.known_limit)
    share = share.in_examples(len(examples), len(images) + len(chosen))
    vectors = _vectors(bundle, images, range(len(images)), share)
    metrics = [Metric("spread", spread(vectors))]
    counts = {"known": len(chosen), "images": len(images)}
    if len(numbers) > 1:
        known_vectors = _vectors(bundle, known, chosen, share.after(len(images)))
        labels = _numbers(known, chosen, numbers)
        true = _numbers(images, range(len(images)), numbers)
        with torch.autocast("cpu", enabled=False):
            nearest = knn_accuracy(known_vectors, labels, vectors, true, options.neighbours)
            linear = linear_accuracy(known_vectors, labels, vectors, true)
        metrics = [Metric("knn", nearest), Metric("linear", linear), *metrics]
    return Scores(tuple(metrics), counts)


def _vectors(
    bundle: ImageEncoderBundle,
    images: ImageExamples,
    chosen: Sequence[int],
    share: Share,
) -> Float[Tensor, "N D"]:
    """Compute the vectors of the chosen images, on the CPU."""

    def compute(batch: Sequence[int]) -> Float[Tensor, "B D"]:
        return bundle.encode(images.batch(batch, bundle.reader).to(bundle.device)).cpu()

    return torch.cat(share.each(chunks(chosen, IMAGES_AT_ONCE), compute, len))


def _numbers(
    images: ImageExamples, chosen: Sequence[int], numbers: dict[str, int]
) -> Int[Tensor, " N"]:
    labels = images.labels
    return torch.tensor([numbers[labels[i]] for i in chosen])


def from_hugging_face(model: ViT, folder: Path, model_type: str) -> ImageEncoderBundle:
    """Make a bundle of the model with the image reader of the folder."""
    return ImageEncoderBundle(model, interop.read_image_reader(folder, model.config, model_type))


def to_hugging_face(bundle: ImageEncoderBundle, folder: Path, family: str | None) -> str:
    """Write a Hugging Face folder with the image encoder and its image reader."""
    return interop.write_image_model(bundle.model, bundle.reader, folder, family)


SELF_DISTILLATION = Task(
    name="self_distillation",
    config=DinoRunConfig,
    recipes={"dino": dino},
    check=check,
    prepare=prepare,
    evaluation=NeighbourOptions,
    score=evaluate,
    read=images_of_files,
    held_out=held_out_images,
    show_scores=shown_as("{metrics}   {images:,} images, {known:,} labelled images as neighbours"),
    bundles={"vit": BundleSpec(ImageEncoderBundle, from_hugging_face, to_hugging_face)},
    next_commands=("embed {run} IMAGES --plot images.png", "eval {run}"),
)
