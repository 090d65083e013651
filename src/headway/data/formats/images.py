"""Pictures with a class each: folders and zip files in which every class has a folder."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

from headway.data.images import BYTES_LIMIT, ENDINGS, Pixels, decoded, is_image, size_and_channels
from headway.errors import DataError, UsageError
from headway.files import read_bytes

TRAIN, VALID = "train", "valid"
SPLITS = {"train": TRAIN, "valid": VALID, "val": VALID, "validation": VALID, "test": "test"}
"""What a folder over those of classes may be called, and what it holds."""
MEMBERS_LIMIT = 2_000_000


@dataclass(frozen=True)
class LabelledImage:
    """A picture and what it shows. data: gives the bytes of its file, or its pixels. where: names
    it to a person."""

    label: str
    where: str
    data: Callable[[], bytes | Pixels]

    def pixels(self, at_least: int | None = None) -> Pixels:
        """Height x width x channels; see `decoded`. DataError."""
        found = self.data()
        return decoded(found, self.where, at_least=at_least) if isinstance(found, bytes) else found

    def shape(self) -> tuple[int, int, int]:
        """Height, width, channels, without decoding it. DataError."""
        found = self.data()
        if isinstance(found, bytes):
            return size_and_channels(found, self.where)
        y, x, channels = found.shape
        return y, x, channels


@dataclass(frozen=True)
class LabelledImages:
    """What one source holds, by its splits; what is in no split is for training."""

    train: list[LabelledImage] = field(default_factory=list)
    valid: list[LabelledImage] = field(default_factory=list)
    test: list[LabelledImage] = field(default_factory=list)

    def extend(self, others: LabelledImages) -> None:
        """Those of another source too."""
        for split in {*SPLITS.values()}:
            getattr(self, split).extend(getattr(others, split))

    @property
    def every(self) -> list[LabelledImage]:
        """All of them."""
        return [*self.train, *self.valid, *self.test]


def class_name(number: int, names: Sequence[str] | None, where: str) -> str:
    """The name of a class that a file gives by its number; without names, the number itself.
    DataError for a negative number, and for one that has no name."""
    if number < 0:
        raise DataError(
            f"the class number {number} is negative", where, "number the classes from 0"
        )
    if names is None:
        return str(number)
    if number >= len(names):
        raise DataError(
            f"there is no class {number}: {len(names):,} names are given",
            where,
            f"number the classes from 0 to {len(names) - 1}, or name the others",
        )
    return names[number]


def image_files(source: Path) -> list[Path]:
    """The file, or all pictures of a folder and the folders in it, in the order of names.

    Hidden names and files of other endings are passed over in a folder. UsageError where there is
    none.
    """
    if source.is_file():
        if not is_image(source.name):
            raise UsageError(
                f"{source.suffix or 'no ending'}: pictures end in {', '.join(ENDINGS)}", str(source)
            )
        return [source]
    if not source.is_dir():
        raise UsageError("no such file or folder", str(source), "check the path")
    found = sorted(
        path
        for path in source.rglob("*")
        if is_image(path.name)
        and path.is_file()
        and not any(name.startswith(".") for name in path.relative_to(source).parts)
    )
    if not found:
        raise UsageError(f"no file in it ends in {', '.join(ENDINGS)}", str(source))
    return found


def read_folder(source: Path) -> LabelledImages:
    """FOLDER/CLASS/x.png, or FOLDER/train/CLASS/x.png and FOLDER/valid/CLASS/y.png."""
    paths = image_files(source)
    parts = [path.relative_to(source).parts for path in paths]
    images = [(path, partial(read_bytes, path, BYTES_LIMIT)) for path in paths]
    return _by_split(parts, [(str(path), data) for path, data in images])


def read_zip(source: Path) -> LabelledImages:
    """The same inside a zip file, read member by member and never unpacked."""
    try:
        archive = zipfile.ZipFile(source)
        members = [item for item in archive.infolist() if not item.is_dir()]
    except (OSError, zipfile.BadZipFile, ValueError, RuntimeError) as error:
        raise DataError(f"not a zip file that can be read: {error}", str(source)) from error
    if len(members) > MEMBERS_LIMIT:
        raise DataError(f"{len(members):,} files, more than {MEMBERS_LIMIT:,}", str(source))
    found = [
        (PurePosixPath(item.filename).parts, f"{source}:{item.filename}", item)
        for item in sorted(members, key=lambda item: item.filename)
        if is_image(item.filename)
    ]
    found = [each for each in found if not any(name.startswith((".", "__")) for name in each[0])]
    if not found:
        raise UsageError(f"no file in it ends in {', '.join(ENDINGS)}", str(source))
    images = [(where, partial(_member, archive, item, where)) for _, where, item in found]
    return _by_split([parts for parts, _, _ in found], images)


def _member(archive: zipfile.ZipFile, item: zipfile.ZipInfo, where: str) -> bytes:
    """DataError for one that is damaged, encrypted, or larger than a picture."""
    try:
        with archive.open(item) as stream:
            data = stream.read(BYTES_LIMIT + 1)
    except Exception as error:  # zlib, lzma, the archive's own: all say that the file is damaged
        raise DataError(f"cannot be unpacked: {error}", where) from error
    if len(data) > BYTES_LIMIT:
        raise DataError(f"more than the {BYTES_LIMIT:,} bytes allowed here", where)
    return data


def _by_split(
    parts: Sequence[tuple[str, ...]], images: Sequence[tuple[str, Callable[[], bytes]]]
) -> LabelledImages:
    """parts: of each picture's name, from the root on. DataError for one in no class."""
    above = 0  # folders that hold everything: many archives have one
    while all(len(each) > above + 2 for each in parts) and len({e[above] for e in parts}) == 1:
        if parts[0][above] in SPLITS:
            break
        above += 1
    found = LabelledImages()
    for each, (where, data) in zip(parts, images, strict=True):
        rest = each[above:]
        split = TRAIN
        if len(rest) == 3 and rest[0] in SPLITS:
            split, rest = SPLITS[rest[0]], rest[1:]
        if len(rest) != 2:
            raise DataError(
                "the picture is not in a folder that names its class",
                where,
                "CLASS/x.png, or train/CLASS/x.png and valid/CLASS/y.png",
            )
        getattr(found, split).append(LabelledImage(rest[0], where, data))
    return found
