"""Glossaries: how terms must be translated."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.data.formats.tables import open_table


@dataclass(frozen=True)
class Glossary:
    """Terms of the source language and their translations."""

    terms: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> Glossary:
        """Read a table of two columns without a header: source term, target term.

        Raises UsageError if there is no such file, DataError with the line for anything but two
        cells, and for a source term with two translations.
        """
        if not path.is_file():
            raise UsageError("there is no such file", str(path), "check the path of the glossary")
        terms: dict[str, str] = {}
        for number, row in open_table(path).rows:
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            if len(cells) != 2 or not all(cells):
                line = "\t".join(row)
                raise DataError(
                    f"expected a source term, a tab and a target term, but found {line[:60]!r}",
                    f"{path}:{number}",
                    "write one term on each line: house<TAB>Haus",
                )
            if terms.setdefault(cells[0], cells[1]) != cells[1]:
                raise DataError(
                    f"{cells[0]!r} has two translations, {terms[cells[0]]!r} and {cells[1]!r}",
                    f"{path}:{number}",
                    "keep one of them",
                )
        if not terms:
            raise DataError("the glossary has no terms", str(path), "house<TAB>Haus on each line")
        return cls(terms)

    def required(self, text: str) -> list[str]:
        """Return the target terms for the source terms that are whole words of a text.

        Upper and lower case of the source are alike. Of overlapping terms the longest counts.
        """
        words = "|".join(re.escape(term) for term in sorted(self.terms, key=len, reverse=True))
        by_term = {term.casefold(): target for term, target in self.terms.items()}
        matches = re.finditer(rf"(?<!\w)(?:{words})(?!\w)", text, re.IGNORECASE)
        return list(dict.fromkeys(by_term[match[0].casefold()] for match in matches))


def required_phrases(
    texts: Sequence[str], contain: Sequence[str], glossary: Glossary | None
) -> list[list[str]]:
    """Return for each text the phrases that its translation must contain."""
    return [
        list(dict.fromkeys([*contain, *(glossary.required(text) if glossary else ())]))
        for text in texts
    ]
