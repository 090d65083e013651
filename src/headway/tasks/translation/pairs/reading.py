"""Opens and reads a corpus of sentence pairs of any format; the name of its file decides which."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from headway.base.errors import UsageError
from headway.data.bad_rows import BadRows
from headway.data.formats.lines import ending
from headway.data.formats.records import ENDINGS as RECORDS
from headway.tasks.translation.documents.mo import mo_files, read_mo
from headway.tasks.translation.documents.po import po_files, read_po
from headway.tasks.translation.documents.tmx import read_tmx, tmx_files
from headway.tasks.translation.documents.xliff import read_xliff, xliff_files
from headway.tasks.translation.pair_files import Format, InlineTags, Pair, PairFiles
from headway.tasks.translation.pairs.json_pairs import json_files, read_json_pairs
from headway.tasks.translation.pairs.plain_lines import read_plain
from headway.tasks.translation.pairs.tables import aligned_files, read_table, read_two, table_files

Opener = Callable[[Path, str | None, str | None, InlineTags], PairFiles]


def _comma_files(
    path: Path, source: str | None, target: str | None, inline_tags: InlineTags
) -> PairFiles:
    return table_files(path, source, target, "csv")


OPENERS: Mapping[str, Opener] = {
    ".csv": _comma_files,
    **dict.fromkeys(RECORDS, json_files),
    ".po": po_files,
    ".mo": mo_files,
    ".tmx": tmx_files,
    ".xlf": xliff_files,
    ".xliff": xliff_files,
}
"""Name of a suffix -> the function that opens such a file. Other files are tables of tabs."""

READERS: Mapping[Format, Callable[[PairFiles], Iterator[Pair]]] = {
    "lines": read_two,
    "po": read_po,
    "mo": read_mo,
    "tmx": read_tmx,
    "xliff": read_xliff,
    "plain": read_plain,
}
ROW_READERS: Mapping[Format, Callable[[PairFiles, BadRows], Iterator[Pair]]] = {
    "table": read_table,
    "csv": read_table,
    "jsonl": read_json_pairs,
}
"""The readers of formats with one pair in a row."""

SUFFIXES = (".tsv", ".tab", *OPENERS)


def read_pairs(corpus: PairFiles, bad_rows: BadRows | None = None) -> Iterator[Pair]:
    """Stream the pairs of `corpus` in order.

    Tables, .jsonl and aligned files include pairs with an empty side; of the other formats, texts
    without a translation are left out. bad_rows: the policy for rows that are no pair; if unset,
    that of the corpus. Raises DataError with file and line for an invalid file.
    """
    if corpus.format in ROW_READERS:
        return ROW_READERS[corpus.format](corpus, bad_rows or BadRows.of(corpus.bad_rows))
    return READERS[corpus.format](corpus)


def pair_files(
    path: Path, source: str | None, target: str | None, inline_tags: InlineTags = "keep"
) -> PairFiles:
    """Return the corpus that `path` names: a file, or the common prefix of two aligned files.

    A file may be .csv, .po, .mo, .tmx, .xlf or .xliff, or have records (.jsonl, .json, .parquet),
    plain or (except .mo and .parquet) .gz; any other is a table of tabs. Otherwise `path`.`source`
    and `path`.`target` must exist. `source` and `target` are names or numbers of columns, keys, or
    languages; both None: the two columns, or what the file states. Raises UsageError if no file
    fits, DataError for an invalid file.
    """
    if (source is None) != (target is None):
        raise UsageError("only one of source and target is set", hint="set both, or neither")
    if source is not None and source == target:
        raise UsageError(
            f"source and target must differ, but both are {source!r}",
            hint="name two different columns or languages",
        )
    if not path.is_file():
        return aligned_files(path, source, target)
    if path.name.endswith(".mo.gz"):
        raise UsageError("a compressed .mo file cannot be read", str(path), f"gunzip {path.name}")
    opener = OPENERS.get(ending(path))
    if opener is None:
        return table_files(path, source, target)
    return opener(path, source, target, inline_tags)
