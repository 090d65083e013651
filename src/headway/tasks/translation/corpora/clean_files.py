"""Cleans the files of a parallel corpus: two new tables, of the pairs kept and of those removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from headway.base.errors import UsageError
from headway.base.files import check_new_file, write_file
from headway.tasks.translation.corpora.cleaning import (
    Cleaned,
    CleaningRules,
    clean,
    learn_languages,
)
from headway.tasks.translation.pair_files import PairFiles
from headway.tasks.translation.pairs.reading import read_pairs

REPORTED = 10_000
"""Pairs between two calls of `progress`."""


def clean_files(
    files: PairFiles,
    output: Path,
    rules: CleaningRules,
    *,
    check_language: bool = True,
    progress: Callable[[int], None] = lambda read: None,
) -> tuple[Cleaned, Path]:
    """Write the pairs that are kept to `output`; return counts, and the path of those removed.

    Both tables appear when all pairs were read. Raises UsageError if `output` is no new .tsv file,
    DataError for pairs that cannot be read.
    """
    if output.suffix != ".tsv":
        raise UsageError(f"{output}: expected a name that ends in .tsv", hint=f"{output}.tsv")
    removed_path = output.with_suffix(".removed.tsv")
    for path in (output, removed_path):
        check_new_file(path)
    cleaned = Cleaned()
    languages = learn_languages(read_pairs(files), rules) if check_language else None
    cleaned.languages_checked = languages is not None
    source, target = files.source or "source", files.target or "target"
    with TemporaryFile("w+b") as kept, TemporaryFile("w+b") as removed:
        kept.write(f"{source}\t{target}\n".encode())
        removed.write(f"reason\tline\t{source}\t{target}\n".encode())
        for pair, reason in clean(read_pairs(files), languages, rules):
            cleaned.read += 1
            if cleaned.read % REPORTED == 0:
                progress(cleaned.read)
            row = f"{_cell(pair.source)}\t{_cell(pair.target)}\n"
            if reason is None:
                cleaned.kept += 1
                kept.write(row.encode())
            else:
                cleaned.removed[reason] += 1
                removed.write(f"{reason}\t{pair.line}\t{row}".encode())
        write_file(removed_path, _blocks(removed))
        write_file(output, _blocks(kept))
    return cleaned, removed_path


def _cell(text: str) -> str:
    """Return a text without the characters that separate cells and rows."""
    return " ".join(text.replace("\t", " ").splitlines())


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    while block := file.read(1 << 20):
        yield block
