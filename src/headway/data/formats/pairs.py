"""Sentence pairs: a table of tab-separated columns, or two files whose lines belong together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from headway.data.formats.lines import open_lines
from headway.errors import DataError, UsageError, closest


@dataclass(frozen=True)
class Pair:
    """A source sentence, its translation, and the line (from 1) where they stand."""

    source: str
    target: str
    line: int


@dataclass(frozen=True)
class PairFiles:
    """Where the pairs of one corpus are: one table (columns from 0), or two aligned files."""

    paths: tuple[Path, ...]
    columns: tuple[int, int] = (0, 1)
    has_header: bool = False

    def __str__(self) -> str:
        return " + ".join(str(path) for path in self.paths)


def pair_files(path: Path, source: str | None, target: str | None) -> PairFiles:
    """What `path` means: a .tsv or .tsv.gz file, or the common beginning of two aligned files.

    `source` and `target` name columns, by header or by number from 1; or, for aligned files, the
    endings: `train` with en and de means train.en and train.de, plain or .gz.
    """
    if path.is_file():
        return _table(path, source, target)
    if source and target:
        found = [_existing(path, ending) for ending in (source, target)]
        if found[0] and found[1]:
            return PairFiles((found[0], found[1]))
    wanted = f" nor {path}.{source} with {path}.{target}" if source and target else ""
    raise UsageError(
        f"there is no file {path}{wanted}",
        hint="name a .tsv file, or two aligned files by what they share: data/train --source en "
        "--target de means data/train.en and data/train.de",
    )


def _existing(path: Path, ending: str) -> Path | None:
    plain, packed = Path(f"{path}.{ending}"), Path(f"{path}.{ending}.gz")
    return plain if plain.is_file() else packed if packed.is_file() else None


def _table(path: Path, source: str | None, target: str | None) -> PairFiles:
    header = next(open_lines(path), None)
    if header is None:
        raise DataError("the file is empty", str(path))
    names = header.split("\t")
    if source is None and target is None:
        if len(names) == 2:
            return PairFiles((path,))
        raise UsageError(
            f"which of the {len(names)} columns? The first line reads: {', '.join(names)}",
            str(path),
            "name two of them: --source NAME --target NAME, or by number from 1",
        )
    if source is None or target is None:
        raise UsageError("--source and --target go together", str(path))
    if source.isdigit() and target.isdigit():
        columns = int(source) - 1, int(target) - 1
        if not all(0 <= column < len(names) for column in columns):
            raise UsageError(
                f"columns {source} and {target} of {len(names)}: they count from 1", f"{path}:1"
            )
        return PairFiles((path,), columns)
    for name in (source, target):
        if name not in names:
            meant = closest(name, names)
            raise UsageError(
                f"there is no column {name!r}; the header has: {', '.join(names)}"
                + (f". Did you mean {meant}?" if meant else ""),
                f"{path}:1",
                "a file without a header needs numbers: --source 1 --target 2",
            )
    return PairFiles((path,), (names.index(source), names.index(target)), has_header=True)


def read_pairs(corpus: PairFiles) -> Iterator[Pair]:
    """Every pair, in order, blanks around it removed; empty sides too (the caller counts them)."""
    return _read_table(corpus) if len(corpus.paths) == 1 else _read_aligned(corpus)


def _read_table(corpus: PairFiles) -> Iterator[Pair]:
    (path,), (first, second) = corpus.paths, corpus.columns
    for number, line in enumerate(open_lines(path), start=1):
        if corpus.has_header and number == 1:
            continue
        cells = line.split("\t")
        if len(cells) <= max(first, second):
            raise DataError(
                f"{len(cells)} columns, but column {max(first, second) + 1} is asked for",
                f"{path}:{number}",
                "mend the line; tabs may only stand between columns",
            )
        yield Pair(cells[first].strip(), cells[second].strip(), number)


def _read_aligned(corpus: PairFiles) -> Iterator[Pair]:
    first, second = corpus.paths
    both = zip_longest(open_lines(first), open_lines(second))
    for number, (source, target) in enumerate(both, start=1):
        if source is None or target is None:
            longer = second if source is None else first
            total = number + sum(1 for _ in both)
            counts = (number - 1, total) if source is None else (total, number - 1)
            raise DataError(
                f"{first.name} has {counts[0]:,} lines, {second.name} has {counts[1]:,}",
                f"{longer}:{number}, the first line without a partner",
                "find where one file lost or gained a line; nothing after it can be trusted",
            )
        yield Pair(source.strip(), target.strip(), number)
