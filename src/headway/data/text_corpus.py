"""A tokenized text corpus on disk: a store whose rows are documents.

A document is <bos>, its tokens and, unless <bos> and <eos> are the same token, <eos>.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

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
) -> TextCorpus:
    """Encode documents into the new folder `folder`, and open it. Memory holds a few parts.

    Raises DataError if there is no text.
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
        store.metadata["bytes"] = num_bytes
    return TextCorpus.open(folder, tokenizer)
