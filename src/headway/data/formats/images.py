"""Reads labelled images from folders and zip files in which each class has its own folder."""

from __future__ import annotations

import math
import warnings
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path, PurePosixPath

from headway.base.errors import DataError, HeadwayWarning, UsageError
from headway.base.files import read_bytes
from headway.data.formats.npz import opened_zip
from headway.data.formats.split_files import SPLITS, TRAIN
from headway.data.images import (
    BYTES_LIMIT,
    ENDINGS,
    Conversion,
    Pixels,
    decoded,
    is_image,
    size_and_channels,
)
from headway.data.media_kinds import BY_SUFFIX, counted, remedy_of, start_of, suffix_of

MEMBERS_LIMIT = 2_000_000
IN_MEMORY = 256 * 2**20
"""Bytes of the image files of a source that stay in memory once they are read."""


@dataclass(frozen=True)
class LabelledImage:
    """An image with its class.

    label: name of the class. where: file, and position in it, for messages. data: function that
    returns the bytes of the image file, or its pixels.
    """

    label: str
    where: str
    data: Callable[[], bytes | Pixels]

    def pixels(self, conversion: Conversion = "blend") -> Pixels:
        """Return the pixels, height x width x channels, as `decoded` does, and with its errors."""
        data = self.data()
        return decoded(data, self.where, conversion) if isinstance(data, bytes) else data

    def shape(self) -> tuple[int, int, int]:
        """Return (height, width, channels) without decoding the image. Raises DataError."""
        data = self.data()
        if isinstance(data, bytes):
            return size_and_channels(data, self.where)
        y, x, channels = data.shape
        return y, x, channels


@dataclass(frozen=True)
class LabelledImages:
    """The images of a source by split; images without a split belong to `train`."""

    train: list[LabelledImage] = field(default_factory=list)
    valid: list[LabelledImage] = field(default_factory=list)
    test: list[LabelledImage] = field(default_factory=list)

    def extend(self, other_source: LabelledImages) -> None:
        """Add the images of another source, split by split."""
        for split in {*SPLITS.values()}:
            getattr(self, split).extend(getattr(other_source, split))

    @property
    def every(self) -> list[LabelledImage]:
        """The images of all splits."""
        return [*self.train, *self.valid, *self.test]


class ImageFiles:
    """Reads each image file of a source once, if all of them fit into `IN_MEMORY`.

    A file is needed for its content, which decides whether it is held out, for its size, and for
    its pixels. Files that do not fit are read again: a copy of them would be as large.
    """

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}
        self._room = IN_MEMORY

    def read(self, where: str, read: Callable[[], bytes]) -> bytes:
        """Return the bytes of a file, which `read` reads. where: the file, as messages name it."""
        data = self._kept.get(where)
        if data is None:
            data = read()
            if len(data) <= self._room:
                self._room -= len(data)
                self._kept[where] = data
        return data


def label_name(value: object, names: Sequence[str] | None, where: str) -> str:
    """Return the class that a label of any type names.

    A text is the name of its class. A whole number, also as 2.0, is a class number (`class_name`).
    A Boolean is the class number 0 or 1 if `names` is not None, else the class false or true.
    Raises DataError for any other value.
    """
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, bool):
        return class_name(int(value), names, where) if names else str(value).lower()
    if isinstance(value, float | Decimal) and math.isfinite(value) and value == int(value):
        value = int(value)
    if isinstance(value, int):
        return class_name(value, names, where)
    found = "missing (null)" if value is None else repr(value)[:60] if value != "" else "empty"
    several = "; images with several labels are not supported" if isinstance(value, list) else ""
    raise DataError(
        "a label must be the name or the number of a class, true or false, but this one is "
        f"{found}{several}",
        where,
        "correct it, or delete the row",
    )


def class_name(number: int, names: Sequence[str] | None, where: str) -> str:
    """Return the name of class `number`; if `names` is None, the number as text.

    Raises DataError for a negative number, and for a number without a name.
    """
    if number < 0:
        raise DataError(
            f"the class number {number} is negative",
            where,
            "number the classes from 0; data sets of the Hugging Face hub have -1 where the label "
            "is hidden",
        )
    if names is None:
        return str(number)
    if number >= len(names):
        raise DataError(
            f"class number {number} has no name: the file names {len(names):,} classes",
            where,
            f"number the classes from 0 to {len(names) - 1}, or name the other classes too",
        )
    return names[number]


def image_files(source: Path) -> list[Path]:
    """Return the path of an image, or of all images in a folder and its subfolders, sorted.

    A file is recognised by its suffix or its first bytes. In a folder, hidden files are skipped,
    and files with other suffixes are counted in a warning. Raises UsageError if there is no image.
    """
    if source.is_file():
        if not is_image(source.name) and suffix_of(start_of(source)) is None:
            raise UsageError(
                f"an image or sound file must end in {', '.join(ENDINGS)}, but this name "
                f"{f'ends in {source.suffix}' if source.suffix else 'has no suffix'}",
                str(source),
                remedy_of(source),
            )
        return [source]
    if not source.is_dir():
        raise UsageError("no such file or folder", str(source), "check the path")
    files = sorted(
        path
        for path in source.rglob("*")
        if path.is_file()
        and not any(name.startswith(".") for name in path.relative_to(source).parts)
    )
    _check_names([path.name for path in files], f"{source}", "the folder")
    return [path for path in files if is_image(path.name)]


def _check_names(names: Sequence[str], where: str, container: str) -> None:
    """Warn of files that are no images by their suffixes. Raises UsageError if there is no image.

    names: of all files in the container.
    """
    others = [name for name in names if not is_image(name)]
    kinds = (BY_SUFFIX.get(PurePosixPath(name).suffix.lower()) for name in others)
    kind = next((kind for kind in kinds if kind is not None), None)
    remedy = "check the path" if kind is None else kind.remedy_in_folders
    if len(others) == len(names):
        but = f", but {counted(others)}" if others else ""
        raise UsageError(
            f"{container} has no file that ends in {', '.join(ENDINGS)}{but}", where, remedy
        )
    if others:
        files = "1 file that is" if len(others) == 1 else f"{len(others):,} files that are"
        text = f"{where}: left out {files} no image or WAV sound: {counted(others)}"
        if kind is not None:
            text += f"; {remedy}"
        warnings.warn(text, HeadwayWarning, stacklevel=3)


def read_folder(source: Path) -> LabelledImages:
    """Return the images of a folder with the class, or split and class, in each path.

    The paths are FOLDER/CLASS/x.png, or FOLDER/train/CLASS/x.png and FOLDER/valid/CLASS/y.png.
    Raises UsageError if there is no image; DataError for an image without a class.
    """
    paths = image_files(source)
    relative = [path.relative_to(source).parts for path in paths]
    return _by_split(
        relative, [(str(path), partial(read_bytes, path, BYTES_LIMIT)) for path in paths]
    )


def read_zip(source: Path) -> LabelledImages:
    """Return the images of a zip file with the paths of `read_folder`.

    Members are decompressed one at a time, in memory. Raises as `read_folder`, and DataError for a
    damaged zip file.
    """
    archive = opened_zip(source, "a zip file", "create")
    members = [item for item in archive.infolist() if not item.is_dir()]
    if len(members) > MEMBERS_LIMIT:
        raise DataError(
            f"the zip file has {len(members):,} files, but at most {MEMBERS_LIMIT:,} are allowed",
            str(source),
            "split it into several files",
        )
    members = [
        item
        for item in sorted(members, key=lambda item: item.filename)
        if not any(name.startswith((".", "__")) for name in PurePosixPath(item.filename).parts)
    ]
    _check_names([item.filename for item in members], str(source), "the zip file")
    entries = [
        (PurePosixPath(item.filename).parts, f"{source}:{item.filename}", item)
        for item in members
        if is_image(item.filename)
    ]
    images = [(where, partial(_member, archive, item, where)) for _, where, item in entries]
    return _by_split([parts for parts, _, _ in entries], images)


def _member(archive: zipfile.ZipFile, item: zipfile.ZipInfo, where: str) -> bytes:
    """Return the bytes of a zip member. Raises DataError if it is damaged, encrypted or too
    large."""
    try:
        with archive.open(item) as stream:
            data = stream.read(BYTES_LIMIT + 1)
    except Exception as error:  # errors of zlib, lzma or zipfile: the file is damaged
        raise DataError(
            f"the image cannot be decompressed: {error}", where, "create the zip file again"
        ) from error
    if len(data) > BYTES_LIMIT:
        raise DataError(
            f"the image has more than {BYTES_LIMIT:,} bytes, the most allowed",
            where,
            "make it smaller",
        )
    return data


def _by_split(
    parts: Sequence[tuple[str, ...]], images: Sequence[tuple[str, Callable[[], bytes]]]
) -> LabelledImages:
    """Assign each image to its split and class by the folders in its path.

    parts: the components of the path of each image, relative to the source. Raises DataError for an
    image that is not in a class folder.
    """
    depth = 0  # number of outer folders that contain all images; many archives have one
    while (
        all(len(names) > depth + 2 for names in parts)
        and len({components[depth] for components in parts}) == 1
    ):
        if parts[0][depth] in SPLITS:
            break
        depth += 1
    images_by_split, files = LabelledImages(), ImageFiles()
    for names, (where, read) in zip(parts, images, strict=True):
        remaining = names[depth:]
        split = TRAIN
        if len(remaining) == 3 and remaining[0] in SPLITS:
            split, remaining = SPLITS[remaining[0]], remaining[1:]
        if len(remaining) != 2:
            raise DataError(
                "the image must be in a folder with the name of its class, but is not",
                where,
                "use paths like CLASS/x.png, or train/CLASS/x.png and valid/CLASS/y.png",
            )
        image = LabelledImage(remaining[0], where, partial(files.read, where, read))
        getattr(images_by_split, split).append(image)
    return images_by_split
