"""Opens and reads a corpus of sentence pairs of any format; the name of its file decides which."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from headway.base.errors import UsageError
from headway.base.files import not_a_file
from headway.data.bad_rows import BadRows
from headway.data.formats.lines import ending, read_lines
from headway.data.formats.records import ENDINGS as RECORDS
from headway.data.rows import TABLES
from headway.tasks.translation.documents.mo import mo_files, read_mo
from headway.tasks.translation.documents.po import po_files, read_po
from headway.tasks.translation.documents.tmx import read_tmx, tmx_files
from headway.tasks.translation.documents.xliff import read_xliff, xliff_files
from headway.tasks.translation.pair_files import Format, InlineTags, Pair, PairFiles
from headway.tasks.translation.pairs.tables import (
    aligned_files,
    json_files,
    read_json_pairs,
    read_table,
    read_two,
    table_files,
)
from headway.text import split_sentences

PASSAGE = 400
"""Maximum number of characters of a text of span corruption, unless a sentence is longer."""
Opener = Callable[[Path, str | None, str | None, InlineTags], PairFiles]


OPENERS: Mapping[str, Opener] = {
    **dict.fromkeys(RECORDS, json_files),
    ".po": po_files,
    ".mo": mo_files,
    ".tmx": tmx_files,
    ".xlf": xliff_files,
    ".xliff": xliff_files,
}
"""Name of a suffix -> the function that opens such a file. Other files are tables."""


def plain_files(paths: Sequence[Path]) -> PairFiles:
    """Return the corpus of text files, plain or .gz, whose texts are the sources and the targets of
    an encoder-decoder's pre-training. Raises UsageError if one does not exist."""
    for path in paths:
        if not path.is_file():
            hint = "name text files, such as text.txt or text.txt.gz"
            raise UsageError(not_a_file(path), str(path), hint)
    return PairFiles(paths=tuple(paths), source="text", target="text", format="plain")


def read_plain(corpus: PairFiles) -> Iterator[Pair]:
    """Stream the lines of the files, each as a pair with itself; empty lines are left out.

    A line of more than `PASSAGE` characters is divided into passages of whole sentences. Raises
    what `read_lines` raises.
    """
    for path in corpus.paths:
        for number, line in enumerate(read_lines(path), start=1):
            for passage in _passages(line.strip()):
                yield Pair(passage, passage, number)


def _passages(line: str) -> Iterator[str]:
    if len(line) <= PASSAGE:
        if line:
            yield line
        return
    passage = ""
    for sentence in split_sentences(line):
        if passage and len(passage) + 1 + len(sentence) > PASSAGE:
            yield passage
            passage = ""
        passage = f"{passage} {sentence}".strip()
    yield passage


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
    "jsonl": read_json_pairs,
}
"""The readers of formats with one pair in a row."""

SUFFIXES = (*TABLES, *OPENERS)


def read_pairs(corpus: PairFiles, bad_rows: BadRows | None = None) -> Iterator[Pair]:
    """Stream the pairs of `corpus` in order.

    Tables, .jsonl and aligned files include pairs with an empty side; of the other formats, texts
    without a translation are left out. bad_rows: the policy for rows that are no pair; if unset,
    that of the corpus. Raises DataError with file and line for an invalid file.
    """
    bad_rows = bad_rows or BadRows.of(corpus.bad_rows)
    for files in corpus.every:
        if files.format in ROW_READERS:
            yield from ROW_READERS[files.format](files, bad_rows)
        else:
            yield from READERS[files.format](files)


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
