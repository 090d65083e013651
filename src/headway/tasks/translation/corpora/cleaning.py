"""Removes pairs that are no translations from a parallel corpus, and says which and why.

The first rule of `REASONS` that a pair breaks is its reason. Nothing is downloaded: what each
language looks like is learned from the corpus itself (`CharacterModel`), so that corpora in which
most pairs are right are cleaned of the rest.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from headway.tasks.translation.corpora.corpus_check import CONTROL_CHARACTERS
from headway.tasks.translation.pair_files import Pair

REASONS = {
    "empty": "a side is empty",
    "encoding": "damaged encoding, such as Ã© for é, or control characters",
    "too long": "a side has too many characters",
    "ratio": "one side is many times longer than the other",
    "no letters": "a side has no letter, and the other has",
    "copy": "both sides are the same text",
    "language": "a side looks like the other language, or like none of the corpus",
    "duplicate": "the same pair occurred before",
}
"""Name of a rule -> what is wrong with the pairs that it removes, in the order of the checks."""

LEARNED_FROM = 50_000
"""Pairs from which the languages are learned, the first ones."""

SHORT, WORDY = 12, 20
"""Characters below which the ratio and the language cannot be judged."""

_SIGNS_OF_DAMAGE = re.compile("[\u00c2\u00c3\u00c5\u00e2][\u0080-\u024f\u2010-\u2122]")


@dataclass(frozen=True, kw_only=True)
class CleaningRules:
    """Limits of the rules.

    max_characters: of a side. max_ratio: of the lengths of the two sides in characters. margin:
    nats per character by which a side in the wrong language looks more like the other one. outlier:
    standard deviations above the mean of its language from which a side is like no language of the
    corpus, unless it is clearly less like the other one.
    """

    max_characters: int = 1000
    max_ratio: float = 4.0
    margin: float = 0.5
    outlier: float = 5.0


@dataclass
class Cleaned:
    """The numbers of pairs that a cleaning read, kept, and removed for each reason.

    languages_checked: whether there were enough pairs to learn the languages from.
    """

    read: int = 0
    kept: int = 0
    removed: Counter[str] = field(default_factory=Counter)
    languages_checked: bool = False


class CharacterModel:
    """Probability of a text by the two characters before each: P(c | a b), with add-one smoothing.

    Fitted to the texts of one side of a corpus. Dunning 1994, "Statistical identification of
    language".
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._trigrams: Counter[str] = Counter()
        self._bigrams: Counter[str] = Counter()
        for text in texts:
            padded = _normal(text)
            self._trigrams.update(padded[i : i + 3] for i in range(len(padded) - 2))
            self._bigrams.update(padded[i : i + 2] for i in range(len(padded) - 2))
        self._symbols = len({trigram[-1] for trigram in self._trigrams}) + 1

    def nats(self, text: str) -> float:
        """Return the mean of -log P over the characters of a text that is not empty."""
        padded = _normal(text)
        total = sum(
            math.log(self._bigrams[padded[i : i + 2]] + self._symbols)
            - math.log(self._trigrams[padded[i : i + 3]] + 1)
            for i in range(len(padded) - 2)
        )
        return total / (len(padded) - 2)


@dataclass(frozen=True)
class Languages:
    """The models of both sides, and the most nats per character that a text of each may have."""

    source: CharacterModel
    target: CharacterModel
    source_limit: float
    target_limit: float


def clean(
    pairs: Iterable[Pair], languages: Languages | None, rules: CleaningRules
) -> Iterator[tuple[Pair, str | None]]:
    """Yield each pair and the reason to remove it, or None.

    languages: from `learn_languages`; None skips that rule. Memory: 8 bytes for each pair.
    """
    seen: set[bytes] = set()
    for pair in pairs:
        reason = _reason(pair, languages, rules)
        if reason is None:
            text = f"{pair.source}\0{pair.target}".encode()
            key = hashlib.blake2b(text, digest_size=8).digest()
            reason = "duplicate" if key in seen else None
            seen.add(key)
        yield pair, reason


def learn_languages(pairs: Iterable[Pair], rules: CleaningRules) -> Languages | None:
    """Learn what each side looks like; None if there are fewer than 1,000 pairs to learn from."""
    chosen = [
        pair
        for pair in islice(pairs, LEARNED_FROM)
        if _reason(pair, None, rules) is None and min(map(len, _sides(pair))) >= WORDY
    ]
    if len(chosen) < 1000:
        return None
    source = CharacterModel(pair.source for pair in chosen)
    target = CharacterModel(pair.target for pair in chosen)
    limits = [
        _limit([model.nats(side) for side in sides], rules.outlier)
        for model, sides in (
            (source, [pair.source for pair in chosen]),
            (target, [pair.target for pair in chosen]),
        )
    ]
    return Languages(source, target, *limits)


def _limit(nats: list[float], deviations: float) -> float:
    mean = sum(nats) / len(nats)
    return mean + deviations * math.sqrt(sum((n - mean) ** 2 for n in nats) / len(nats))


def _reason(pair: Pair, languages: Languages | None, rules: CleaningRules) -> str | None:
    lengths = sorted(map(len, _sides(pair)))
    if not lengths[0]:
        return "empty"
    if any(_is_damaged(side) for side in _sides(pair)):
        return "encoding"
    if lengths[1] > rules.max_characters:
        return "too long"
    if lengths[1] >= SHORT and lengths[1] > rules.max_ratio * lengths[0]:
        return "ratio"
    has_letters = [any(c.isalpha() for c in side) for side in _sides(pair)]
    if has_letters[0] != has_letters[1]:
        return "no letters"
    if _is_copy(pair):
        return "copy"
    if languages is not None and _is_other_language(pair, languages, rules):
        return "language"
    return None


def _is_damaged(text: str) -> bool:
    """Whether a text has control characters, or is UTF-8 that was read as Latin-1 or cp1252."""
    if CONTROL_CHARACTERS.search(text):
        return True
    if not _SIGNS_OF_DAMAGE.search(text):
        return False
    for encoding in ("cp1252", "latin-1"):
        try:
            repaired = text.encode(encoding).decode("utf-8")
        except UnicodeError:
            continue
        if len(repaired) < len(text):
            return True
    return False


def _is_copy(pair: Pair) -> bool:
    """Whether both sides have the same letters; names and numbers of one word may."""
    source, target = (
        "".join(c for c in unicodedata.normalize("NFKC", side).casefold() if c.isalnum())
        for side in _sides(pair)
    )
    return source == target and len(pair.source.split()) > 1


def _is_other_language(pair: Pair, languages: Languages, rules: CleaningRules) -> bool:
    sides = (
        (pair.source, languages.source, languages.target, languages.source_limit),
        (pair.target, languages.target, languages.source, languages.target_limit),
    )
    for text, own, other, limit in sides:
        if len(text) < WORDY:
            continue
        nats = own.nats(text)
        lead = nats - other.nats(text)  # above 0: more like the other language
        if lead > rules.margin or (nats > limit and lead > -rules.margin / 2):
            return True
    return False


def _sides(pair: Pair) -> tuple[str, str]:
    return pair.source, pair.target


def _normal(text: str) -> str:
    """Return the text in lower case with two spaces before it; all digits are 0."""
    return "  " + re.sub(r"\d", "0", text.casefold())
