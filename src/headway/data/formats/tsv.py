"""One corpus of sentence pairs: a table with tabs, or two files that go line by line together.

Tables are plain: a tab ends a cell, a newline ends a row, and quotes are letters like any other.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.data.formats.lines import place, read_lines
from headway.errors import DataError, UsageError

# Without names to look for, a first line counts as a header only if every cell is one of these.
_CODES = (
    "af am ar az be bg bn bs ca cs cy da de el en eo es et eu fa fi fo fr ga gd gl gu he hi "
    "hr ht hu hy id ig is it ja jv ka kk km kn ko ku ky la lb lo lt lv mg mi mk ml mn mr ms "
    "mt my nb ne nl nn no oc pa pl ps pt ro ru rw sd si sk sl sm sn so sq sr st su sv sw ta "
    "te tg th tk tl tr tt ug uk ur uz vi xh yi yo zh zu"
)
_HEADER_WORDS = frozenset(f"{_CODES} source target src tgt id text translation".split())
_REGION = re.compile(r"[-_][A-Za-z]{2,4}$")


@dataclass(frozen=True)
class Pair:
    """One sentence and its translation, blanks around them removed; `line` counts from 1."""

    source: str
    target: str
    line: int


@dataclass(frozen=True, kw_only=True)
class PairFiles:
    """Where the pairs of one corpus stand. Made by `pair_files`, read by `read_pairs`.

    `paths` is one table, with `columns` = places of source and target from 0 and `header` its first
    row or None; or it is a source file and a target file, with `columns` and `header` None.
    `source` and `target` are the names of the two sides for the screen.
    """

    paths: tuple[Path, ...]
    source: str
    target: str
    columns: tuple[int, int] | None = None
    header: tuple[str, ...] | None = None

    def describe(self) -> str:
        """A few words for the screen: `train.tsv (en -> de)` or `train.en + train.de`."""
        if self.columns is None:
            return " + ".join(path.name for path in self.paths)
        header = "header" if self.header else "no header"
        return f"{self.paths[0].name} ({self.source} -> {self.target}, {header})"


def read_pairs(corpus: PairFiles) -> Iterator[Pair]:
    """Stream the pairs of `corpus` in order; empty sides are yielded as they stand.

    Raises what `read_lines` raises; DataError for a row with too few columns and for two files of
    unequal length (after the last whole pair).
    """
    return _read_two(corpus) if corpus.columns is None else _read_table(corpus, corpus.columns)


def _read_table(corpus: PairFiles, columns: tuple[int, int]) -> Iterator[Pair]:
    (path,), (source, target) = corpus.paths, columns
    needed = max(columns) + 1
    skipped = 1 if corpus.header else 0
    for number, line in enumerate(read_lines(path), start=1):
        if number <= skipped:
            continue
        cells = line.split("\t")
        if len(cells) < needed:
            if line.strip():
                raise _too_short(corpus, number, len(cells), needed)
            cells = [""] * needed
        yield Pair(cells[source].strip(), cells[target].strip(), number)


def _too_short(corpus: PairFiles, number: int, found: int, needed: int) -> DataError:
    names = f" (the header names {', '.join(corpus.header)})" if corpus.header else ""
    return DataError(
        f"the row has {found} column{'s' if found > 1 else ''}, {needed} are needed{names}",
        where=place(corpus.paths[0], number),
        hint="put one tab between the cells of this row, or delete the row",
    )


def _read_two(corpus: PairFiles) -> Iterator[Pair]:
    first, second = corpus.paths
    counts = [0, 0]
    both = itertools.zip_longest(read_lines(first), read_lines(second))
    for number, (source, target) in enumerate(both, start=1):
        counts[0] += source is not None
        counts[1] += target is not None
        if source is not None and target is not None:
            yield Pair(source.strip(), target.strip(), number)
    if counts[0] != counts[1]:
        longer = first if counts[0] > counts[1] else second
        raise DataError(
            f"{first.name} has {counts[0]:,} lines, {second.name} has {counts[1]:,}: "
            f"line {min(counts) + 1:,} is the first without a partner",
            where=place(longer, min(counts) + 1),
            hint="the two files must go line by line together; an empty line may stand for a gap",
        )


def pair_files(path: Path, source: str | None, target: str | None) -> PairFiles:
    """The corpus that `path` names: a table, or the common start of two files.

    A table may have any name as long as its first line holds a tab. Otherwise `path`.`source` and
    `path`.`target` must exist, each plain or .gz. `source` and `target` are column names or numbers
    from 1; None and None means the first two of two columns. Raises UsageError when nothing fits,
    DataError for an unreadable or empty table.
    """
    if (source is None) != (target is None):
        raise UsageError("only one of source and target is named", hint="give both, or neither")
    if source is not None and source == target:
        raise UsageError(f"source and target are both {source!r}", hint="name two sides")
    if path.is_file():
        return _table(path, source, target)
    if source is None or target is None:
        raise UsageError(
            "no such file",
            where=str(path),
            hint=f"for files like {path.name}.en and {path.name}.de give --source en --target de",
        )
    sides = [side_file(path, name) for name in (source, target)]
    found = tuple(side for side in sides if side is not None)
    if len(found) < 2:
        missing = [n for n, side in zip((source, target), sides, strict=True) if side is None]
        names = " and ".join(f"{path.name}.{name}" for name in missing)
        raise UsageError(
            f"there is neither a file {path.name} nor {names}",
            where=str(path.parent),
            hint=f"two files must stand there: {path.name}.{source} and {path.name}.{target}",
        )
    return PairFiles(paths=found, source=source, target=target)


def side_file(prefix: Path, name: str) -> Path | None:
    """The file `prefix`.`name` or `prefix`.`name`.gz; UsageError when both exist."""
    both = [prefix.with_name(f"{prefix.name}.{name}{end}") for end in ("", ".gz")]
    there = [path for path in both if path.is_file()]
    if len(there) == 2:
        raise UsageError(
            f"both {there[0].name} and {there[1].name} stand here",
            where=str(prefix.parent),
            hint="remove one of them",
        )
    return there[0] if there else None


def read_texts(paths: Sequence[Path], column: str | None = None) -> Iterator[str]:
    """Stream every line of text files, or one column of tables (.tsv, .tab), plain or .gz.

    `column` is a name in the first line or a number from 1; a table of one column needs none.
    Raises what `read_lines` raises; UsageError when the column is not there, DataError for a row
    without it.
    """
    for path in paths:
        if path.name.removesuffix(".gz").endswith((".tsv", ".tab")):
            yield from _read_column(path, column)
        else:
            yield from read_lines(path)


def _read_column(path: Path, asked: str | None) -> Iterator[str]:
    first = next(read_lines(path), None)
    if first is None:
        return
    cells = [cell.strip() for cell in first.split("\t")]
    if asked is None and len(cells) > 1:
        raise UsageError(
            f"the table has {len(cells)} columns: {_listed(cells)}",
            where=str(path),
            hint="say which holds the text: --data.column NAME, or its number from 1",
        )
    chosen = _column(path, cells, asked or "1")
    has_header = (asked is not None and not _is_number(asked)) or _looks_like_header(cells)
    for number, line in enumerate(read_lines(path), start=1):
        row = line.split("\t")
        if number == 1 and has_header:
            continue
        if len(row) <= chosen and line.strip():
            raise DataError(
                f"the row has {len(row)} columns, {chosen + 1} are needed", place(path, number)
            )
        yield row[chosen].strip() if len(row) > chosen else ""


def _table(path: Path, source: str | None, target: str | None) -> PairFiles:
    first = next(read_lines(path), None)
    if first is None:
        raise DataError("the file is empty", where=str(path))
    if "\t" not in first:
        raise UsageError(
            "the first line holds no tab, so this is no table of pairs",
            where=place(path, 1),
            hint="for two files like train.en and train.de give their common start, train",
        )
    cells = [cell.strip() for cell in first.split("\t")]
    if source is None or target is None:
        if len(cells) != 2:
            raise UsageError(
                f"the table has {len(cells)} columns: {_listed(cells)}",
                where=str(path),
                hint="say which: --source NAME --target NAME, by name or by number from 1",
            )
        source, target = "1", "2"
    columns = (_column(path, cells, source), _column(path, cells, target))
    if columns[0] == columns[1]:
        raise UsageError(f"{source!r} and {target!r} are the same column", where=str(path))
    named = not (_is_number(source) and _is_number(target))
    header = tuple(cells) if named or _looks_like_header(cells) else None
    names = [cells[place_] if header else f"column {place_ + 1}" for place_ in columns]
    return PairFiles(
        paths=(path,), source=names[0], target=names[1], columns=columns, header=header
    )


def _column(path: Path, cells: list[str], asked: str) -> int:
    if _is_number(asked):
        if not 1 <= int(asked) <= len(cells):
            raise UsageError(
                f"there is no column {asked}: the columns are {_listed(cells)}",
                where=str(path),
                hint=f"columns count from 1 to {len(cells)}",
            )
        return int(asked) - 1
    if cells.count(asked) > 1:
        raise UsageError(f"{cells.count(asked)} columns have the name {asked!r}", where=str(path))
    if asked not in cells:
        raise UsageError(
            f"there is no column {asked!r} in the first line, which holds {_listed(cells)}",
            where=place(path, 1),
            hint="give names from there, or numbers: --source 1 --target 2",
        )
    return cells.index(asked)


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _looks_like_header(cells: list[str]) -> bool:
    words = [_REGION.sub("", cell) for cell in cells]
    return len(set(cells)) == len(cells) and all(word in _HEADER_WORDS for word in words)


def _listed(cells: list[str]) -> str:
    shown = [cell if len(cell) <= 30 else f"{cell[:29]}…" for cell in cells[:12]]
    more = [f"and {len(cells) - 12} more"] if len(cells) > 12 else []
    return ", ".join([f"{number} {cell!r}" for number, cell in enumerate(shown, 1)] + more)
