"""The images of the evaluation of an image encoder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.bundle import Bundle
from headway.data.formats.parquet import ImageColumns
from headway.data.image_corpus import ImageExamples, examples_of_images
from headway.data.image_sources import read_images
from headway.tasks.image_config import LabelledImageDataConfig
from headway.tasks.image_data import check_images, columns_of, images_of_run, labelled_images
from headway.tasks.self_distillation.config import DinoRunConfig, NeighbourOptions


@dataclass(frozen=True)
class NeighbourExamples:
    """Images to classify by nearest neighbours. known: the labelled images that are neighbours."""

    images: ImageExamples
    known: ImageExamples

    def __len__(self) -> int:
        return len(self.images)


def check(config: DinoRunConfig) -> None:
    """Raise UsageError if images are missing."""
    check_images(config.data, config.recipe)


def images_of_files(
    bundle: Bundle, paths: Sequence[Path], config: object, options: NeighbourOptions
) -> NeighbourExamples:
    """Read the images of files and folders.

    The labelled neighbours are those of `options.known`, or else nine tenths of the images at
    `paths`. config: the configuration of the model's run, which names the columns of .parquet
    files.
    """
    known = options.known
    sources, columns = tuple(map(str, paths)), columns_of(config)
    if known is None:
        return _split(LabelledImageDataConfig(train=sources), columns)
    return NeighbourExamples(_all_of(sources, columns), _all_of([str(known)], columns))


def held_out_images(
    bundle: Bundle, run: Path, config: object, options: NeighbourOptions
) -> NeighbourExamples:
    """Read the held-out images of a run.

    The labelled neighbours are those of `options.known`, or else the training images of the run.
    """
    images = _split(images_of_run(config, run))
    if options.known is None:
        return images
    return NeighbourExamples(images.images, _all_of([str(options.known)], columns_of(config)))


def _split(data: LabelledImageDataConfig, columns: ImageColumns | None = None) -> NeighbourExamples:
    images = labelled_images(data, least_classes=1, columns=columns)
    return NeighbourExamples(examples_of_images(images.valid), examples_of_images(images.train))


def _all_of(sources: Sequence[str], columns: ImageColumns) -> ImageExamples:
    return examples_of_images(read_images(sources, columns).every)
