"""A parallel corpus on disk: a store of encoded pairs, without special tokens.

Its arrays are `source` and `target`, the ids of both sides, and, if words are aligned, `links`: the
positions of a source word and of a target word in turn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headway.base.chunks import chunks
from headway.base.errors import DataError
from headway.data.store import Array, Offsets, Store, ids_dtype, new_store
from headway.tasks.translation.pair_files import Pair
from headway.text import TokenizerPair

CHUNK = 4096
EMPTY, TOO_LONG = "empty", "too long"


class Rows:
    """Sequences of different lengths of one or several stores, numbered one after the other.

    lengths: the length of each sequence, in memory. sizes: the number of sequences of each store.
    """

    def __init__(self, parts: Sequence[tuple[Array, Offsets]]) -> None:
        """parts: the values and offsets of each store (`Store.sequences`)."""
        self.parts = parts
        lengths = [np.diff(offsets) for _, offsets in parts]
        self.lengths: npt.NDArray[np.int32] = np.concatenate(lengths).astype(np.int32)
        self.sizes = tuple(map(len, lengths))
        self._ends = list(accumulate(self.sizes))

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> Array:
        """Return a sequence as a read-only view into its file."""
        number = bisect_right(self._ends, index)
        values, offsets = self.parts[number]
        row = index - self._ends[number] + self.sizes[number]
        return values[offsets[row] : offsets[row + 1]]


@dataclass(frozen=True)
class Corpus:
    """Encoded sentence pairs, memory-mapped from disk. Made by `prepare`, `open` or `joined`.

    source, target: the ids of each side, without special tokens. links: the positions of a source
    word and of a target word in turn, or None. skipped: the number of pairs that were left out, by
    reason.
    """

    source: Rows
    target: Rows
    links: Rows | None
    skipped: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.source)

    @classmethod
    def open(cls, folder: Path, tokenizers: TokenizerPair) -> Corpus:
        """Map the corpus in `folder`, which must have been encoded with `tokenizers`.

        Raises DataError if a file is missing or has changed, or if the tokenizers differ (with both
        fingerprints).
        """
        store = Store.open(folder, tokenizers.fingerprint, "tokenizer")

        def side(name: str, size: int) -> Rows:
            return Rows([store.sequences(name, ids_dtype(size), below=size)])

        links = None
        if "links" in store.arrays:
            links = Rows([store.sequences("links", "uint32", may_be_empty=True)])
        return cls(
            side("source", tokenizers.source.size),
            side("target", tokenizers.target.size),
            links,
            {reason: store.number(reason) for reason in (EMPTY, TOO_LONG)},
        )

    @classmethod
    def joined(cls, corpora: Sequence[Corpus]) -> Corpus:
        """Return several corpora as one: their pairs are numbered one after the other."""
        links = [part for c in corpora if c.links is not None for part in c.links.parts]
        return cls(
            Rows([part for corpus in corpora for part in corpus.source.parts]),
            Rows([part for corpus in corpora for part in corpus.target.parts]),
            Rows(links) if all(corpus.links is not None for corpus in corpora) else None,
        )


def prepare(
    pairs: Iterable[Pair],
    tokenizers: TokenizerPair,
    folder: Path,
    max_length: int,
    progress: Callable[[int], None] = lambda pairs: None,
    *,
    aligned: bool = False,
) -> Corpus:
    """Encode `pairs` into the new folder `folder` and open it. aligned: keep their aligned words.

    Memory holds one chunk of 4,096 pairs. Pairs with an empty side, or with more than `max_length`
    tokens on a side, are left out and counted. Raises UsageError if `folder` exists, DataError if
    no pair is left.
    """
    skipped = {EMPTY: 0, TOO_LONG: 0}
    source, target = (ids_dtype(side.size) for side in (tokenizers.source, tokenizers.target))
    with new_store(folder, tokenizers.fingerprint) as store:
        read = kept = 0
        for chunk in chunks(pairs, CHUNK):
            encoded = _encoded(chunk, tokenizers, max_length, skipped)
            store.append_sequences("source", [ids for _, ids, _ in encoded], source)
            store.append_sequences("target", [ids for _, _, ids in encoded], target)
            if aligned:
                links = [list(chain.from_iterable(pair.links)) for pair, _, _ in encoded]
                store.append_sequences("links", links, "uint32")
            read, kept = read + len(chunk), kept + len(encoded)
            progress(read)
        if not kept:
            raise DataError(
                f"none of {read:,} sentence pairs can be used: {skipped[EMPTY]:,} have an empty "
                f"side, {skipped[TOO_LONG]:,} have more than {max_length} tokens on a side",
                hint="check --source and --target, or increase --data.max-length",
            )
        store.metadata.update(skipped)
    return Corpus.open(folder, tokenizers)


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
