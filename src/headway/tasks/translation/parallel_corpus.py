"""A parallel corpus on disk: encoded once, then memory-mapped by every run that uses it.

The folder has, for each side, `SIDE.bin` (the concatenated ids of all sentences, little-endian
uint16 or uint32, no special tokens) and `SIDE.offsets.bin` (n + 1 int64 values: sentence i is
ids[offsets[i] : offsets[i + 1]]); and it has `corpus.json`. A corpus with word alignments has
`links.bin` and `links.offsets.bin` too, of the same format: the positions of a source word and of a
target word in turn.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from headway.base.errors import DataError, UsageError
from headway.base.files import read_json, write_file
from headway.base.folders import new_folder
from headway.data.store import mapped_numbers, verify_corpus
from headway.tasks.translation.pair_files import Pair
from headway.text import TokenizerPair

CHUNK = 4096
FORMAT = 1
DESCRIPTION_FILE = "corpus.json"
SIDES = ("source", "target")
_DTYPES: dict[str, np.dtype[Any]] = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}
_OFFSET = np.dtype("<i8")
EMPTY, TOO_LONG = "empty", "too long"


class Corpus:
    """Encoded sentence pairs, memory-mapped from disk. Made by `prepare` or `Corpus.open`.

    Memory holds only `source_lengths` and `target_lengths` (int32, one per pair, in tokens without
    special tokens). `skipped` counts the pairs that were left out, by reason.
    """

    def __init__(self, folder: Path, description: dict[str, Any]) -> None:
        """Map the files. description: a checked `corpus.json`; `open` reads and checks it."""
        self.folder = folder
        self.skipped: dict[str, int] = dict(description["skipped"])
        self._length: int = description["pairs"]
        dtype = _DTYPES[description["dtype"]]
        self._source, self._source_offsets = _side(folder, "source", dtype, self._length)
        self._target, self._target_offsets = _side(folder, "target", dtype, self._length)
        self.aligned: bool = description.get("aligned", False)
        if self.aligned:
            self._links, self._link_offsets = _side(
                folder, "links", _DTYPES["uint32"], self._length, shortest=0
            )
        self.source_lengths = np.diff(self._source_offsets).astype(np.int32)
        self.target_lengths = np.diff(self._target_offsets).astype(np.int32)

    @classmethod
    def open(cls, folder: Path, tokenizers: TokenizerPair) -> "Corpus":
        """Map the corpus in `folder`, which must have been encoded with `tokenizers`.

        Raises DataError if a file is missing or has changed, or if the tokenizers differ (with both
        fingerprints).
        """
        verify_corpus(folder)
        path = folder / DESCRIPTION_FILE
        description = read_json(path)
        _check_description(description, path)
        if description["tokenizers"] != tokenizers.fingerprint:
            raise DataError(
                f"the data must be encoded with the tokenizer {tokenizers.fingerprint}, but were "
                f"encoded with {description['tokenizers']}",
                where=str(path),
                hint="prepare the data again, or use the tokenizer that encoded them",
            )
        return cls(folder, description)

    def __len__(self) -> int:
        return self._length

    def source(self, index: int) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Return the ids of source sentence `index` as a read-only view into the file."""
        return self._source[self._source_offsets[index] : self._source_offsets[index + 1]]

    def target(self, index: int) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Return the ids of target sentence `index` as a read-only view into the file."""
        return self._target[self._target_offsets[index] : self._target_offsets[index + 1]]

    def links(self, index: int) -> list[tuple[int, int]]:
        """Return the aligned words of pair `index`: positions of a source and of a target word.

        Raises ValueError for a corpus without alignments.
        """
        if not self.aligned:
            raise ValueError(f"the corpus in {self.folder} has no word alignments")
        start, end = self._link_offsets[index : index + 2]
        return [(int(s), int(t)) for s, t in self._links[start:end].reshape(-1, 2)]


class JoinedCorpora:
    """Several corpora as one: their pairs are numbered one after the other."""

    def __init__(self, corpora: Sequence[Corpus]) -> None:
        self.corpora = tuple(corpora)
        self.sizes = tuple(len(corpus) for corpus in corpora)
        self.aligned = all(corpus.aligned for corpus in corpora)
        self._ends = np.cumsum(self.sizes)
        self.source_lengths = np.concatenate([corpus.source_lengths for corpus in corpora])
        self.target_lengths = np.concatenate([corpus.target_lengths for corpus in corpora])

    def __len__(self) -> int:
        return sum(self.sizes)

    def source(self, index: int) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Return the ids of source sentence `index`, as `Corpus.source`."""
        corpus, position = self._at(index)
        return corpus.source(position)

    def target(self, index: int) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Return the ids of target sentence `index`, as `Corpus.target`."""
        corpus, position = self._at(index)
        return corpus.target(position)

    def links(self, index: int) -> list[tuple[int, int]]:
        """Return the aligned words of pair `index`, as `Corpus.links`."""
        corpus, position = self._at(index)
        return corpus.links(position)

    def _at(self, index: int) -> tuple[Corpus, int]:
        number = int(np.searchsorted(self._ends, index, side="right"))
        return self.corpora[number], index - int(self._ends[number]) + self.sizes[number]


def prepare(
    pairs: Iterable[Pair],
    tokenizers: TokenizerPair,
    folder: Path,
    max_length: int,
    progress: Callable[[int], None] | None = None,
    *,
    aligned: bool = False,
) -> Corpus:
    """Encode `pairs` into the new folder `folder` and open it. aligned: keep their aligned words.

    Memory holds one chunk of 4,096 pairs. Pairs with an empty side, or with more than `max_length`
    tokens on a side, are left out and counted. `progress` is called with the number of pairs read
    so far after each chunk. Raises UsageError if `folder` exists, DataError if no pair is left.
    After any error no partial folder remains.
    """
    if max_length < 1:
        raise UsageError(
            f"the maximum length must be at least 1 token, but is {max_length}",
            hint="set --data.max-length to 1 or more",
        )
    name = "uint16" if max(tokenizers.source.size, tokenizers.target.size) <= 2**16 else "uint32"
    skipped = {EMPTY: 0, TOO_LONG: 0}
    with new_folder(folder) as temporary:
        with ExitStack() as files:
            source = files.enter_context(_Writer(temporary, "source", _DTYPES[name]))
            target = files.enter_context(_Writer(temporary, "target", _DTYPES[name]))
            links = None
            if aligned:
                links = files.enter_context(_Writer(temporary, "links", _DTYPES["uint32"]))
            read = 0
            for chunk in _chunks(pairs):
                read += len(chunk)
                encoded = _encoded(chunk, tokenizers, max_length, skipped)
                source.add([ids for _, ids, _ in encoded])
                target.add([ids for _, _, ids in encoded])
                if links is not None:
                    links.add([list(chain.from_iterable(pair.links)) for pair, _, _ in encoded])
                if progress is not None:
                    progress(read)
        if source.count == 0:
            raise DataError(
                f"none of {read:,} sentence pairs can be used: {skipped[EMPTY]:,} have an empty "
                f"side, {skipped[TOO_LONG]:,} have more than {max_length} tokens on a side",
                hint="check --source and --target, or increase --data.max-length",
            )
        description = {
            "format": FORMAT,
            "pairs": source.count,
            "dtype": name,
            "tokens": {"source": source.tokens, "target": target.tokens},
            "max_length": max_length,
            "skipped": skipped,
            "tokenizers": tokenizers.fingerprint,
            **({"aligned": True} if aligned else {}),
        }
        write_file(temporary / DESCRIPTION_FILE, json.dumps(description, indent=2).encode("utf-8"))
    return Corpus.open(folder, tokenizers)


class _Writer:
    """Appends the sentences of one side to its two files."""

    def __init__(self, folder: Path, side: str, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._ids: BinaryIO = (folder / f"{side}.bin").open("xb")
        self._offsets: BinaryIO = (folder / f"{side}.offsets.bin").open("xb")
        self._offsets.write(np.zeros(1, _OFFSET).tobytes())
        self.count = 0
        self.tokens = 0

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, *_: object) -> None:
        self._ids.close()
        self._offsets.close()

    def add(self, sentences: list[list[int]]) -> None:
        lengths = np.fromiter(map(len, sentences), _OFFSET, len(sentences))
        ends = self.tokens + np.cumsum(lengths, dtype=_OFFSET)
        flat = (i for sentence in sentences for i in sentence)
        self._ids.write(np.fromiter(flat, self._dtype, int(lengths.sum())).tobytes())
        self._offsets.write(ends.tobytes())
        self.count += len(sentences)
        self.tokens += int(lengths.sum())


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    iterator = iter(pairs)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk


def _encoded(
    chunk: list[Pair], tokenizers: TokenizerPair, max_length: int, skipped: dict[str, int]
) -> list[tuple[Pair, list[int], list[int]]]:
    """Return the pairs of `chunk` that are kept, with the ids of both sides; count the others in
    `skipped`."""
    sources = tokenizers.source.encode_batch([pair.source for pair in chunk])
    targets = tokenizers.target.encode_batch([pair.target for pair in chunk])
    # a text may be empty for the tokenizer alone: U+200B has no token in many SentencePiece models
    complete = [
        encoded
        for encoded in zip(chunk, sources, targets, strict=True)
        if all((encoded[0].source, encoded[0].target, *encoded[1:]))
    ]
    skipped[EMPTY] += len(chunk) - len(complete)
    kept = [(p, s, t) for p, s, t in complete if max(len(s), len(t)) <= max_length]
    skipped[TOO_LONG] += len(complete) - len(kept)
    return kept


def _check_description(description: Any, path: Path) -> None:
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise DataError(
            f"the file does not describe a corpus of format {FORMAT}",
            where=str(path),
            hint="prepare the data again",
        )
    skipped = description.get("skipped")
    is_complete = (
        description.get("dtype") in _DTYPES
        and type(description.get("pairs")) is int
        and description["pairs"] > 0
        and isinstance(skipped, dict)
        and all(type(count) is int for count in skipped.values())
        and isinstance(description.get("tokenizers"), str)
        and type(description.get("aligned", False)) is bool
    )
    if not is_complete:
        raise DataError(
            "the description of the corpus is incomplete or has wrong values",
            where=str(path),
            hint="prepare the data again",
        )


def _side(
    folder: Path, side: str, dtype: np.dtype[Any], pairs: int, shortest: int = 1
) -> tuple[npt.NDArray[np.unsignedinteger[Any]], npt.NDArray[np.int64]]:
    """Map the ids and offsets of one side, after a check that their sizes agree."""
    ids_path, offsets_path = folder / f"{side}.bin", folder / f"{side}.offsets.bin"
    offsets = mapped_numbers(offsets_path, _OFFSET, pairs + 1)
    if offsets[0] != 0 or np.any(np.diff(offsets) < shortest):
        raise DataError(
            "the offsets must start at 0 and increase, but do not",
            where=str(offsets_path),
            hint="prepare the data again",
        )
    return mapped_numbers(ids_path, dtype, int(offsets[-1])), offsets
