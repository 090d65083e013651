"""A tokenized text corpus on disk: a store whose rows are documents.

A document is <bos>, its tokens and, unless <bos> and <eos> are the same token, <eos>.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from headway.base.chunks import chunks
from headway.base.errors import DataError
from headway.data.documents import Part
from headway.data.store import Array, Offsets, Store, ids_dtype, new_store
from headway.text import TextTokenizer

DOCUMENTS = "documents"
CHUNK = 64  # number of parts encoded at once


@dataclass(frozen=True)
class TextCorpus:
    """Encoded text, memory-mapped from disk. Made by `prepare_text` or `open`.

    ids: all tokens. offsets: the start of each document, in tokens. num_bytes: size of the text in
    UTF-8. has_separate_ends: whether <bos> and <eos> differ; then the token before a <bos> has no
    next token to learn.
    """

    folder: Path
    ids: Array
    offsets: Offsets
    num_bytes: int
    has_separate_ends: bool

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self.ids)

    def documents(self, bos: int) -> Iterator[Array]:
        """Yield the ids of each document, which start with <bos>, also of one that is cut off."""
        edges = [*self.offsets.tolist(), len(self)]
        if edges[0]:
            yield np.concatenate(([bos], self.ids[: edges[0]]))
        for start, end in pairwise(edges):
            yield self.ids[start:end]

    @classmethod
    def open(cls, folder: Path, tokenizer: TextTokenizer) -> TextCorpus:
        """Map the text in `folder`.

        Raises DataError if the files are damaged or were encoded with another tokenizer.
        """
        store = Store.open(folder, tokenizer.fingerprint, "tokenizer")
        dtype = ids_dtype(tokenizer.size)
        ids, offsets = store.sequences(DOCUMENTS, dtype, below=tokenizer.size)
        starts = offsets[:-1]
        if np.any(ids[starts] != tokenizer.bos):
            raise store.error("each document must begin with <bos>, but one does not")
        ends = tokenizer.bos != tokenizer.eos
        return cls(folder, ids, starts, store.number("bytes", least=1), ends)


def prepare_text(
    parts: Iterable[Part],
    tokenizer: TextTokenizer,
    folder: Path,
    progress: Callable[[int], None] = lambda num_bytes: None,
    metadata: Mapping[str, Any] = {},
) -> TextCorpus:
    """Encode documents into the new folder `folder`, and open it. Memory holds a few parts.

    metadata: JSON values to save with the text. Raises DataError if there is no text.
    """
    dtype = ids_dtype(tokenizer.size)
    end = [] if tokenizer.bos == tokenizer.eos else [tokenizer.eos]
    num_bytes = 0
    with new_store(folder, tokenizer.fingerprint) as store:
        for chunk in chunks(parts, CHUNK):
            rows: list[list[int]] = [[]]  # the first continues the last document
            encoded = tokenizer.encode_batch([part.text for part in chunk])
            for part, ids in zip(chunk, encoded, strict=True):
                num_bytes += len(part.text.encode())
                if part.first:
                    rows[-1] += end if len(rows) > 1 or store.size(DOCUMENTS) else []
                    rows.append([tokenizer.bos])
                rows[-1] += ids
            store.append(DOCUMENTS, rows[0], dtype)
            store.append_sequences(DOCUMENTS, rows[1:], dtype)
            progress(num_bytes)
        if not num_bytes:
            raise DataError(
                "the files have no text, or only whitespace", hint="give files that have text"
            )
        store.append(DOCUMENTS, end, dtype)
        store.metadata |= {**metadata, "bytes": num_bytes}
    return TextCorpus.open(folder, tokenizer)


def split_end(
    corpora: Sequence[TextCorpus], fraction: float, tokenizer: TextTokenizer
) -> tuple[list[TextCorpus], TextCorpus]:
    """Split encoded text into training text and held-out text, which is its end.

    The held-out text has about this fraction of all tokens, but at most half of the last corpus. It
    starts with the document that is nearest to that, or inside of the last corpus's only one.
    """
    *whole, last = corpora
    size = min(fraction * sum(map(len, corpora)), len(last) / 2)
    border = len(last) - max(1, round(size))
    starts = last.offsets[1:]
    cut = int(starts[np.abs(starts - border).argmin()]) if len(starts) else border
    first, second = _part(last, 0, cut), _part(last, cut, len(last))
    num_bytes = sum(
        len(tokenizer.decode(ids.tolist()).encode()) for ids in second.documents(tokenizer.bos)
    )
    train = replace(first, num_bytes=last.num_bytes - num_bytes)
    return [*whole, train], replace(second, num_bytes=num_bytes)


def _part(corpus: TextCorpus, start: int, end: int) -> TextCorpus:
    """Return the tokens from `start` to `end` of a corpus; num_bytes is still that of all."""
    offsets = corpus.offsets[(corpus.offsets >= start) & (corpus.offsets < end)] - start
    return replace(corpus, ids=corpus.ids[start:end], offsets=offsets)


def joined(corpora: Sequence[TextCorpus], tokenizer: TextTokenizer, folder: Path) -> TextCorpus:
    """Copy encoded text into the new folder `folder`, and open it."""
    with new_store(folder, tokenizer.fingerprint) as store:
        for corpus in corpora:
            for ids in corpus.documents(tokenizer.bos):
                store.append(f"{DOCUMENTS}.offsets", [store.size(DOCUMENTS)], "int64")
                store.append(DOCUMENTS, ids, ids_dtype(tokenizer.size))
        store.metadata["bytes"] = sum(corpus.num_bytes for corpus in corpora)
    return TextCorpus.open(folder, tokenizer)
