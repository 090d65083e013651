"""Vocabularies of whole words: the rule that splits text into words, and the list of known
words."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.base.files import read_json, write_file

BORDER = "</s>"
FORMAT = 1
FILE_LIMIT = 256 * 2**20
_FILE = "vocabulary.json"
_JOINERS = "\u200c\u200d"


@cache
def _word() -> re.Pattern[str]:
    """Return the pattern of a word: a letter, then letters, combining characters and joiners; the
    same again after an apostrophe."""
    codes = range(0x300, 0x1E960)  # contains the combining characters of all scripts
    combining = "".join(c for c in map(chr, codes) if unicodedata.category(c).startswith("M"))
    letter = r"[^\W\d_]"
    run = f"{letter}(?:{letter}|[{re.escape(combining)}{_JOINERS}])*"
    return re.compile(f"{run}(?:'{run})*")


def words_of(text: str) -> list[str]:
    """Split a text into words: runs of letters of any script, in lower case.

    Apostrophes inside a word belong to it ("don't", "l'eau"). All other characters that are not
    letters (digits, hyphens, punctuation) separate words and are dropped. Spelling variants are
    normalised (Unicode NFC; the apostrophe ’ becomes ').
    """
    plain = unicodedata.normalize("NFC", text).replace("’", "'").lower()
    return _word().findall(plain)


class Vocabulary:
    """The known words with their counts in the training text, most frequent first.

    Ids are 0 .. size-1. Id 0 is the sentence border `</s>`, which no text can contain as a word.
    """

    def __init__(self, words: Sequence[str], counts: Sequence[int]) -> None:
        """Make a vocabulary of distinct `words`, without the border, and one count per word."""
        self.words = [BORDER, *words]
        self.counts = [0, *counts]
        self.ids = {word: i for i, word in enumerate(self.words)}
        if len(self.ids) != len(self.words) or len(self.counts) != len(self.words):
            raise DataError(
                "a vocabulary must have distinct words with one count each, but this one has "
                f"{len(words)} words ({len(set(words))} distinct) and {len(counts)} counts"
            )

    @classmethod
    def count(cls, texts: Iterable[str], most: int, min_count: int = 1) -> Vocabulary:
        """Return the `most` most frequent words that occur at least `min_count` times in `texts`.

        Ties are broken alphabetically. Memory holds each distinct word once. Raises DataError if no
        word remains.
        """
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(words_of(text))
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        chosen = [(word, count) for word, count in ranked[:most] if count >= min_count]
        if not chosen:
            raise DataError(
                f"a word must occur at least {min_count:,} times to be in the vocabulary, but none "
                f"of the {len(counts):,} distinct words of the text does"
                if counts
                else "the text has no words",
                hint="set --data.min-count 1 to keep every word" if counts else None,
            )
        return cls([word for word, _ in chosen], [count for _, count in chosen])

    @property
    def size(self) -> int:
        """The number of words, including the border."""
        return len(self.words)

    def encode(self, words: Iterable[str]) -> list[int]:
        """Return the ids of the known words; unknown words are left out."""
        return [self.ids[word] for word in words if word in self.ids]

    def id_of(self, word: str) -> int:
        """Return the id of one word, in any case. Raises UsageError for an unknown word, with the
        closest known word."""
        words = words_of(word)
        if len(words) == 1 and words[0] in self.ids:
            return self.ids[words[0]]
        suggestion = _closest("".join(words) or word, self.words[1:])
        raise UsageError(
            f"the word {word!r} is not in the model's vocabulary",
            hint=f"{suggestion}, the closest word in the vocabulary"
            if suggestion
            else "a word of the training text",
        )

    @property
    def fingerprint(self) -> str:
        """sha256 of the words and counts."""
        return hashlib.sha256(self._json()).hexdigest()

    def save(self, folder: Path) -> None:
        """Write `vocabulary.json`."""
        write_file(folder / _FILE, self._json())

    @classmethod
    def load(cls, folder: Path) -> Vocabulary:
        """Read a file that `save` wrote. Raises DataError for another file."""
        path = folder / _FILE
        content = read_json(path, FILE_LIMIT)
        if not _is_vocabulary(content):
            raise DataError(
                f"the file is not a vocabulary of format {FORMAT}",
                str(path),
                "give the folder of a model that headway trained",
            )
        return cls(content["words"], content["counts"])

    def _json(self) -> bytes:
        content = {"format": FORMAT, "words": self.words[1:], "counts": self.counts[1:]}
        return (json.dumps(content, ensure_ascii=False, indent=0) + "\n").encode()


def _is_vocabulary(content: object) -> bool:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        return False
    words, counts = content.get("words"), content.get("counts")
    return (
        isinstance(words, list)
        and all(isinstance(word, str) for word in words)
        and isinstance(counts, list)
        and all(type(count) is int and count >= 0 for count in counts)
    )


def _closest(word: str, known: Sequence[str]) -> str | None:
    """Return the known word with the smallest edit distance, at most a third of the letters, or
    None.

    Of words with the same distance, the first (most frequent) is returned.
    """
    best, limit = None, max(1, len(word) // 3) + 1
    for candidate in known:
        if abs(len(candidate) - len(word)) < limit:
            distance = _distance(word, candidate, limit)
            if distance < limit:
                best, limit = candidate, distance
    return best


def _distance(a: str, b: str, limit: int) -> int:
    """Return the Levenshtein distance of `a` and `b`, or `limit` if it is at least that."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
        if min(row) >= limit:
            return limit
    return row[-1]
