"""The images of an image classifier: their check, those of an evaluation, and batches of augmented
and mixed images."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from headway.base.errors import UsageError
from headway.base.shapes import Float, Int, Tensor
from headway.bundle import Bundle
from headway.data.augmentation import AugmentationConfig, augmented, mixup_weight, view_generator
from headway.data.image_corpus import ImageCorpus, ImageExamples, examples_of_images
from headway.data.image_reader import Normalise
from headway.data.image_sources import read_images
from headway.data.stream import Batch, Indices
from headway.tasks.image_classification.config import VisionRunConfig
from headway.tasks.image_data import check_images, columns_of, images_of_run, labelled_images
from headway.tasks.sections import RunSettings
from headway.tasks.task import NoOptions


def check(config: VisionRunConfig) -> None:
    """Raise UsageError if images are missing, or if settings conflict."""
    check_images(config.data, config.recipe)
    training = config.training
    if config.model.projection == "pca" and training.start is not None:
        raise UsageError(
            "model.projection=pca is for training from scratch; the pre-trained model has its own "
            "patch projection",
            hint="leave out --model.projection, or --from",
        )
    if training.frozen is not None and training.start is None:
        raise UsageError(
            "training.frozen freezes blocks of a pre-trained model, and none is named",
            hint="--from MODEL",
        )


def images_of_files(
    bundle: Bundle, paths: Sequence[Path], config: RunSettings | None, options: NoOptions
) -> ImageExamples:
    """Read all images of files and folders, with their classes.

    config: the configuration of the model's run, which names the columns of .parquet files.
    """
    return examples_of_images(read_images([str(path) for path in paths], columns_of(config)).every)


def held_out_images(
    bundle: Bundle, run: Path, config: RunSettings, options: NoOptions
) -> ImageExamples:
    """Read the held-out images of a run."""
    return examples_of_images(labelled_images(images_of_run(config, run)).valid)


@dataclass(frozen=True)
class ImageBatch(Batch):
    """A batch of labelled images.

    images: normalised input of the model. targets: class of each image. mixed_targets: class of the
    image mixed in by mixup, and mixing_weights: mixing weight of the first image; without mixup,
    the target again and 1. indices: indices of the images in the corpus.
    """

    examples = "images"
    images: Float[Tensor, "B C Y X"]
    targets: Int[Tensor, " B"]
    mixed_targets: Int[Tensor, " B"]
    mixing_weights: Float[Tensor, " B"]
    indices: tuple[int, ...] = ()


@dataclass(frozen=True)
class AugmentedImages:
    """Makes batches of a corpus. The augmentation and mixup of an image depend only on (seed,
    epoch, its index)."""

    corpus: ImageCorpus
    normalise: Normalise
    config: AugmentationConfig
    seed: int

    def batch(self, indices: Indices, epoch: int) -> ImageBatch:
        """Return the images with these indices, augmented as in epoch `epoch`, as a batch."""
        chosen = [int(index) for index in indices]
        views = [self._seen(index, epoch) for index in chosen]
        images = torch.stack([image for image, _, _ in views])
        labels = self.corpus.labels
        return ImageBatch(
            self.normalise(images * 255),
            torch.tensor([int(labels[index]) for index in chosen]),
            torch.tensor([int(labels[other]) for _, other, _ in views]),
            torch.tensor([weight for _, _, weight in views]),
            tuple(chosen),
        )

    def _seen(self, index: int, epoch: int) -> tuple[Tensor, int, float]:
        """Return (augmented image, index of the image mixed in, mixing weight of the first)."""
        random = view_generator(self.seed, epoch, index)
        image = augmented(self.corpus.image(index), self.config, random)
        if not self.config.mixup:
            return image, index, 1.0
        weight = mixup_weight(self.config.mixup, random)
        other_index = int(random.integers(len(self.corpus)))
        other_image = augmented(self.corpus.image(other_index), self.config, random)
        return torch.lerp(other_image, image, weight), other_index, weight
