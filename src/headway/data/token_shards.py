"""Text that is tokenised once, by several processes, for all runs that learn from it.

A folder of tokens has

    tokenizer*.json       the tokenizer
    plan.json             how texts are split, and the source files of each shard
    MANIFEST.json         the hashes of these
    shard-00000/ ...      the documents of these files, each shard a `TextCorpus`

Which files a shard has depends on their sizes only, not on the number of processes. A shard appears
when it is complete, so a call that was interrupted or killed is continued by the same call.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from math import ceil
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from headway.base.errors import DataError, HeadwayError, UsageError
from headway.base.files import json_bytes, read_json, sha256_of, write_file
from headway.base.folders import new_folder
from headway.data.documents import COLLECTIONS, TOKENS, Split, read_documents, text_files
from headway.data.formats.lines import ending
from headway.data.remote import RemoteFolder, is_remote
from headway.data.text_corpus import TextCorpus, prepare_text
from headway.text import TextTokenizer, load_tokenizer

FORMAT = 1

SHARD_BYTES = 64 << 20
"""Least size of the source files of a shard; a larger file is a shard of its own."""

SAMPLE_BYTES = 24 << 20
"""Largest size of the sample of the text from which a tokenizer is trained."""

UNPACKED = 4
"""Size of a text divided by that of its .gz or .parquet file, roughly."""


@dataclass(frozen=True)
class Reading:
    """How the documents of the source files are found (`read_documents`)."""

    split: Split = "file"
    text: str | None = None


@dataclass(frozen=True)
class TokenShards:
    """A folder of tokens. reading: how its documents were found. files: the source files of each
    shard, each a record of its path, its size in bytes and its time of modification."""

    folder: Path
    reading: Reading
    fingerprint: str
    files: Sequence[Sequence[dict[str, Any]]]

    @classmethod
    def open(cls, folder: Path) -> TokenShards:
        """Read the plan of a folder. Raises DataError if it is damaged."""
        path = folder / TOKENS
        match read_json(path):
            case {
                "format": 1,
                "split": "file" | "blank-line" | "line" | "title" as split,
                "text": (str() | None) as text,
                "tokenizer": str(fingerprint),
                "shards": [_, *_] as files,
            } if all(map(_is_plan, files)):
                return cls(folder, Reading(split, text), fingerprint, files)
        raise DataError(f"the file is no plan of tokens of format {FORMAT}", str(path))

    @cached_property
    def tokenizer(self) -> TextTokenizer:
        """The tokenizer of all shards. Raises DataError if it is not that of the plan."""
        tokenizer = load_tokenizer(self.folder)
        if tokenizer.fingerprint != self.fingerprint:
            what = "the tokenizer is not the one that the shards were encoded with"
            raise DataError(what, str(self.folder))
        return tokenizer

    @property
    def missing(self) -> list[int]:
        """The numbers of the shards that are not made yet."""
        return [n for n in range(len(self.files)) if not self.shard(n).is_dir()]

    def shard(self, number: int) -> Path:
        """Return the folder of a shard."""
        return self.folder / f"shard-{number:05d}"

    def corpora(self) -> Iterator[TextCorpus]:
        """Open one shard after the other. Raises DataError if one is missing or damaged."""
        if self.missing:
            raise DataError(
                f"{len(self.missing):,} of {len(self.files):,} shards are missing",
                str(self.folder),
                "call the same `headway data tokenize` again, which continues it",
            )
        return (TextCorpus.open(self.shard(n), self.tokenizer) for n in range(len(self.files)))


def _is_plan(shard: object) -> bool:
    return isinstance(shard, list) and all(
        isinstance(file, dict) and isinstance(file.get("path"), str) for file in shard
    )


def is_tokens(source: str | Path) -> bool:
    """Return whether a source of text is a folder of tokens, or the URL of one."""
    return is_remote(source) or (Path(source) / TOKENS).is_file()


def opened_tokens(source: str, progress: Callable[[int], None]) -> TokenShards:
    """Open a folder of tokens; those of a URL are copied into the cache first (`remote.py`).

    progress: called with the number of bytes that have been copied.
    """
    if not is_remote(source):
        return TokenShards.open(Path(source))
    remote, copied = RemoteFolder.open(source), 0

    def report(size: int) -> None:
        nonlocal copied
        copied += size
        progress(copied)

    remote.use()
    shards = TokenShards.open(remote.copied("", report))
    for number in shards.missing:
        remote.copied(shards.shard(number).name, report)
    return shards


def sample_of(sources: Sequence[str], reading: Reading) -> Iterator[str]:
    """Yield a sample of the text, evenly spaced over the sources."""
    size = sum(map(_text_size, source_files(sources)))
    every = max(1, ceil(size / SAMPLE_BYTES))
    parts = read_documents(sources, reading.split, reading.text)
    return (part.text for part in islice(parts, 0, None, every))


def source_files(sources: Sequence[str]) -> list[str]:
    """Return the text files of the sources in their order; a collection is its name."""
    return [
        str(file)
        for source in sources
        for file in (
            [source]
            if source in COLLECTIONS and not Path(source).exists()
            else text_files(Path(source))
        )
    ]


def _text_size(file: str) -> int:
    """Return the size of the text of a file in bytes, roughly."""
    path = Path(file)
    if not path.is_file():
        return 0
    packed = path.suffix == ".gz" or ending(path) == ".parquet"
    return path.stat().st_size * (UNPACKED if packed else 1)


def _planned(files: Sequence[str]) -> list[list[dict[str, Any]]]:
    """Group the source files into shards of at least `SHARD_BYTES`, in their order."""
    shards: list[list[dict[str, Any]]] = [[]]
    size = 0
    for file in files:
        if size >= SHARD_BYTES:
            shards.append([])
            size = 0
        size += _text_size(file)
        shards[-1].append(_recorded(file))
    if len(shards) > 1 and size < SHARD_BYTES // 2:
        shards[-2:] = [shards[-2] + shards[-1]]
    return shards


def _recorded(file: str) -> dict[str, Any]:
    """Return path, size and time of modification of a source file; a collection has only a name."""
    if not Path(file).exists():
        return {"path": file, "bytes": None, "modified": None}
    state = Path(file).stat()
    return {"path": file, "bytes": state.st_size, "modified": state.st_mtime_ns}


def planned_tokens(
    sources: Sequence[str],
    folder: Path,
    reading: Reading,
    tokenizer: Callable[[], TextTokenizer],
) -> TokenShards:
    """Return the plan of a folder of tokens; a new folder gets the tokenizer and the plan.

    tokenizer: returns the tokenizer of a new folder. Raises UsageError if the folder holds anything
    else, or tokens of other files or settings.
    """
    files = _planned(source_files(sources))
    if is_tokens(folder):
        shards = TokenShards.open(folder)
        if shards.reading != reading or list(shards.files) != files:
            raise UsageError(
                "the folder holds tokens of other files or settings",
                str(folder),
                "name a new folder by --output, or delete this one",
            )
        return shards
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        what = "the output must be a new folder, but it exists"
        raise UsageError(what, str(folder), "name a new folder by --output")
    made = tokenizer()
    plan = {
        "format": FORMAT,
        **asdict(reading),
        "tokenizer": made.fingerprint,
        "shards": files,
    }
    if folder.exists():
        folder.rmdir()
    with new_folder(folder) as temporary:
        made.save(temporary)
        write_file(temporary / TOKENS, json_bytes(plan))
    return TokenShards.open(folder)


def make_shards(
    shards: TokenShards, processes: int, progress: Callable[[float], None] = lambda done: None
) -> None:
    """Make the missing shards, several at the same time, each process with one thread.

    progress: called with the fraction that is done. Raises DataError for text that cannot be read
    or for a source file that has changed; the other shards are kept.
    """
    missing = shards.missing
    sizes = [sum(_text_size(file["path"]) for file in files) + 1 for files in shards.files]
    done = sum(sizes) - sum(sizes[number] for number in missing)
    processes = min(processes, len(missing))
    if not missing:
        return
    context = get_context("spawn")  # a fork of a process with threads may hang
    with ProcessPoolExecutor(processes, context, _begin, (str(shards.folder),)) as pool:
        left: set[Future[int]] = {pool.submit(_make_shard, number) for number in missing}
        try:
            while left:
                progress(done / sum(sizes))
                finished, left = wait(left, return_when="FIRST_COMPLETED")
                done += sum(sizes[future.result()] for future in finished)
        except BrokenProcessPool as error:
            raise HeadwayError(
                "a process of the tokenising has ended, perhaps because memory ran out",
                str(shards.folder),
                "call the same command again, which continues; --processes 1 needs less memory",
            ) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_shards: TokenShards
"""The folder of tokens that this process makes shards of."""


def _begin(folder: str) -> None:
    """Prepare a process that makes shards. Ctrl-C ends it at once."""
    global _shards
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _shards = TokenShards.open(Path(folder))


def _make_shard(number: int) -> int:
    """Make a shard and return its number. The hashes of its source files stand in its metadata."""
    files = _shards.files[number]
    for file in files:
        if _recorded(file["path"]) != file:
            raise DataError(
                "the file has changed since the tokenising began",
                file["path"],
                f"delete {_shards.folder} and begin again",
            )
    reading = _shards.reading
    parts = read_documents([file["path"] for file in files], reading.split, reading.text)
    sources = {
        file["path"]: sha256_of(Path(file["path"]))
        for file in files
        if Path(file["path"]).is_file()
    }
    prepare_text(parts, _shards.tokenizer, _shards.shard(number), metadata={"sources": sources})
    return number
