"""A corpus of word ids on disk, and the subsampling of its words.

The folder has `words.bin` (little-endian int32: all sentences concatenated, with the border id 0
before, between and after them) and `words.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headway.base.errors import DataError
from headway.base.files import read_json, write_file
from headway.base.folders import new_folder
from headway.data.store import mapped_numbers, verify_corpus
from headway.text import Vocabulary, words_of

FORMAT = 1
DESCRIPTION_FILE, IDS_FILE = "words.json", "words.bin"
_DTYPE = np.dtype("<i4")
_HASHED = 2**20  # number of positions hashed at once


class WordCorpus:
    """An encoded text, memory-mapped from disk. Made by `prepare_words` or `WordCorpus.open`.

    words: number of words, without the borders. unknown: number of words that are not in the
    vocabulary; they are left out, so that the words on both sides become adjacent.
    """

    def __init__(self, folder: Path, description: dict[str, Any]) -> None:
        """Map the files. description: a checked `words.json`; `open` reads and checks it."""
        self.words: int = description["words"]
        self.unknown: int = description["unknown"]
        self.ids: npt.NDArray[np.int32] = mapped_numbers(
            folder / IDS_FILE, _DTYPE, description["ids"]
        )

    @property
    def has_neighbours(self) -> bool:
        """Whether any two words are adjacent."""
        return bool(((self.ids[1:] != 0) & (self.ids[:-1] != 0)).any())

    @classmethod
    def open(cls, folder: Path, vocabulary: Vocabulary) -> WordCorpus:
        """Map the text in `folder`.

        Raises DataError if the files are damaged or were encoded with another vocabulary.
        """
        verify_corpus(folder)
        path = folder / DESCRIPTION_FILE
        description = read_json(path)
        numbers = ("words", "unknown", "ids")
        if (
            not isinstance(description, dict)
            or description.get("format") != FORMAT
            or any(type(description.get(name)) is not int for name in numbers)
        ):
            raise DataError(
                f"the file does not describe a text of format {FORMAT}",
                str(path),
                "prepare the data again",
            )
        if description.get("vocabulary") != vocabulary.fingerprint:
            raise DataError(
                "the text was encoded with another vocabulary", str(path), "prepare the data again"
            )
        corpus = cls(folder, description)
        if not 0 <= int(corpus.ids.min()) <= int(corpus.ids.max()) < vocabulary.size:
            raise DataError(
                f"word ids must be from 0 to {vocabulary.size - 1}, but one is not",
                str(folder / IDS_FILE),
                "prepare the data again",
            )
        return corpus


def prepare_words(lines: Iterable[str], vocabulary: Vocabulary, folder: Path) -> WordCorpus:
    """Encode `lines`, one sentence each, into the new folder `folder`, and open it.

    Memory holds one line. Lines without a known word are left out. After any error no partial
    folder remains.
    """
    written = words = unknown = 0
    with new_folder(folder) as temporary:
        with (temporary / IDS_FILE).open("xb") as file:
            file.write(np.zeros(1, _DTYPE).tobytes())
            for line in lines:
                words_of_line = words_of(line)
                ids = vocabulary.encode(words_of_line)
                unknown += len(words_of_line) - len(ids)
                if ids:
                    file.write(np.array([*ids, 0], _DTYPE).tobytes())
                    written, words = written + 1, words + len(ids)
        description = {
            "format": FORMAT,
            "words": words,
            "unknown": unknown,
            "ids": words + written + 1,
            "vocabulary": vocabulary.fingerprint,
        }
        write_file(temporary / DESCRIPTION_FILE, json.dumps(description, indent=2).encode())
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
    for start in range(0, len(ids), _HASHED):
        part = np.asarray(ids[start : start + _HASHED])
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
