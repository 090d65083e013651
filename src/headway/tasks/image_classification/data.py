"""The images that an image classifier is trained and evaluated on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headway.data.image_examples import FileExamples
from headway.data.image_sources import read_images
from headway.errors import UsageError
from headway.tasks.image_classification.config import VisionRunConfig
from headway.tasks.image_data import check_images, images_of_run, labelled_images


def check(config: VisionRunConfig) -> None:
    """UsageError unless there are images, and the settings agree."""
    check_images(config.data, config.recipe)
    training = config.training
    if config.model.projection == "pca" and training.start is not None:
        raise UsageError("a model to start from brings its projection of patches")
    if training.frozen is not None and training.start is None:
        raise UsageError("training.frozen keeps what was learned, and nothing was", hint="--from")


def images_of_files(paths: Sequence[Path]) -> FileExamples:
    """All images of these files and folders, with their classes."""
    return FileExamples(read_images([str(path) for path in paths]).every)


def held_out_images(config: Any, run: Path) -> FileExamples:
    """The images that a run held out. UsageError unless it was trained on labelled images."""
    return FileExamples(labelled_images(images_of_run(config, run)).valid)
