"""What a corpus of sentence pairs is: its files, its format, and its pairs."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeGuard

from headway.base.errors import UsageError
from headway.data.bad_rows import STOP
from headway.data.formats.tables import Separator
from headway.data.rows import listed

InlineTags = Literal["keep", "drop"]
Format = Literal["lines", "table", "jsonl", "po", "mo", "tmx", "xliff", "plain"]
_COLUMNS = ("src", "tgt", "trg")
_CODE = re.compile(r"[A-Za-z]{2,3}([-_@.][A-Za-z0-9@._-]+)?")


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation, stripped of surrounding whitespace.

    line: its line in the file, from 1; the number of the entry in an .mo file, which has no lines.
    direction: its languages, such as en-de, in a corpus with several directions; else empty. links:
    its aligned words, each the position of a source word and of a target word, counted from 0.
    """

    source: str
    target: str
    line: int
    direction: str = ""
    links: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class PairFiles:
    """The files of one corpus of sentence pairs. Made by `pair_files`, read by `read_pairs`.

    `paths` is one file; for the format "lines", a source file and a target file; for the format
    "plain", any number of text files. For tables,
    `columns` is the indices from 0 of the columns of the source, usually one, and of the target,
    `header` the first row or None, and `separator` that of a .csv file. `source` and `target` are
    the names of the two sides: languages, columns or keys; the names of several columns are
    separated by commas. is_swapped: whether the corpus is read from the translations to the
    originals. inline_tags: whether the tags inside the texts of TMX and XLIFF are kept as text or
    dropped. unclear_header: the first row of a table, if it is read as a pair and may be a header.
    bad_rows: what happens to rows that are no pair (`BadRows.of`). further: the other files of the
    corpus, which are read after this one, in their order.
    """

    paths: tuple[Path, ...]
    source: str
    target: str
    columns: tuple[int, ...] | None = None
    header: tuple[str, ...] | None = None
    format: Format = "lines"
    separator: Separator | None = None
    is_swapped: bool = False
    inline_tags: InlineTags = "keep"
    unclear_header: tuple[str, ...] | None = None
    bad_rows: str = STOP
    further: tuple[PairFiles, ...] = ()

    @classmethod
    def joined(cls, files: Sequence[PairFiles]) -> PairFiles:
        """Return a corpus of several files, of one split."""
        return replace(files[0], further=tuple(files[1:]))

    @property
    def every(self) -> tuple[PairFiles, ...]:
        """The files one by one."""
        return (replace(self, further=()), *self.further)

    @property
    def all_paths(self) -> tuple[Path, ...]:
        """The paths of all files."""
        return tuple(path for files in self.every for path in files.paths)

    def describe(self) -> str:
        """Return a short description: `train.tsv (en -> de, header)` or `train.en + train.de`."""
        if self.format == "plain":
            return ", ".join(path.name for path in self.paths)
        if self.format == "lines":
            return " + ".join(path.name for path in self.paths)
        details = [f"{self.source} -> {self.target}"]
        if self.columns is not None:
            details.append("header" if self.header else "no header")
        if self.further:
            details.append(f"{len(self.every):,} files")
        return f"{self.paths[0].name} ({', '.join(details)})"

    @property
    def notes(self) -> list[str]:
        """A sentence on each first row that may be a header, but is read as a pair."""
        return [
            f"{files.paths[0]}: the first row is read as a pair, not as the names of the columns: "
            f"{listed(files.unclear_header)}; if they are names, choose the columns by them "
            "(--source NAME --target NAME)"
            for files in self.every
            if files.unclear_header is not None
        ]

    def pair(self, original: str, translation: str, line: int) -> Pair:
        """Return the pair of an original and its translation in the direction of the corpus."""
        sides = (translation, original) if self.is_swapped else (original, translation)
        return Pair(sides[0].strip(), sides[1].strip(), line)


def names_of(side: str, known: Container[str]) -> list[str]:
    """Return the names of the columns or keys of a side: several ones are separated by commas.

    A name that is itself `known` may contain commas.
    """
    return [side] if side in known else [name.strip() for name in side.split(",")]


def with_markers(names: Sequence[str], texts: Sequence[str]) -> str:
    """Join the texts of the columns of one side: `question: who? context: Ada came.`

    Each text follows the name of its column and a colon, as in Raffel et al. 2020, appendix D. The
    text of a single column has no marker; an empty text is left out with its marker.
    """
    if len(names) == 1:
        return texts[0].strip()
    marked = zip(names, (text.strip() for text in texts), strict=True)
    return " ".join(f"{name}: {text}" for name, text in marked if text)


def is_language(name: object) -> TypeGuard[str]:
    """Return whether a name has the form of a language code, such as `en`, `pt-BR` or `sr@latin`;
    the number of a column has not, and `src` and `tgt` are names of columns."""
    return isinstance(name, str) and name not in _COLUMNS and _CODE.fullmatch(name) is not None


def same_language(first: str, second: str) -> bool:
    """Return whether two language codes agree: `en` agrees with `en-US` and `EN_GB`, and `pt-BR`
    does not agree with `pt-PT`."""
    codes = [re.split(r"[-_@.]", code.lower()) for code in (first, second)]
    shorter = min(len(parts) for parts in codes)
    return codes[0][:shorter] == codes[1][:shorter]


def direction(
    where: str, languages: tuple[str | None, str | None], source: str | None, target: str | None
) -> bool:
    """Return whether a file must be read from its translations to its originals.

    languages: those that the file states for originals and translations; None: it states none.
    source, target: the requested languages, or None. Raises UsageError if they do not agree.
    """

    def agree(stated: str | None, requested: str | None) -> bool:
        return stated is None or requested is None or same_language(stated, requested)

    original, translation = languages
    if agree(original, source) and agree(translation, target):
        return False
    if agree(original, target) and agree(translation, source):
        return True
    raise UsageError(
        f"the file has the languages {original or '(unnamed)'} -> {translation or '(unnamed)'}, "
        f"but {source} -> {target} is requested",
        where,
        "set --source and --target to the languages of the file, or give another file",
    )


def check_direction(
    where: str, languages: tuple[str | None, str | None], source: str | None, target: str | None
) -> None:
    """Check that the translations of a file are in the language `target`, as in `direction`."""
    if direction(where, languages, source, target):
        raise UsageError(
            f"the translations of the file are in {languages[1]}, but those of the model in "
            f"{target}",
            where,
            "use a model for the other direction, or set --source and --target",
        )
