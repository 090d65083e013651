"""Reads a corpus of sentence pairs from a table (tabs or .csv), or from two line-aligned files.

A tab ends a cell of a table of tabs and a newline ends a row; quotes have no special meaning. The
cells of a .csv file may be quoted.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from headway.data.formats.csv_rows import CELL_LIMIT, TAB, Separator, csv_rows, separator_of
from headway.data.formats.lines import ending, location, read_lines
from headway.data.formats.parallel import Format, Pair, PairFiles, names_of, with_markers
from headway.data.formats.tables import listed
from headway.errors import DataError, UsageError

# If columns are given by number, a first line is a header only if each cell is one of these words.
_CODES = (
    "af am ar az be bg bn bs ca cs cy da de el en eo es et eu fa fi fo fr ga gd gl gu he hi "
    "hr ht hu hy id ig is it ja jv ka kk km kn ko ku ky la lb lo lt lv mg mi mk ml mn mr ms "
    "mt my nb ne nl nn no oc pa pl ps pt ro ru rw sd si sk sl sm sn so sq sr st su sv sw ta "
    "te tg th tk tl tr tt ug uk ur uz vi xh yi yo zh zu"
)
_LANGUAGES = (
    "arabic bulgarian catalan chinese croatian czech danish dutch english estonian finnish french "
    "german greek hebrew hindi hungarian icelandic indonesian irish italian japanese korean "
    "latvian lithuanian norwegian persian polish portuguese romanian russian serbian slovak "
    "slovenian spanish swedish thai turkish ukrainian vietnamese"
)
_ROLES = "source target src tgt id text translation source_text target_text sentence original"
_HEADER_WORDS = frozenset(f"{_CODES} {_LANGUAGES} {_ROLES}".split())
_NAME = re.compile(r"[^\W\d][\w.-]*")  # one word, which may name a column
_REGION = re.compile(r"[-_][A-Za-z]{2,4}$")


def read_table(
    corpus: PairFiles, on_short: Callable[[DataError, int], None] | None = None
) -> Iterator[Pair]:
    """Stream the pairs of a table of tabs or of a .csv file, including pairs with an empty side.

    on_short: called with the error and the line number of a row with too few columns, which is then
    left out; if None, the error is raised. Raises what `read_lines` raises; DataError for a row
    with too few columns or a wrong quote.
    """
    columns = corpus.columns
    assert columns is not None
    (path,), (*sources, target) = corpus.paths, columns
    names = [_column_name(corpus.header, index) for index in sources]
    needed = max(columns) + 1
    is_header = corpus.header is not None
    for number, cells in _rows(path, corpus.separator):
        if is_header:
            is_header = False
            continue
        if len(cells) < needed:
            if any(cell.strip() for cell in cells):
                fault = _too_short(corpus, number, len(cells), needed)
                if on_short is None:
                    raise fault
                on_short(fault, number)
                continue
            cells = [""] * needed
        source = with_markers(names, [cells[index] for index in sources])
        yield Pair(source, cells[target].strip(), number)


def _rows(path: Path, separator: Separator | None) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, cells) of every row, the header included; a .csv file has a separator."""
    if separator is not None:
        yield from csv_rows(path, separator)
        return
    for number, line in enumerate(read_lines(path, CELL_LIMIT), start=1):
        yield number, line.split("\t")


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


def read_texts(paths: Sequence[Path], column: str | None = None) -> Iterator[str]:
    """Stream every line of text files, or one column of tables (.tsv, .tab, .csv), plain or
    .gz.

    `column` is a name in the first line or a number from 1; it may be None for a table of one
    column. Raises what `read_lines` raises; UsageError if the column does not exist, DataError for
    a row without it.
    """
    for path in paths:
        if ending(path) in (".tsv", ".tab", ".csv"):
            yield from _read_column(path, column)
        else:
            yield from read_lines(path)


def _read_column(path: Path, column: str | None) -> Iterator[str]:
    separator = None
    if ending(path) == ".csv":
        is_named = column is not None and not _is_number(column)
        separator = separator_of(path, (lambda cells: column in cells) if is_named else None)
    _, first = next(_rows(path, separator), (0, None))
    if first is None:
        return
    cells = [cell.strip() for cell in first]
    if column is None and len(cells) > 1:
        raise UsageError(
            f"the table has {len(cells)} columns: {listed(cells)}",
            where=str(path),
            hint="choose the column of the text with --data.column, by name or number from 1",
        )
    index = _column(path, cells, column or "1")
    has_header = (column is not None and not _is_number(column)) or _looks_like_header(cells)
    rows = _rows(path, separator)
    if has_header:
        next(rows)
    for number, row in rows:
        if len(row) <= index and any(cell.strip() for cell in row):
            raise DataError(
                f"the row must have at least {index + 1} columns, but has {len(row)}",
                location(path, number),
                "separate the cells of this row as in the first one, or delete the row",
            )
        yield row[index].strip() if len(row) > index else ""


def table_files(
    path: Path, source: str | None, target: str | None, format: Format = "table"
) -> PairFiles:
    """Return the corpus of a table.

    source, target: names of columns, or numbers from 1; a source of several columns has their names
    separated by commas. Raises UsageError for a column that does not exist, DataError for an empty
    table.
    """
    separator = _separator(path, source, target) if format == "csv" else None
    first_line, cells = next(_rows(path, separator), (0, None))
    if cells is None:
        raise DataError("the file is empty", where=str(path))
    if len(cells) < 2:
        raise _no_separator(location(path, first_line), cells[0], separator)
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
    columns = tuple(_column(path, cells, name) for name in requested)
    if len(set(columns)) < len(columns):
        raise UsageError(
            f"source and target must be two columns, but {source!r} and {target!r} are the same"
            if len(columns) == 2
            else f"the columns of source and target must differ, but in {source!r} and {target!r} "
            "one is named twice",
            where=str(path),
            hint="name two different columns" if len(columns) == 2 else "name each column once",
        )
    is_named = not all(map(_is_number, requested))
    header = tuple(cells) if is_named or _looks_like_header(cells) else None
    names = [_column_name(header, index) for index in columns]
    is_unclear = header is None and all(map(_NAME.fullmatch, cells))
    return PairFiles(
        paths=(path,),
        source=",".join(names[:-1]),
        target=names[-1],
        columns=columns,
        header=header,
        format=format,
        separator=separator,
        unclear_header=tuple(cells) if is_unclear else None,
    )


def _separator(path: Path, source: str | None, target: str | None) -> Separator:
    """Return the separator of a .csv file, with which the first row has the named columns."""
    if source is None or target is None or _is_number(target):
        return separator_of(path)
    side, other = source, target
    return separator_of(path, lambda cells: {*names_of(side, cells), other} <= set(cells))


def _no_separator(where: str, first: str, separator: Separator | None) -> UsageError:
    """Return the error for a table of one column. first: the cell of its first row."""
    is_csv = separator is not None
    hint = (
        "declare another separator in a line before the first one, such as sep=;"
        if is_csv
        else "rename the file to .csv if other characters separate its cells"
    )
    return UsageError(
        "a table of sentence pairs must have two columns, but the first line has no "
        f"{'separator' if is_csv else 'tab'}: {first.strip()[:60]!r}",
        where,
        f"{hint}; for two files like train.en and train.de, give their common prefix, train",
    )


def _column_name(header: Sequence[str] | None, index: int) -> str:
    return header[index] if header else f"column {index + 1}"


def _column(path: Path, cells: list[str], column: str) -> int:
    if _is_number(column):
        if not 1 <= int(column) <= len(cells):
            raise UsageError(
                f"there is no column {column}: the columns are {listed(cells)}",
                where=str(path),
                hint=f"give a number from 1 to {len(cells)}",
            )
        return int(column) - 1
    if cells.count(column) > 1:
        raise UsageError(
            f"{cells.count(column)} columns have the name {column!r}",
            where=str(path),
            hint="give the number of the column, from 1",
        )
    if column not in cells:
        raise UsageError(
            f"there is no column {column!r} in the first line, which has {listed(cells)}",
            where=location(path, 1),
            hint="give one of these names, or numbers, such as --source 1 --target 2",
        )
    return cells.index(column)


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _looks_like_header(cells: list[str]) -> bool:
    words = [_REGION.sub("", cell) for cell in cells]
    return len(set(cells)) == len(cells) and all(word.lower() in _HEADER_WORDS for word in words)
