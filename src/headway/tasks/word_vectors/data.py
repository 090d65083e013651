"""The data of word vectors: vocabulary and encoded text in the run folder, and its subsampling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headway.base.errors import UsageError
from headway.base.files import not_a_file
from headway.data.prepared import Progress, prepared, progress_of
from headway.data.read_once import ReadOnce
from headway.data.rows import read_texts
from headway.data.split import is_held_out
from headway.data.store import Store, new_store
from headway.tasks.job import Emit
from headway.tasks.word_vectors.config import TextConfig, WordsRunConfig
from headway.text import Vocabulary, words_of

FEW_LINES = 100
"""Minimum number of lines of a text of which some are held out."""

HASHED = 2**20
"""Number of positions that are hashed at once."""


@dataclass(frozen=True)
class WordCorpus:
    """An encoded text, memory-mapped from disk. Made by `prepare_words` or `WordCorpus.open`.

    ids: the words of all sentences, with the border id 0 before, between and after them. words:
    number of words, without the borders. unknown: number of words that are not in the vocabulary;
    they are left out, so that the words on both sides become adjacent.
    """

    ids: npt.NDArray[np.int32]
    words: int
    unknown: int

    @property
    def has_neighbours(self) -> bool:
        """Whether any two words are adjacent."""
        return bool(((self.ids[1:] != 0) & (self.ids[:-1] != 0)).any())

    @classmethod
    def open(cls, folder: Path, vocabulary: Vocabulary) -> WordCorpus:
        """Map the text in `folder`.

        Raises DataError if the files are damaged or were encoded with another vocabulary.
        """
        store = Store.open(folder, vocabulary.fingerprint, "vocabulary")
        ids = store.array("ids", "int32", below=vocabulary.size)
        return cls(ids, store.number("words"), store.number("unknown"))


@dataclass(frozen=True)
class PreparedText:
    """Vocabulary and encoded text. valid: the same as train if the text is too short to split."""

    vocabulary: Vocabulary
    train: WordCorpus
    valid: WordCorpus


def check(config: WordsRunConfig) -> None:
    """Raise UsageError if no text files are named, or if a file is missing."""
    if not config.data.train:
        raise UsageError(
            "no training text is named",
            hint="headway train words FILE, where FILE is .txt, a table or records, plain or .gz",
        )
    check_files([Path(name) for name in config.data.train])


def check_files(paths: Sequence[Path]) -> None:
    """Raise UsageError unless all paths are files."""
    for path in paths:
        if not path.is_file():
            hint = "name files: .txt, a table or records, plain or .gz"
            raise UsageError(not_a_file(path), str(path), hint)


def prepare_text(config: TextConfig, folder: Path, emit: Emit) -> PreparedText:
    """Prepare vocabulary and encoded text in the run folder, or reuse them."""
    paths = [Path(path) for path in config.train]
    lines = ReadOnce(
        lambda: read_texts(paths, config.text),
        lambda line: line,
        str,
        folder,
        progress_of(emit, "text", "lines"),
    )

    @cache
    def fraction() -> float:
        return config.held_out if sum(1 for _ in islice(lines, FEW_LINES)) == FEW_LINES else 0.0

    def part(held_out: bool, progress: Progress) -> Iterator[str]:
        for number, line in enumerate(lines, start=1):
            if number % 20_000 == 0:
                progress(number)
            if is_held_out(line, fraction()) == held_out:
                yield line

    reused = (folder / "vocabulary.json").exists()
    if reused:
        vocabulary = Vocabulary.load(folder)
    else:
        words = part(False, progress_of(emit, "words", "lines"))
        vocabulary = Vocabulary.count(words, config.vocabulary, config.min_count)
        vocabulary.save(folder)
    size = {"words": vocabulary.size - 1, "min_count": config.min_count, "reused": reused}
    emit({"kind": "vocabulary", **size})

    def encoded(name: str, held_out: bool) -> WordCorpus:
        return prepared(
            folder / "data" / name,
            lambda path: WordCorpus.open(path, vocabulary),
            lambda path, progress: prepare_words(part(held_out, progress), vocabulary, path),
            lambda corpus: {
                "count": corpus.words,
                "unit": "words",
                "skipped": {"unknown": corpus.unknown},
            },
            emit,
            "lines",
        )

    train = encoded("train", False)
    is_split = (folder / "data" / "valid").exists() or fraction() > 0
    valid = encoded("valid", True) if is_split else train
    return PreparedText(vocabulary, train, valid if valid.has_neighbours else train)


def prepare_words(lines: Iterable[str], vocabulary: Vocabulary, folder: Path) -> WordCorpus:
    """Encode `lines`, one sentence each, into the new folder `folder`, and open it.

    Memory holds one line. Lines without a known word are left out.
    """
    words = unknown = 0
    with new_store(folder, vocabulary.fingerprint) as store:
        store.append("ids", [0], "int32")
        for line in lines:
            words_of_line = words_of(line)
            ids = vocabulary.encode(words_of_line)
            unknown += len(words_of_line) - len(ids)
            if ids:
                store.append("ids", [*ids, 0], "int32")
                words += len(ids)
        store.metadata.update(words=words, unknown=unknown)
    return WordCorpus.open(folder, vocabulary)


def keep_probability(counts: npt.NDArray[np.float64], threshold: float) -> npt.NDArray[np.float64]:
    """Return the probability to keep each word: min(1, sqrt(t / f)) for the relative frequency f
    and the threshold t; t = 0 keeps all words.

    Frequent words are less informative as context. Mikolov et al. 2013b, equation 5. The border
    (count 0) is always kept.
    """
    frequency = counts / counts.sum()
    if not threshold:
        return np.ones_like(frequency)
    with np.errstate(divide="ignore"):
        probability: npt.NDArray[np.float64] = np.minimum(1.0, np.sqrt(threshold / frequency))
    return probability


def subsampled(
    ids: npt.NDArray[np.int32], keep: npt.NDArray[np.float64], key: int
) -> npt.NDArray[np.int32]:
    """Return the ids that an epoch keeps: word w with probability keep[w], and all borders.

    Whether position i is kept depends only on (key, i).
    """
    if keep.min() >= 1:
        return np.asarray(ids)
    parts = []
    for start in range(0, len(ids), HASHED):
        part = np.asarray(ids[start : start + HASHED])
        chance = uniform(key, np.arange(start, start + len(part), dtype=np.uint64))
        parts.append(part[chance < keep[part]])
    return np.concatenate(parts)


def uniform(key: int, positions: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Return a uniform random number in [0, 1) for each position: a hash of (key, position).

    The hash is splitmix64 (Steele, Lea and Flood 2014); the result does not depend on the order of
    the positions.
    """
    with np.errstate(over="ignore"):
        z = (positions + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


def key_of(*numbers: int) -> int:
    """Return a 64-bit key for numbers such as (seed, epoch, purpose)."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])
