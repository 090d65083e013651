"""Reads sentence pairs from tables, records (.jsonl, .json, .parquet) and two aligned files."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.data.bad_rows import BadRows
from headway.data.formats.lines import ending, location, read_lines
from headway.data.formats.tables import TAB, Table, open_table
from headway.data.rows import (
    Row,
    column_index,
    is_column_number,
    listed,
    looks_like_header,
    read_rows,
)
from headway.tasks.translation.pair_files import InlineTags, Pair, PairFiles, names_of, with_markers

_NAME = re.compile(r"[^\W\d][\w.-]*")  # one word, which may name a column
NESTED = "translation"
"""The key of an object by language, {"translation": {"en": ..., "de": ...}}."""


def read_table(corpus: PairFiles, bad_rows: BadRows) -> Iterator[Pair]:
    """Stream the pairs of a table of tabs or of a .csv file, including pairs with an empty side.

    bad_rows: the policy for rows with too few columns. Raises what `read_lines` raises; DataError
    for a row with too few columns or a wrong quote.
    """
    columns = corpus.columns
    assert columns is not None
    (path,), (*sources, target) = corpus.paths, columns
    names = [_column_name(corpus.header, index) for index in sources]
    needed = max(columns) + 1
    is_header = corpus.header is not None
    for number, cells in open_table(path, separator=corpus.separator).rows:
        if is_header:
            is_header = False
            continue
        if len(cells) < needed:
            if any(cell.strip() for cell in cells):
                bad_rows.leave_out(_too_short(corpus, number, len(cells), needed))
                continue
            cells = [""] * needed
        source = with_markers(names, [cells[index] for index in sources])
        yield Pair(source, cells[target].strip(), number)


def _too_short(corpus: PairFiles, number: int, columns: int, needed: int) -> DataError:
    names = f" (the header names {', '.join(corpus.header)})" if corpus.header else ""
    separator = corpus.separator or TAB
    return DataError(
        f"the row must have at least {needed} columns{names}, but has {columns}, separated by "
        f"{separator.name}",
        where=location(corpus.paths[0], number),
        hint="separate the cells of this row as in the first one, or delete the row",
    )


def read_two(corpus: PairFiles) -> Iterator[Pair]:
    """Stream the pairs of two aligned files, including pairs with an empty side.

    Raises what `read_lines` raises, and, after the last complete pair, DataError for two files of
    different length.
    """
    first, second = corpus.paths
    counts = [0, 0]
    line_pairs = itertools.zip_longest(read_lines(first), read_lines(second))
    for number, (source, target) in enumerate(line_pairs, start=1):
        counts[0] += source is not None
        counts[1] += target is not None
        if source is not None and target is not None:
            yield Pair(source.strip(), target.strip(), number)
    if counts[0] != counts[1]:
        longer = first if counts[0] > counts[1] else second
        raise DataError(
            f"{first.name} has {counts[0]:,} lines, {second.name} has {counts[1]:,}: "
            f"line {min(counts) + 1:,} is the first without a counterpart",
            where=location(longer, min(counts) + 1),
            hint="align the two files line by line; leave an empty line where a sentence is "
            "missing",
        )


def aligned_files(path: Path, source: str | None, target: str | None) -> PairFiles:
    """Return the corpus of the two files `path`.`source` and `path`.`target`, each plain or .gz.

    Raises UsageError if one of them is missing.
    """
    if source is None or target is None:
        raise UsageError(
            "no such file",
            where=str(path),
            hint=f"check the path; for files like {path.name}.en and {path.name}.de add "
            "--source en --target de",
        )
    sides = [side_file(path, name) for name in (source, target)]
    paths = tuple(side for side in sides if side is not None)
    if len(paths) < 2:
        missing = [n for n, side in zip((source, target), sides, strict=True) if side is None]
        names = " and ".join(f"{path.name}.{name}" for name in missing)
        raise UsageError(
            f"there is no table {path.name}, and no {names}",
            where=str(path),
            hint=f"give a table, or two files {path.name}.{source} and {path.name}.{target}",
        )
    return PairFiles(paths=paths, source=source, target=target)


def side_file(prefix: Path, name: str) -> Path | None:
    """Return the path `prefix`.`name` or `prefix`.`name`.gz, or None if neither file exists.

    Raises UsageError if both exist.
    """
    candidates = [prefix.with_name(f"{prefix.name}.{name}{end}") for end in ("", ".gz")]
    existing = [path for path in candidates if path.is_file()]
    if len(existing) == 2:
        raise UsageError(
            f"only one of {existing[0].name} and {existing[1].name} may exist, but both do",
            where=str(prefix.parent),
            hint="delete or rename one of them",
        )
    return existing[0] if existing else None


def table_files(path: Path, source: str | None, target: str | None) -> PairFiles:
    """Return the corpus of a table.

    source, target: names of columns, or numbers from 1; a source of several columns has their names
    separated by commas. Raises UsageError for a column that does not exist, DataError for an empty
    table.
    """
    table = _opened(path, source, target)
    first_line, cells = next(table.rows, (0, None))
    if cells is None:
        raise DataError("the file is empty", where=str(path))
    if len(cells) < 2:
        raise _no_separator(path, first_line, cells[0])
    cells = [cell.strip() for cell in cells]
    if source is None or target is None:
        if len(cells) != 2:
            raise UsageError(
                f"the table has {len(cells)} columns: {listed(cells)}",
                where=str(path),
                hint="choose two with --source and --target, by name or number from 1",
            )
        source, target = "1", "2"
    requested = [*names_of(source, cells), target]
    columns = tuple(column_index(path, cells, name) for name in requested)
    if len(set(columns)) < len(columns):
        raise UsageError(
            f"source and target must be two columns, but {source!r} and {target!r} are the same"
            if len(columns) == 2
            else f"the columns of source and target must differ, but in {source!r} and {target!r} "
            "one is named twice",
            where=str(path),
            hint="name two different columns" if len(columns) == 2 else "name each column once",
        )
    is_named = not all(map(is_column_number, requested))
    header = tuple(cells) if is_named or looks_like_header(cells) else None
    names = [_column_name(header, index) for index in columns]
    is_unclear = header is None and all(map(_NAME.fullmatch, cells))
    return PairFiles(
        paths=(path,),
        source=",".join(names[:-1]),
        target=names[-1],
        columns=columns,
        header=header,
        format="table",
        separator=table.separator,
        unclear_header=tuple(cells) if is_unclear else None,
    )


def _opened(path: Path, source: str | None, target: str | None) -> Table:
    """Open a table, whose first row must have the named columns."""
    if source is None or target is None or is_column_number(target):
        return open_table(path)
    side, other = source, target
    return open_table(path, lambda cells: {*names_of(side, cells), other} <= set(cells))


def _no_separator(path: Path, line: int, first: str) -> UsageError:
    """Return the error for a table of one column. line, first: those of its first row."""
    is_csv = ending(path) == ".csv"
    hint = (
        "declare another separator in a line before the first one, such as sep=;"
        if is_csv
        else "rename the file to .csv if other characters separate its cells"
    )
    return UsageError(
        "a table of sentence pairs must have two columns, but the first line has no "
        f"{'separator' if is_csv else 'tab'}: {first.strip()[:60]!r}",
        location(path, line),
        f"{hint}; for two files like train.en and train.de, give their common prefix, train",
    )


def _column_name(header: Sequence[str] | None, index: int) -> str:
    return header[index] if header else f"column {index + 1}"


def json_files(
    path: Path, source: str | None, target: str | None, inline_tags: InlineTags
) -> PairFiles:
    """Return the corpus of a .jsonl file.

    source, target: the keys; by default these two words. A source of several keys has them
    separated by commas. Raises UsageError for a key that is named twice.
    """
    names = [*names_of(source or "source", ()), target or "target"]
    if len(set(names)) < len(names):
        raise UsageError(
            f"the keys of source and target must differ, but in {source!r} and {target!r} one is "
            "named twice",
            str(path),
            "name each key once",
        )
    return PairFiles(
        paths=(path,), source=source or "source", target=target or "target", format="jsonl"
    )


def read_json_pairs(corpus: PairFiles, bad_rows: BadRows) -> Iterator[Pair]:
    """Stream the pairs of objects like {"en": "...", "de": "..."}, or the same inside
    {"translation": {...}}.

    bad_rows: the policy for records that are no pair. Raises DataError with file and line for
    invalid JSON, and for an object without the two texts.
    """
    (path,) = corpus.paths

    def pair(row: Row) -> Pair:
        inner = row.values.get(NESTED)
        if isinstance(inner, dict) and corpus.source not in row.values:
            row = replace(row, values=inner)
        names = names_of(corpus.source, row.values)
        source = with_markers(names, [_text(row, name) for name in names])
        return Pair(source, _text(row, corpus.target).strip(), row.line)

    yield from bad_rows.parsed(read_rows(path, {}, bad_rows), pair)


def _text(row: Row, name: str) -> str:
    value = row.values.get(name)
    if not isinstance(value, str):
        problem = "is not a text" if name in row.values else "is missing"
        keys = ", ".join(repr(key)[:30] for key in list(row.values)[:8])
        raise DataError(
            f"the object must have a text under {name!r}, but it {problem}; its keys are {keys}",
            row.where,
            "name the two keys with --source and --target, or correct the line",
        )
    return value
