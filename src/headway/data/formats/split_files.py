"""Finds the files of each split of a data set by their names: train.jsonl, valid.jsonl, or several
files of one split as the Hugging Face hub names them, `train-00000-of-00002.parquet`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.data.formats.lines import check_file, ending

TRAIN, VALID = "train", "valid"
SPLITS = {
    **{"train": TRAIN, "valid": VALID, "val": VALID, "validation": VALID, "dev": VALID},
    "test": "test",
}
"""Accepted names of splits -> the split."""
_NAME = re.compile(r"([a-z]+)(?:-(\d{1,9})-of-(\d{1,9}))?(?:[-.].*)?", re.IGNORECASE)
_IN_FOLDER = "data"  # folder of the files of splits in a repository of the hub


@dataclass(frozen=True)
class Shard:
    """One of the `count` files of a split, numbered from 0; a split of one file may have no
    number."""

    split: str
    number: int | None = None
    count: int = 1


def shard_of(path: Path) -> Shard | None:
    """Return the split that the name of a file begins with; None if it names none."""
    match = _NAME.fullmatch(Path(path.name.removesuffix(".gz")).stem)
    split = SPLITS.get(match[1].lower()) if match else None
    if match is None or split is None:
        return None
    return Shard(split) if match[2] is None else Shard(split, int(match[2]), int(match[3]))


def grouped(paths: Sequence[Path]) -> list[list[Path]]:
    """Group the paths: numbered files of one split are a group, in their order, any other path is
    one alone."""
    groups: list[list[Path]] = []
    latest: dict[tuple[object, ...], list[Path]] = {}  # the last group of each split
    for path in paths:
        shard = shard_of(path)
        if shard is None or shard.number is None:
            groups.append([path])
            continue
        key = (path.parent, shard.split, shard.count, path.suffix)
        if key not in latest or path in latest[key]:
            groups.append([])
            latest[key] = groups[-1]
        latest[key].append(path)
    return [sorted(group) for group in groups]


def data_folder(folder: Path) -> Path:
    """Return the folder with the files of splits: `folder`, or its folder `data` if only that has
    numbered files, as a copy of a repository of the hub."""
    inner = folder / _IN_FOLDER
    return inner if inner.is_dir() and not _numbered(folder) and _numbered(inner) else folder


def _numbered(folder: Path) -> list[Path]:
    shards = ((path, shard_of(path)) for path in folder.iterdir())
    return [path for path, shard in shards if shard is not None and shard.number is not None]


def split_files(
    folder: Path, endings: Sequence[str], *, are_numbered: bool = False
) -> dict[str, list[Path]]:
    """Return the files in a folder that belong to each split, in order.

    endings: suffixes of the files. are_numbered: whether to leave out files without a number.
    Raises UsageError if more than one file or set of files fits a split; DataError if a file of a
    split is missing.
    """
    folder = data_folder(folder)
    candidates = _numbered(folder) if are_numbered else sorted(folder.iterdir())
    by_split: dict[str, list[Path]] = {}
    for path in candidates:
        shard = shard_of(path)
        if shard is not None and ending(path) in endings and path.is_file():
            by_split.setdefault(shard.split, []).append(path)
    return {split: _whole(split, paths, folder) for split, paths in by_split.items()}


def _whole(split: str, paths: list[Path], folder: Path) -> list[Path]:
    """Return the files of a split in order. Raises UsageError if others fit the split, too."""
    files, *others = grouped(paths)
    if others:
        shown = ", ".join(path.name for group in (files, *others) for path in group[:1])
        what = f"more than one file fits the split {split}: {shown}"
        raise UsageError(what, str(folder), "name the files, or move one away")
    check_whole(split, files)
    return files


def check_whole(split: str, files: Sequence[Path]) -> None:
    """Raise DataError if a file is missing in a group of `grouped`."""
    shard = shard_of(files[0])
    if shard is None or shard.number is None or len(files) == shard.count:
        return
    numbers = {found.number for found in map(shard_of, files) if found is not None}
    missing = next(number for number in range(shard.count) if number not in numbers)
    raise DataError(
        f"the split {split} has {len(files):,} of its {shard.count:,} files: number {missing} "
        "(from 0) is missing",
        str(files[0].parent),
        "download it too, or name the files that are to be read",
    )


def files_of(
    train: Sequence[str], valid: Sequence[str], endings: Sequence[str], content: str
) -> tuple[list[Path], list[Path]]:
    """Return the files of data.train, and those of data.valid.

    A folder stands for its files of that split. If `valid` is empty, the files are those of the
    validation split in the folders of `train`, if there are any. content: what a file contains, as
    a plural noun for errors. Raises UsageError for a missing file, another suffix, and a folder
    without files of the split.
    """
    sides: dict[str, list[Path]] = {TRAIN: [], VALID: []}
    for side, names in ((TRAIN, train), (VALID, valid)):
        for path in map(Path, names):
            if not path.is_dir():
                check_file(path, endings, content)
                sides[side].append(path)
                continue
            splits = split_files(path, endings)
            if side not in splits:
                known = f"{', '.join(endings)} (or the same with .gz)"
                raise UsageError(
                    f"the folder has no file of {content} for the split {side}",
                    str(path),
                    f"name files that end in {known}; in a folder they are {side}.jsonl, or "
                    f"{side}-00000-of-00002.parquet and so on",
                )
            sides[side] += splits[side]
            if side == TRAIN and not valid:
                sides[VALID] += splits.get(VALID, [])
    return (
        [path for group in grouped(sides[TRAIN]) for path in group],
        [path for group in grouped(sides[VALID]) for path in group],
    )
