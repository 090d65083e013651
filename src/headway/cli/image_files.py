"""Images on the command line: their files, and the folders that they are in."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from headway.base.errors import UsageError
from headway.cli.texts import Texts
from headway.data.formats.images import image_files
from headway.data.images import is_image


def image_paths(arguments: Sequence[str], unit: str = "image") -> list[Path]:
    """The paths of image or WAV files, and of all in folders. unit: the word for one of them, for
    the UsageError without arguments."""
    if not arguments:
        hint = f"name {unit} files, or folders of {unit}s"
        raise UsageError(f"the {unit}s are missing", hint=hint)
    return [path for argument in arguments for path in image_files(Path(argument))]


def names_images(argument: str) -> bool:
    """Whether an argument is the path of an image file or of a folder."""
    return os.path.isdir(argument) or (is_image(argument) and os.path.isfile(argument))


def gather_images(arguments: Sequence[str], label: str | None) -> Texts:
    """The paths of images, labelled by the names of their folders if `label` is "folder"."""
    if label not in (None, "folder"):
        raise UsageError(
            f"--label {label}: images can only be labelled by folder", hint="--label folder"
        )
    paths = image_paths(arguments)
    return Texts(
        [str(path) for path in paths], None if label is None else [p.parent.name for p in paths]
    )
