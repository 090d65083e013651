"""A text as ids of whole words on disk, and the words that one pass over it looks at.

A folder holds `words.bin` (little-endian int32: all sentences end to end, with the border id 0
before, between and after them) and `words.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headway.data.parallel_corpus import mapped_numbers, verify_corpus
from headway.errors import DataError
from headway.files import read_json, write_file
from headway.folders import new_folder
from headway.text import Vocabulary, words_of

FORMAT = 1
FACTS_FILE, IDS_FILE = "words.json", "words.bin"
_DTYPE = np.dtype("<i4")
_HASHED = 2**20  # places hashed at once


class WordCorpus:
    """An encoded text, mapped from disk. Made by `prepare_words` or `WordCorpus.open`.

    words: how many there are, without the borders. unknown: words that were left out, because the
    vocabulary does not have them; their neighbours then stand side by side.
    """

    def __init__(self, folder: Path, facts: dict[str, Any]) -> None:
        """`facts`: a checked words.json; `open` reads and checks it."""
        self.words: int = facts["words"]
        self.unknown: int = facts["unknown"]
        self.ids: npt.NDArray[np.int32] = mapped_numbers(folder / IDS_FILE, _DTYPE, facts["ids"])

    @property
    def has_neighbours(self) -> bool:
        """Whether any word stands beside another."""
        return bool(((self.ids[1:] != 0) & (self.ids[:-1] != 0)).any())

    @classmethod
    def open(cls, folder: Path, vocabulary: Vocabulary) -> WordCorpus:
        """Map the text in `folder`, which must have been encoded with `vocabulary`. DataError."""
        verify_corpus(folder)
        path = folder / FACTS_FILE
        facts = read_json(path)
        numbers = ("words", "unknown", "ids")
        if (
            not isinstance(facts, dict)
            or facts.get("format") != FORMAT
            or any(type(facts.get(name)) is not int for name in numbers)
        ):
            raise DataError(f"not a text of format {FORMAT}", str(path), "prepare the data again")
        if facts.get("vocabulary") != vocabulary.fingerprint:
            raise DataError("encoded with another vocabulary", str(path), "prepare the data again")
        corpus = cls(folder, facts)
        if not 0 <= int(corpus.ids.min()) <= int(corpus.ids.max()) < vocabulary.size:
            raise DataError(
                "ids that the vocabulary does not have",
                str(folder / IDS_FILE),
                "prepare the data again",
            )
        return corpus


def prepare_words(lines: Iterable[str], vocabulary: Vocabulary, folder: Path) -> WordCorpus:
    """Encode `lines`, one sentence each, into the new folder `folder`, and open it.

    Memory holds one line. Lines without a known word are left out. Whatever goes wrong, no
    half-written folder stays.
    """
    written = words = unknown = 0
    with new_folder(folder) as temporary:
        with (temporary / IDS_FILE).open("xb") as file:
            file.write(np.zeros(1, _DTYPE).tobytes())
            for line in lines:
                found = words_of(line)
                ids = vocabulary.encode(found)
                unknown += len(found) - len(ids)
                if ids:
                    file.write(np.array([*ids, 0], _DTYPE).tobytes())
                    written, words = written + 1, words + len(ids)
        facts = {
            "format": FORMAT,
            "words": words,
            "unknown": unknown,
            "ids": words + written + 1,
            "vocabulary": vocabulary.fingerprint,
        }
        write_file(temporary / FACTS_FILE, json.dumps(facts, indent=2).encode())
    return WordCorpus.open(folder, vocabulary)


def keep_probability(counts: npt.NDArray[np.float64], threshold: float) -> npt.NDArray[np.float64]:
    """min(1, sqrt(t / f)) for each word of relative frequency f; t = 0 keeps all.

    Frequent words say little about their neighbours. Mikolov et al. 2013b, equation 5. The border
    (count 0) is always kept.
    """
    frequency = counts / counts.sum()
    if not threshold:
        return np.ones_like(frequency)
    with np.errstate(divide="ignore"):
        kept: npt.NDArray[np.float64] = np.minimum(1.0, np.sqrt(threshold / frequency))
    return kept


def subsampled(
    ids: npt.NDArray[np.int32], keep: npt.NDArray[np.float64], key: int
) -> npt.NDArray[np.int32]:
    """The ids that one pass keeps: word w with probability keep[w]; borders stay.

    The chance of place i follows from (key, i) alone.
    """
    if keep.min() >= 1:
        return np.asarray(ids)
    parts = []
    for start in range(0, len(ids), _HASHED):
        part = np.asarray(ids[start : start + _HASHED])
        chance = uniform(key, np.arange(start, start + len(part), dtype=np.uint64))
        parts.append(part[chance < keep[part]])
    return np.concatenate(parts)


def uniform(key: int, places: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for each place: a hash of (key, place).

    splitmix64 (Steele, Lea and Flood 2014): whatever order places are asked in, each has its own.
    """
    with np.errstate(over="ignore"):
        z = (places + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


def key_of(*numbers: int) -> int:
    """One key of 64 bits for (seed, epoch, purpose)."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])
