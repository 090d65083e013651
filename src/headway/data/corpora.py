"""Token shards: a corpus as flat arrays on disk, memory-mapped, however large."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from headway.data.formats import Pair
from headway.errors import DataError
from headway.files import new_folder, read_json, write_file
from headway.text import TokenizerPair

CHUNK = 4096  # pairs tokenised together: enough for all cores, little memory
Array = np.ndarray[Any, np.dtype[Any]]


class Corpus:
    """Pairs as token ids, without special tokens. Only the offsets live in memory.

    On disk: `source.bin` and `target.bin` (uint16, or uint32 for vocabularies above 65,536), each
    with `.offsets.bin` (int64, n + 1), and `corpus.json` with counts and the tokenizer's hash.
    """

    def __init__(self, folder: Path, facts: dict[str, Any]) -> None:
        self.folder, self.facts = folder, facts
        self._tokens: dict[str, Array] = {}
        self._offsets: dict[str, Array] = {}
        for side in ("source", "target"):
            dtype = np.dtype(facts["dtype"])
            offsets = np.fromfile(folder / f"{side}.offsets.bin", dtype=np.int64)
            tokens = folder / f"{side}.bin"
            whole = len(offsets) == facts["pairs"] + 1 and (np.diff(offsets) > 0).all()
            if not whole or tokens.stat().st_size != int(offsets[-1]) * dtype.itemsize:
                raise DataError("the token file does not fit its offsets", str(tokens))
            self._offsets[side] = offsets
            self._tokens[side] = np.memmap(tokens, dtype=dtype, mode="r")

    @classmethod
    def open(cls, folder: Path, tokenizers: TokenizerPair) -> Corpus:
        """Map what `prepare` wrote. Refuses shards of another tokenizer."""
        facts = read_json(folder / "corpus.json")
        if facts["tokenizer"] != tokenizers.fingerprint:
            raise DataError(
                f"made with tokenizer {facts['tokenizer'][:12]}, not with "
                f"{tokenizers.fingerprint[:12]}",
                str(folder),
                "remove the folder to prepare the data again",
            )
        return cls(folder, facts)

    def __len__(self) -> int:
        return int(self.facts["pairs"])

    @property
    def skipped(self) -> dict[str, int]:
        """Reason -> number of pairs that were left out."""
        return dict(self.facts["skipped"])

    def source(self, index: int) -> Array:
        return self._side("source", index)

    def target(self, index: int) -> Array:
        return self._side("target", index)

    def _side(self, side: str, index: int) -> Array:
        start, end = self._offsets[side][index : index + 2]
        return self._tokens[side][start:end]

    @property
    def source_lengths(self) -> Array:
        return np.diff(self._offsets["source"]).astype(np.int32)

    @property
    def target_lengths(self) -> Array:
        return np.diff(self._offsets["target"]).astype(np.int32)


def prepare(
    pairs: Iterable[Pair],
    tokenizers: TokenizerPair,
    folder: Path,
    max_length: int,
    progress: Callable[[int], None] = lambda done: None,
) -> Corpus:
    """Tokenise a stream of pairs into `folder`, in memory that does not grow with the corpus.

    Pairs with an empty side, or with more than `max_length` tokens on either, are left out and
    counted. `progress` hears how many pairs have been read.
    """
    largest = max(tokenizers.source.size, tokenizers.target.size)
    dtype = np.dtype(np.uint16 if largest <= 2**16 else np.uint32)
    skipped = {"empty": 0, "too long": 0}
    with new_folder(folder) as place:
        with (
            (place / "source.bin").open("wb") as source,
            (place / "target.bin").open("wb") as target,
            (place / "source.offsets.bin").open("wb") as source_offsets,
            (place / "target.offsets.bin").open("wb") as target_offsets,
        ):
            writers = _Side(source, source_offsets), _Side(target, target_offsets)
            for done, batch in _chunks(pairs):
                full = [pair for pair in batch if pair.source and pair.target]
                skipped["empty"] += len(batch) - len(full)
                ids = zip(
                    tokenizers.source.encode_batch([pair.source for pair in full]),
                    tokenizers.target.encode_batch([pair.target for pair in full]),
                    strict=True,
                )
                kept = [both for both in ids if max(map(len, both)) <= max_length]
                skipped["too long"] += len(full) - len(kept)
                for side, writer in enumerate(writers):
                    writer.add([both[side] for both in kept], dtype)
                progress(done)
        facts = {
            "pairs": writers[0].count,
            "dtype": dtype.name,
            "tokenizer": tokenizers.fingerprint,
            "skipped": skipped,
        }
        if not writers[0].count:
            raise DataError(f"no pair is left to learn from (left out: {skipped})", str(folder))
        write_file(place / "corpus.json", json.dumps(facts, indent=1).encode())
    return Corpus.open(folder, tokenizers)


class _Side:
    """One language being written."""

    def __init__(self, tokens: BinaryIO, offsets: BinaryIO) -> None:
        self.tokens, self.offsets = tokens, offsets
        self.count, self.end = 0, 0
        offsets.write(np.zeros(1, dtype=np.int64).tobytes())

    def add(self, rows: list[list[int]], dtype: np.dtype[Any]) -> None:
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        flat = np.fromiter((token for row in rows for token in row), dtype, int(lengths.sum()))
        self.tokens.write(flat.tobytes())
        self.offsets.write((self.end + np.cumsum(lengths)).tobytes())
        self.count += len(rows)
        self.end += int(lengths.sum())


def _chunks(pairs: Iterable[Pair]) -> Iterator[tuple[int, list[Pair]]]:
    """(pairs read so far, the next few thousand)."""
    iterator, done = iter(pairs), 0
    while batch := list(islice(iterator, CHUNK)):
        done += len(batch)
        yield done, batch
