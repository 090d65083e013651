"""The images that an image classifier is trained and evaluated on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headway.base.errors import UsageError
from headway.bundle import Bundle
from headway.data.image_examples import ImageExamples, examples_of_images
from headway.data.image_sources import read_images
from headway.tasks.image_classification.config import VisionRunConfig
from headway.tasks.image_data import check_images, columns_of, images_of_run, labelled_images
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
    bundle: Bundle, paths: Sequence[Path], config: Any, options: NoOptions
) -> ImageExamples:
    """Read all images of files and folders, with their classes.

    config: the configuration of the model's run, which names the columns of .parquet files.
    """
    return examples_of_images(read_images([str(path) for path in paths], columns_of(config)).every)


def held_out_images(bundle: Bundle, run: Path, config: Any, options: NoOptions) -> ImageExamples:
    """Read the held-out images of a run.

    Raises UsageError unless it was trained on labelled images.
    """
    return examples_of_images(labelled_images(images_of_run(config, run)).valid)
