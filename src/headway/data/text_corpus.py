"""Running text as token shards on disk, memory-mapped by every run that reads it.

A folder holds `ids.bin` (all documents end to end, little-endian uint16 or uint32), `offsets.bin`
(int64: where each document begins) and `text.json`. A document is <bos>, its tokens and, unless
one token serves as both, <eos>.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from headway.data.documents import Part
from headway.data.parallel_corpus import mapped_numbers, verify_corpus
from headway.errors import DataError
from headway.files import read_json, write_file
from headway.folders import new_folder

FORMAT = 1
FACTS_FILE, IDS_FILE, OFFSETS_FILE = "text.json", "ids.bin", "offsets.bin"
CHUNK = 64  # parts encoded at once
_DTYPES: dict[str, np.dtype[Any]] = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}
_OFFSET = np.dtype("<i8")
_COUNTS = ("documents", "tokens", "bytes")


@runtime_checkable
class Encoder(Protocol):
    """What a text on disk needs of a tokenizer: a part of every `TextTokenizer`."""

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
    """Encoded text, read from disk where it is touched. Made by `prepare_text` or `open`.

    ids: all tokens. offsets: where documents begin, in tokens. num_bytes: of the text as UTF-8.
    marks_ends: <bos> and <eos> differ, so that the token before a <bos> has no successor to learn.
    """

    def __init__(self, folder: Path, facts: dict[str, Any]) -> None:
        """`facts`: a checked text.json; `open` reads and checks it."""
        self.folder = folder
        self.num_bytes: int = facts["bytes"]
        self.marks_ends: bool = facts["marks_ends"]
        dtype = _DTYPES[facts["dtype"]]
        self.ids: npt.NDArray[Any] = mapped_numbers(folder / IDS_FILE, dtype, facts["tokens"])
        self.offsets: npt.NDArray[np.int64] = mapped_numbers(
            folder / OFFSETS_FILE, _OFFSET, facts["documents"]
        )

    def __len__(self) -> int:
        """Tokens."""
        return len(self.ids)

    @property
    def tokens(self) -> int:
        """The same, under the name that all shards have."""
        return len(self.ids)

    @classmethod
    def open(cls, folder: Path, tokenizer: Encoder) -> TextCorpus:
        """Map the text in `folder`, which must have been encoded with `tokenizer`. DataError."""
        verify_corpus(folder)
        path, again = folder / FACTS_FILE, "prepare the data again"
        facts = read_json(path)
        right = (
            isinstance(facts, dict)
            and facts.get("format") == FORMAT
            and facts.get("dtype") in _DTYPES
            and isinstance(facts.get("marks_ends"), bool)
            and all(type(facts.get(name)) is int and facts[name] > 0 for name in _COUNTS)
        )
        if not right:
            raise DataError(f"not a text of format {FORMAT}", str(path), again)
        if facts.get("tokenizer") != tokenizer.fingerprint:
            raise DataError("encoded with another tokenizer", str(path), again)
        corpus = cls(folder, facts)
        offsets = corpus.offsets
        where = str(folder / OFFSETS_FILE)
        if offsets[0] != 0 or offsets[-1] >= len(corpus) or np.any(np.diff(offsets) < 1):
            raise DataError("the offsets do not rise from 0 within the text", where, again)
        for start in range(0, len(corpus), 1 << 24):
            if int(corpus.ids[start : start + (1 << 24)].max()) >= tokenizer.size:
                raise DataError(
                    "ids that the tokenizer does not have", str(folder / IDS_FILE), again
                )
        if np.any(corpus.ids[offsets] != tokenizer.bos):
            raise DataError("a document does not begin where the offsets say", where, again)
        return corpus


def prepare_text(
    parts: Iterable[Part],
    tokenizer: Encoder,
    folder: Path,
    progress: Callable[[int], None] = lambda num_bytes: None,
) -> TextCorpus:
    """Encode documents into the new folder `folder`, and open it. Memory holds a few parts.

    DataError when there is no text. Whatever goes wrong, no half-written folder stays.
    """
    name = "uint16" if tokenizer.size <= 2**16 else "uint32"
    ends = [] if tokenizer.bos == tokenizer.eos else [tokenizer.eos]
    documents = tokens = num_bytes = 0
    with new_folder(folder) as temporary:
        with (temporary / IDS_FILE).open("xb") as ids, (temporary / OFFSETS_FILE).open("xb") as at:

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
                        at.write(np.array([tokens], _OFFSET).tobytes())
                        tokens += write([tokenizer.bos])
                        documents += 1
                    tokens += write(row)
                progress(num_bytes)
            tokens += write(ends)
        if not documents or not num_bytes:
            raise DataError("there is no text in it", hint="name files that hold text")
        facts = {
            "format": FORMAT,
            "documents": documents,
            "tokens": tokens,
            "bytes": num_bytes,
            "dtype": name,
            "marks_ends": bool(ends),
            "tokenizer": tokenizer.fingerprint,
        }
        write_file(temporary / FACTS_FILE, json.dumps(facts, indent=2).encode())
    return TextCorpus.open(folder, tokenizer)
