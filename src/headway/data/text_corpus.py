"""A tokenized text corpus on disk, memory-mapped by every run that uses it.

The folder has `ids.bin` (all documents concatenated, little-endian uint16 or uint32), `offsets.bin`
(int64: start of each document) and `text.json`. A document is <bos>, its tokens and, unless <bos>
and <eos> are the same token, <eos>.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from headway.base.errors import DataError
from headway.base.files import read_json, write_file
from headway.base.folders import new_folder
from headway.data.documents import Part
from headway.data.store import mapped_numbers, verify_corpus

FORMAT = 1
DESCRIPTION_FILE, IDS_FILE, OFFSETS_FILE = "text.json", "ids.bin", "offsets.bin"
CHUNK = 64  # number of parts encoded at once
_DTYPES: dict[str, np.dtype[Any]] = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}
_OFFSET = np.dtype("<i8")
_COUNTS = ("documents", "tokens", "bytes")


@runtime_checkable
class Encoder(Protocol):
    """The part of a `TextTokenizer` that is needed to encode a corpus."""

    @property
    def size(self) -> int: ...

    @property
    def bos(self) -> int: ...

    @property
    def eos(self) -> int: ...

    @property
    def fingerprint(self) -> str: ...

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]: ...


class TextCorpus:
    """Encoded text, memory-mapped from disk. Made by `prepare_text` or `open`.

    ids: all tokens. offsets: start of each document, in tokens. num_bytes: size of the text in
    UTF-8. has_separate_ends: whether <bos> and <eos> differ; then the token before a <bos> has no
    next token to learn.
    """

    def __init__(self, folder: Path, description: dict[str, Any]) -> None:
        """Map the files. description: a checked `text.json`; `open` reads and checks it."""
        self.folder = folder
        self.num_bytes: int = description["bytes"]
        self.has_separate_ends: bool = description["has_separate_ends"]
        dtype = _DTYPES[description["dtype"]]
        self.ids: npt.NDArray[Any] = mapped_numbers(folder / IDS_FILE, dtype, description["tokens"])
        self.offsets: npt.NDArray[np.int64] = mapped_numbers(
            folder / OFFSETS_FILE, _OFFSET, description["documents"]
        )

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self.ids)

    @property
    def tokens(self) -> int:
        """The number of tokens, as in all corpora."""
        return len(self.ids)

    @classmethod
    def open(cls, folder: Path, tokenizer: Encoder) -> TextCorpus:
        """Map the text in `folder`.

        Raises DataError if the files are damaged or were encoded with another tokenizer.
        """
        verify_corpus(folder)
        path, hint = folder / DESCRIPTION_FILE, "prepare the data again"
        description = read_json(path)
        is_complete = (
            isinstance(description, dict)
            and description.get("format") == FORMAT
            and description.get("dtype") in _DTYPES
            and isinstance(description.get("has_separate_ends"), bool)
            and all(
                type(description.get(name)) is int and description[name] > 0 for name in _COUNTS
            )
        )
        if not is_complete:
            raise DataError(
                f"the file does not describe a text of format {FORMAT}", str(path), hint
            )
        if description.get("tokenizer") != tokenizer.fingerprint:
            raise DataError("the text was encoded with another tokenizer", str(path), hint)
        corpus = cls(folder, description)
        offsets = corpus.offsets
        where = str(folder / OFFSETS_FILE)
        if offsets[0] != 0 or offsets[-1] >= len(corpus) or np.any(np.diff(offsets) < 1):
            fault = "the offsets must start at 0 and increase within the text, but do not"
            raise DataError(fault, where, hint)
        for start in range(0, len(corpus), 1 << 24):
            if int(corpus.ids[start : start + (1 << 24)].max()) >= tokenizer.size:
                raise DataError(
                    f"token ids must be from 0 to {tokenizer.size - 1}, but one is larger",
                    str(folder / IDS_FILE),
                    hint,
                )
        if np.any(corpus.ids[offsets] != tokenizer.bos):
            raise DataError("each offset must be that of a <bos>, but one is not", where, hint)
        return corpus


def prepare_text(
    parts: Iterable[Part],
    tokenizer: Encoder,
    folder: Path,
    progress: Callable[[int], None] = lambda num_bytes: None,
) -> TextCorpus:
    """Encode documents into the new folder `folder`, and open it. Memory holds a few parts.

    progress: called with the number of bytes done. Raises DataError if there is no text. After any
    error no partial folder remains.
    """
    name = "uint16" if tokenizer.size <= 2**16 else "uint32"
    ends = [] if tokenizer.bos == tokenizer.eos else [tokenizer.eos]
    documents = tokens = num_bytes = 0
    with new_folder(folder) as temporary:
        with (
            (temporary / IDS_FILE).open("xb") as ids,
            (temporary / OFFSETS_FILE).open("xb") as offsets,
        ):

            def write(row: list[int]) -> int:
                ids.write(np.array(row, _DTYPES[name]).tobytes())
                return len(row)

            stream = iter(parts)
            while chunk := list(islice(stream, CHUNK)):
                encoded = tokenizer.encode_batch([part.text for part in chunk])
                for part, row in zip(chunk, encoded, strict=True):
                    num_bytes += len(part.text.encode())
                    if part.first:
                        tokens += write(ends if documents else [])
                        offsets.write(np.array([tokens], _OFFSET).tobytes())
                        tokens += write([tokenizer.bos])
                        documents += 1
                    tokens += write(row)
                progress(num_bytes)
            tokens += write(ends)
        if not documents or not num_bytes:
            raise DataError(
                "the files have no text, or only whitespace", hint="give files that have text"
            )
        description = {
            "format": FORMAT,
            "documents": documents,
            "tokens": tokens,
            "bytes": num_bytes,
            "dtype": name,
            "has_separate_ends": bool(ends),
            "tokenizer": tokenizer.fingerprint,
        }
        write_file(temporary / DESCRIPTION_FILE, json.dumps(description, indent=2).encode())
    return TextCorpus.open(folder, tokenizer)
