"""Whole words: the rule that cuts text into them, and the list of those that are known."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from headway.errors import DataError, UsageError
from headway.files import read_json, write_file

BORDER = "</s>"
FORMAT = 1
FILE_LIMIT = 256 * 2**20
_FILE = "vocabulary.json"
_JOINERS = "\u200c\u200d"


@cache
def _word() -> re.Pattern[str]:
    """A letter, then letters, combining marks and joiners; more of them after an apostrophe."""
    codes = range(0x300, 0x1E960)  # marks of every script stand in here
    marks = "".join(c for c in map(chr, codes) if unicodedata.category(c).startswith("M"))
    letter = r"[^\W\d_]"
    run = f"{letter}(?:{letter}|[{re.escape(marks)}{_JOINERS}])*"
    return re.compile(f"{run}(?:'{run})*")


def words_of(text: str) -> list[str]:
    """The words of a text: runs of letters, of any script, in lower case.

    Apostrophes inside a word belong to it ("don't", "l'eau"); everything else that is no letter
    (digits, hyphens, punctuation) parts words and is dropped. Equal-looking spellings are made
    equal (Unicode NFC; the apostrophe ’ becomes ').
    """
    plain = unicodedata.normalize("NFC", text).replace("’", "'").lower()
    return _word().findall(plain)


class Vocabulary:
    """Known words and how often each stood in the training text, most frequent first.

    Id 0 is the border between sentences, `</s>`, which no text can spell. Ids are 0 .. size-1.
    """

    def __init__(self, words: Sequence[str], counts: Sequence[int]) -> None:
        """words without the border; counts of the same length."""
        self.words = [BORDER, *words]
        self.counts = [0, *counts]
        self.ids = {word: i for i, word in enumerate(self.words)}
        if len(self.ids) != len(self.words) or len(self.counts) != len(self.words):
            raise DataError(f"{len(words)} words, not all different, with {len(counts)} counts")

    @classmethod
    def count(cls, texts: Iterable[str], most: int, min_count: int = 1) -> Vocabulary:
        """The `most` most frequent words that stand there at least `min_count` times.

        Ties go by the alphabet. Memory holds each different word once. DataError if none is left.
        """
        found: Counter[str] = Counter()
        for text in texts:
            found.update(words_of(text))
        ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))
        kept = [(word, count) for word, count in ranked[:most] if count >= min_count]
        if not kept:
            raise DataError(
                f"the text has {len(found):,} different words, and none {min_count:,} times"
                if found
                else "the text has no words",
                hint="--data.min-count 1 keeps every word" if found else None,
            )
        return cls([word for word, _ in kept], [count for _, count in kept])

    @property
    def size(self) -> int:
        """Words and the border."""
        return len(self.words)

    def encode(self, words: Iterable[str]) -> list[int]:
        """Ids of the known words; unknown ones are left out."""
        return [self.ids[word] for word in words if word in self.ids]

    def id_of(self, word: str) -> int:
        """The id of one word, written in any case. UsageError proposes the closest known word."""
        parts = words_of(word)
        if len(parts) == 1 and parts[0] in self.ids:
            return self.ids[parts[0]]
        meant = _closest("".join(parts) or word, self.words[1:])
        raise UsageError(
            f"the model does not know the word {word!r}",
            hint=f"{meant}, the closest that it knows" if meant else "a word of the training text",
        )

    @property
    def fingerprint(self) -> str:
        """sha256 of words and counts."""
        return hashlib.sha256(self._json()).hexdigest()

    def save(self, folder: Path) -> None:
        """Write `vocabulary.json`."""
        write_file(folder / _FILE, self._json())

    @classmethod
    def load(cls, folder: Path) -> Vocabulary:
        """Read what `save` wrote; DataError if it is not that."""
        path = folder / _FILE
        facts = read_json(path, FILE_LIMIT)
        if not _is_vocabulary(facts):
            raise DataError(f"not a vocabulary of format {FORMAT}", str(path))
        return cls(facts["words"], facts["counts"])

    def _json(self) -> bytes:
        facts = {"format": FORMAT, "words": self.words[1:], "counts": self.counts[1:]}
        return (json.dumps(facts, ensure_ascii=False, indent=0) + "\n").encode()


def _is_vocabulary(facts: Any) -> bool:
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        return False
    words, counts = facts.get("words"), facts.get("counts")
    return (
        isinstance(words, list)
        and all(isinstance(word, str) for word in words)
        and isinstance(counts, list)
        and all(type(count) is int and count >= 0 for count in counts)
    )


def _closest(word: str, known: Sequence[str]) -> str | None:
    """The known word with the fewest letters changed, missing or too many; at most a third of them.

    Among equals the most frequent, which stands first.
    """
    best, limit = None, max(1, len(word) // 3) + 1
    for other in known:
        if abs(len(other) - len(word)) < limit:
            found = _distance(word, other, limit)
            if found < limit:
                best, limit = other, found
    return best


def _distance(a: str, b: str, limit: int) -> int:
    """Levenshtein's, given up at `limit`."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
        if min(row) >= limit:
            return limit
    return row[-1]
