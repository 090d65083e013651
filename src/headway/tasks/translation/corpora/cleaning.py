"""Removes pairs that are no translations from a parallel corpus, and says which and why.

The first rule of `REASONS` that a pair breaks is its reason. Nothing is downloaded: what each
language looks like is learned from the corpus itself (`CharacterModel`), so that corpora in which
most pairs are right are cleaned of the rest. `clean_files` writes two new tables, of the pairs kept
and of those removed.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import fmean, pstdev
from tempfile import TemporaryFile
from typing import IO

from headway.base.errors import UsageError
from headway.base.files import check_new_file, write_file
from headway.tasks.translation.corpora.corpus_check import CONTROL_CHARACTERS, pair_hash
from headway.tasks.translation.pair_files import Pair, PairFiles
from headway.tasks.translation.pairs.reading import read_pairs

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

REPORTED = 10_000
"""Pairs between two calls of `progress`."""

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
class Language:
    """A model of the texts of one side, and the most nats per character of one of them."""

    model: CharacterModel
    limit: float


@dataclass(frozen=True)
class Languages:
    """The languages of both sides."""

    source: Language
    target: Language


def clean(
    pairs: Iterable[Pair], languages: Languages | None, rules: CleaningRules
) -> Iterator[tuple[Pair, str | None]]:
    """Yield each pair and the reason to remove it, or None.

    languages: from `learn_languages`; None skips that rule. Memory: 8 bytes for each pair.
    """
    seen: set[int] = set()
    for pair in pairs:
        reason = _reason(pair, languages, rules)
        if reason is None:
            key = pair_hash(pair.source, pair.target)
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
    return Languages(
        _learned([pair.source for pair in chosen], rules.outlier),
        _learned([pair.target for pair in chosen], rules.outlier),
    )


def _learned(texts: Sequence[str], outlier: float) -> Language:
    model = CharacterModel(texts)
    nats = [model.nats(text) for text in texts]
    return Language(model, fmean(nats) + outlier * pstdev(nats))


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
    source, target = languages.source, languages.target
    for text, own, other in ((pair.source, source, target), (pair.target, target, source)):
        if len(text) < WORDY:
            continue
        nats = own.model.nats(text)
        lead = nats - other.model.nats(text)  # above 0: more like the other language
        if lead > rules.margin or (nats > own.limit and lead > -rules.margin / 2):
            return True
    return False


def _sides(pair: Pair) -> tuple[str, str]:
    return pair.source, pair.target


def _normal(text: str) -> str:
    """Return the text in lower case with two spaces before it; all digits are 0."""
    return "  " + re.sub(r"\d", "0", text.casefold())


def clean_files(
    files: PairFiles,
    output: Path,
    rules: CleaningRules,
    *,
    check_language: bool = True,
    progress: Callable[[int], None] = lambda read: None,
) -> tuple[Cleaned, Path]:
    """Write the pairs that are kept to `output`; return counts, and the path of those removed.

    Both tables appear when all pairs were read. Raises UsageError if `output` is no new .tsv file,
    DataError for pairs that cannot be read.
    """
    if output.suffix != ".tsv":
        raise UsageError(f"{output}: expected a name that ends in .tsv", hint=f"{output}.tsv")
    removed_path = output.with_suffix(".removed.tsv")
    for path in (output, removed_path):
        check_new_file(path)
    cleaned = Cleaned()
    languages = learn_languages(read_pairs(files), rules) if check_language else None
    cleaned.languages_checked = languages is not None
    source, target = files.source or "source", files.target or "target"
    with TemporaryFile("w+b") as kept, TemporaryFile("w+b") as removed:
        kept.write(f"{source}\t{target}\n".encode())
        removed.write(f"reason\tline\t{source}\t{target}\n".encode())
        for pair, reason in clean(read_pairs(files), languages, rules):
            cleaned.read += 1
            if cleaned.read % REPORTED == 0:
                progress(cleaned.read)
            row = f"{_cell(pair.source)}\t{_cell(pair.target)}\n"
            if reason is None:
                cleaned.kept += 1
                kept.write(row.encode())
            else:
                cleaned.removed[reason] += 1
                removed.write(f"{reason}\t{pair.line}\t{row}".encode())
        write_file(removed_path, _blocks(removed))
        write_file(output, _blocks(kept))
    return cleaned, removed_path


def _cell(text: str) -> str:
    """Return a text without the characters that separate cells and rows."""
    return " ".join(text.replace("\t", " ").splitlines())


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    while block := file.read(1 << 20):
        yield block
