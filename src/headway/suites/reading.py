"""Reads a suite from a folder: recognises the layout of its files, and their parts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headway.base.errors import DataError, UsageError, did_you_mean
from headway.base.files import not_a_file, sha256_of
from headway.data.formats import records
from headway.data.formats.lines import ending, location, read_lines
from headway.data.formats.tables import TAB, open_table
from headway.data.rows import ENDINGS, TABLES, Row, read_rows
from headway.suites.embedding import beside_judgements, read_judgements
from headway.suites.layouts import LAYOUTS, SPLITS, Layout
from headway.suites.prompts import LANGUAGES, SOURCE, TARGET
from headway.suites.questions import Question
from headway.tasks.question_answering.question_files import read_questions

LABELS = "-labels.lst"
"""The end of the name of a file of labels, one a line, in place of the suffix of its rows."""
SHOWN = 5
ALL = "test"
"""The part of a file whose name does not tell one."""


@dataclass(frozen=True)
class Part:
    """A row as a question. group: the name under which its results are shown together."""

    question: Question
    group: str
    where: str


@dataclass(frozen=True)
class Suite:
    """A benchmark that was read. rows: by part of the data, train, validation or test. files: the
    files that were read, each with its sha256."""

    name: str
    layout: Layout
    rows: dict[str, list[Part]]
    files: dict[str, str] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """The hash of the hashes of all files, in any order."""
        return hashlib.sha256("".join(sorted(self.files.values())).encode()).hexdigest()

    def evaluated(self, split: str | None = None) -> tuple[str, list[Part]]:
        """Return the name and the rows of the part that is measured.

        split: its name; if None, the first that exists of those that the layout names. Raises
        UsageError if there is none.
        """
        names = [name for name in self.layout.evaluated if name in self.rows]
        wanted = split or (names or [""])[0]
        if wanted not in self.rows:
            has = ", ".join(self.rows) or "no rows"
            expected = split or " or ".join(self.layout.evaluated)
            raise UsageError(
                f"{self.name} is measured on the part {expected}, but the folder has {has}",
                hint="add the files of that part, or choose another with --split",
            )
        return wanted, self.rows[wanted]

    def examples(self, evaluated: str) -> tuple[list[Question], bool]:
        """Return the rows of which solved examples are drawn, and whether they are held out.

        They have answers, and are the training part; without one the validation part, if another
        one is measured; otherwise the measured rows themselves.
        """
        for name in ("train", "validation"):
            if name in self.rows and name != evaluated:
                return self._answered(name), True
        return self._answered(evaluated), False

    def _answered(self, split: str) -> list[Question]:
        return [part.question for part in self.rows[split] if part.question.has_answer]


def read_suite(
    folder: Path,
    layout: str | None = None,
    *,
    languages: tuple[str, str] | None = None,
) -> Suite:
    """Read the files of one benchmark in a folder and the folders in it, or one file.

    layout: the name of the layout; if None, it is recognised. languages: source and target of
    parallel files. Files of no known layout are left out.

    Raises UsageError if the folder does not exist or the name of the layout is unknown; DataError,
    which lists what was expected and found, if no file or files of several layouts are recognised.
    """
    if layout is not None and layout not in LAYOUTS:
        known = ", ".join(LAYOUTS)
        raise UsageError(
            f"unknown layout {layout!r}{did_you_mean(layout, LAYOUTS)}", hint=f"one of: {known}"
        )
    if not folder.exists():
        raise UsageError(not_a_file(folder), str(folder), "give the folder of the suite's files")
    paths = [folder] if folder.is_file() else _files(folder)
    looks = {path: _Look.at(path) for path in paths}
    names = [layout] if layout is not None else list(LAYOUTS)
    fitting = {
        path: [name for name in names if look.fits(LAYOUTS[name], is_named=layout is not None)]
        for path, look in looks.items()
    }
    found = {name for fits in fitting.values() for name in fits}
    if len(found) != 1:
        raise _not_one(folder, sorted(found), looks, layout)
    (name,) = found
    chosen = [path for path in paths if fitting[path]]
    return _read(name, chosen, languages)


def _files(folder: Path) -> list[Path]:
    """The files in a folder and its folders, sorted, without hidden ones."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [
        path
        for path in paths
        if not any(part.startswith((".", "__")) for part in path.relative_to(folder).parts)
    ]


@dataclass(frozen=True)
class _Look:
    """The beginning of a file: its columns, or None without names; the cells of its first line."""

    path: Path
    columns: frozenset[str] | None = None
    cells: int = 0

    @classmethod
    def at(cls, path: Path) -> _Look:
        if ending(path) in records.ENDINGS:
            return cls(path, _columns_of_records(path))
        if ending(path) in TABLES:
            cells = next(iter(_cells(path)), (0, []))[1]
            return cls(path, frozenset(cell.strip() for cell in cells), len(cells))
        return cls(path)

    def fits(self, layout: Layout, *, is_named: bool) -> bool:
        """Whether the file has this layout. is_named: whether the user named the layout."""
        tail = "/".join(self.path.parts[-3:]).lower()
        if layout.named and not is_named and not re.search(layout.named, tail):
            return False
        if self.columns is None:
            return layout.reader != "table" and bool(re.search(layout.named or "$^", tail))
        if any(names <= self.columns for names in layout.columns):
            return True
        return bool(layout.cells) and self.cells == len(layout.cells)

    @property
    def described(self) -> str:
        columns = ", ".join(sorted(self.columns or ()))[:80]
        return f"{self.path.name} ({columns})" if columns else self.path.name


def _columns_of_records(path: Path) -> frozenset[str]:
    """The keys of the first record; of an article for a file of SQuAD."""
    first = next(read_rows(path, {}), None)
    return frozenset(() if first is None else first.values)


def _not_one(
    folder: Path, found: Sequence[str], looks: dict[Path, _Look], layout: str | None
) -> DataError:
    """The error for a folder whose files have no known layout, or several."""
    if found:
        return DataError(
            f"the files have several layouts: {', '.join(found)}",
            str(folder),
            "name the folder or file of one benchmark, or select one with --layout NAME",
        )
    seen = [look.described for look in looks.values()][:SHOWN]
    more = f", and {len(looks) - SHOWN} more" if len(looks) > SHOWN else ""
    expected = (
        f"{layout} has {LAYOUTS[layout].files}"
        if layout is not None
        else f"expected one of: {', '.join(LAYOUTS)}; --layout NAME tells which files one has"
    )
    return DataError(
        f"no file has the layout of a known benchmark; found {'; '.join(seen) or 'no files'}{more}",
        str(folder),
        expected,
    )


def _read(name: str, paths: Sequence[Path], languages: tuple[str, str] | None) -> Suite:
    layout = LAYOUTS[name]
    if layout.reader == "parallel":
        paths = _parallel(paths, languages)
    suite = Suite(name, layout, {}, {})
    for path in paths:
        split = _split_of(path, layout)
        if not split:
            continue
        suite.files[str(path)] = sha256_of(path)
        beside = beside_judgements(path) if layout.reader == "judgements" else ()
        for other in (path.with_name(path.stem + LABELS), *beside):
            if other.is_file():
                suite.files[str(other)] = sha256_of(other)
        group = _group_of(path)
        for row in READERS[layout.reader](path, layout, languages):
            column, shown = layout.part_column, name
            if column is not None:
                shown = str(row.values.get(column) or group)
                row = Row(row.path, row.line, {**row.values, column: shown})
            part = Part(layout.question(row), shown, row.where)
            suite.rows.setdefault(split, []).append(part)
    return suite


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[^a-z]+", text.lower()) if word]


def _split_of(path: Path, layout: Layout) -> str:
    """The part of the data that a file has, by its name or that of its folder; "": left out."""
    names = {**SPLITS, **layout.splits}
    words = [*_words(path.name), *_words(path.parent.name)]
    if any(names.get(word) == "" for word in words):
        return ""
    return next((names[word] for word in words if word in names), ALL)


def _group_of(path: Path) -> str:
    """The name of a file without the words for its part, or that of its folder if none remains."""
    for name in (path.name.split(".")[0], path.parent.name):
        words = [word for word in re.split(r"[-_ ]+", name) if word.lower() not in SPLITS]
        rest = "_".join(word for word in words if not re.fullmatch(r"\d*|of", word))
        if rest:
            return rest
    return path.parent.name


def _cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table. One of tabs may be named .csv: then quotes have no meaning in it."""
    first = next(iter(read_lines(path)), "")
    if ending(path) == ".csv" and "\t" in first:
        numbered = enumerate(read_lines(path), start=1)
        return ((number, line.split(TAB.character)) for number, line in numbered)
    return open_table(path).rows


def _table(path: Path, layout: Layout, languages: object) -> Iterator[Row]:
    """Rows of a table with or without a header, or records; labels may be in a file beside it."""
    look = _Look.at(path)
    if layout.cells and not any(names <= (look.columns or set()) for names in layout.columns):
        rows: Iterator[Row] = (
            Row(path, number, dict(zip(layout.cells, cells, strict=False)))
            for number, cells in _cells(path)
            if len(cells) >= len(layout.cells)
        )
    else:
        rows = read_rows(path, {})
    beside = path.with_name(path.stem + LABELS)
    if not beside.is_file():
        yield from rows
        return
    labels = list(read_lines(beside))
    number = 0
    for number, row in enumerate(rows, start=1):
        if number > len(labels):
            break
        label = labels[number - 1]
        yield Row(path, row.line, {"label": label, "answer": label, **_labelled(row)})
    if number != len(labels):
        raise DataError(
            f"there are {len(labels):,} labels, but another number of rows in {path.name}",
            str(beside),
            "download both files again",
        )


def _labelled(row: Row) -> dict[str, object]:
    """The values of a row without empty labels."""
    return {key: value for key, value in row.values.items() if value not in (None, "")}


def _lines(path: Path, layout: Layout, languages: object) -> Iterator[Row]:
    """Records with `text`, or a text of one passage a line."""
    if ending(path) in ENDINGS:
        yield from read_rows(path, {})
        return
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            yield Row(path, number, {"text": line.strip()})


def _articles(path: Path, layout: Layout, languages: object) -> Iterator[Row]:
    """Records with `page`, or a text of articles that begin with a heading such as " = Owls = "."""
    if ending(path) in ENDINGS:
        yield from read_rows(path, {})
        return
    page: list[str] = []
    begin = 1
    lines = read_lines(path)
    for number, line in enumerate(lines, start=1):
        heading = line.replace("= = =", "===").replace("= =", "==").strip()
        if heading.startswith("= ") and heading.endswith(" ="):
            if "\n".join(page).strip():
                yield Row(path, begin, {"page": "\n".join(page)})
            page, begin = [], number
        page.append(line)
    page.append("")  # the line after the last line break
    if "\n".join(page).strip():
        yield Row(path, begin, {"page": "\n".join(page)})


def _whole(path: Path, layout: Layout, languages: object) -> Iterator[Row]:
    """A file as one text."""
    yield Row(path, 1, {"page": "\n".join(read_lines(path))})


def _questions(path: Path, layout: Layout, languages: object) -> Iterator[Row]:
    """SQuAD's .json, and records of questions."""
    for number, question in enumerate(read_questions([path]), start=1):
        answers = [answer.text for answer in question.answers]
        yield Row(
            path,
            number,
            {
                "id": question.id,
                "title": question.title,
                "context": question.context,
                "question": question.question,
                "answers": answers,
            },
        )


def _parallel(paths: Sequence[Path], languages: tuple[str, str] | None) -> list[Path]:
    """The files of the source language. Raises UsageError unless both languages have files."""
    known = sorted({path.stem for path in paths})
    if languages is None or not set(languages) <= set(known):
        raise UsageError(
            f"the folder has the languages {', '.join(known[:SHOWN])}"
            + (f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""),
            hint="name two of them: --source eng_Latn --target deu_Latn",
        )
    return [path for path in paths if path.stem == languages[0]]


def _pairs(path: Path, layout: Layout, languages: object) -> Iterator[Row]:
    """The lines of two files with the same number of lines, named by their languages."""
    assert isinstance(languages, tuple)
    beside = path.with_name(f"{languages[1]}{path.suffix}")
    if not beside.is_file():
        raise UsageError(not_a_file(beside), str(beside), "add the file of the target language")
    sources, targets = list(read_lines(path)), list(read_lines(beside))
    if len(sources) != len(targets):
        raise DataError(
            f"{len(sources):,} lines, but {beside.name} has {len(targets):,}",
            location(path, min(len(sources), len(targets)) + 1),
            "download both files again",
        )
    for number, (source, target) in enumerate(zip(sources, targets, strict=True), start=1):
        yield Row(path, number, {SOURCE: source, TARGET: target, LANGUAGES: languages})


READERS: dict[str, Callable[[Path, Layout, tuple[str, str] | None], Iterator[Row]]] = {
    "table": _table,
    "lines": _lines,
    "articles": _articles,
    "whole": _whole,
    "questions": _questions,
    "parallel": _pairs,
    "judgements": read_judgements,
}
