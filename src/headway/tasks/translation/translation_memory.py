"""Translation memory: earlier translations of the same text, or of a similar one.

    similarity(a, b) = 1 - d(a, b) / max(|a|, |b|)

d is the edit distance in words: insertions, deletions and substitutions of words or punctuation
marks; all placeholders are alike. A match of similarity 1 has the same words.

>>> from headway.tasks.translation.translation_memory import TranslationMemory
>>> memory = TranslationMemory([("Open the file", "Ouvrir le fichier")])
>>> memory.best("Open the folder", least=0.6)
Match(source='Open the file', target='Ouvrir le fichier', similarity=0.6666666666666667)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from headway.base.errors import DataError
from headway.tasks.translation.pairs.reading import pair_files, read_pairs
from headway.tasks.translation.placeholder_pattern import Placeholders

_PLACEHOLDERS, _PLACEHOLDER = Placeholders(), "\ue000"
_WORD = re.compile(rf"{_PLACEHOLDER}|\w+|[^\w\s]")


@dataclass(frozen=True)
class Match:
    """An entry of a memory, and the similarity of its source to the requested text."""

    source: str
    target: str
    similarity: float

    def adapted(self, text: str, protected: Sequence[str] = ()) -> str | None:
        """Return the target with the placeholders of `text`, or None if it cannot have them.

        The n-th placeholder of the source stands for the n-th of `text`. protected: further strings
        that are placeholders.
        """
        placeholders = Placeholders(protected)
        former, new = placeholders.find(self.source), placeholders.find(text)
        if len(former) != len(new):
            return None
        renamed = {a.text: b.text for a, b in zip(former, new, strict=True)}
        if len(set(renamed.values())) != len(renamed):
            return None
        target = placeholders.replaced(self.target, lambda it: renamed.get(it.text, it.text))
        return None if placeholders.faults(text, target) else target


class TranslationMemory:
    """Finds the most similar source among many. Of entries with the same source the first counts.

    An index from words to entries finds the candidates: a text of n words with at least t words in
    common with another has one of its n - t + 1 rarest words in common with it, so only the entries
    of those are compared.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._targets: dict[str, str] = {}
        for source, target in pairs:
            if source.strip() and target.strip():
                self._targets.setdefault(" ".join(source.split()), target.strip())
        self._sources = list(self._targets)
        self._words = [_words(source) for source in self._sources]
        self._entries: dict[str, list[int]] = {}
        for number, words in enumerate(self._words):
            for word in set(words):
                self._entries.setdefault(word, []).append(number)

    @classmethod
    def read(cls, path: Path, source: str | None, target: str | None) -> TranslationMemory:
        """Read a memory from any file of sentence pairs: TMX, PO, XLIFF, tables, ...

        source, target: as for `pair_files`. Raises what that raises, and DataError for an empty
        memory.
        """
        memory = cls((p.source, p.target) for p in read_pairs(pair_files(path, source, target)))
        if not len(memory):
            raise DataError("the translation memory is empty", str(path), "check its languages")
        return memory

    def __len__(self) -> int:
        return len(self._sources)

    def best(self, text: str, least: float = 1.0) -> Match | None:
        """Return the most similar entry, the first of equal ones; None if all are below `least`."""
        text = " ".join(text.split())
        if text in self._targets:
            return Match(text, self._targets[text], 1.0)
        words = _words(text)
        best: Match | None = None
        for number in sorted(self._candidates(words, least)):
            other = self._words[number]
            longest = max(len(words), len(other))
            bound = best.similarity if best else least
            distance = edit_distance(words, other, int((1 - bound) * longest + 1e-9))
            if distance is None:
                continue
            similarity = 1 - distance / longest
            if best is None or similarity > best.similarity:
                source = self._sources[number]
                best = Match(source, self._targets[source], similarity)
        return best

    def _candidates(self, words: tuple[str, ...], least: float) -> set[int]:
        """Return the entries that have enough words in common to be similar enough."""
        common = max(1, ceil(least * len(words) - 1e-9))
        by_rarity = sorted(words, key=lambda word: len(self._entries.get(word, ())))
        possible: set[int] = set()
        for word in by_rarity[: len(words) - common + 1]:
            possible.update(self._entries.get(word, ()))
        counts = Counter(words)
        return {
            number
            for number in possible
            if (counts & Counter(self._words[number])).total()
            >= least * max(len(words), len(self._words[number])) - 1e-9
        }


def _words(text: str) -> tuple[str, ...]:
    """Return the words and punctuation marks of a text; one mark stands for each placeholder."""
    return tuple(_WORD.findall(_PLACEHOLDERS.replaced(text, lambda _: _PLACEHOLDER)))


def edit_distance(a: Sequence[str], b: Sequence[str], most: int) -> int | None:
    """Return the number of insertions, deletions and substitutions from a to b; None if it is more
    than `most`. Levenshtein 1966."""
    if abs(len(a) - len(b)) > most:
        return None
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, start=1):
            diagonal, row[j] = row[j], min(diagonal + (x != y), row[j] + 1, row[j - 1] + 1)
        if min(row) > most:
            return None
    return row[-1] if row[-1] <= most else None
