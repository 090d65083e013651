"""Folders of tokens in an object store or on a web server, copied once into a cache on this disk.

A remote folder of tokens is named by its URL: `s3://`, `gs://`, `az://` or `https://`. It has the
files of a local one (`token_shards.py`). What a run needs is copied before its first step, one
folder at a time: the tokenizer with the plan, and then every shard. Each file is compared with the
sha256 in the manifest of its folder; a folder appears in the cache when it is complete, so an
interrupted copy is continued by the same call.

The cache is `$HEADWAY_CACHE`, or `~/.cache/headway`. If it would exceed `$HEADWAY_CACHE_GB`
gigabytes, the remote folders that have not been used for the longest time are removed from it.
Credentials are those of the environment (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS,
AZURE_STORAGE_ACCOUNT_KEY ...); they are neither stored nor shown.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headway.base.errors import DataError, HeadwayError, UsageError
from headway.base.files import is_count, make_durable_folder, parse_json, write_file
from headway.base.folders import MANIFEST, check_manifest, new_folder

URL = re.compile(r"(?:s3|gs|az|https?)://.+")
LOOPBACK = {"127.0.0.1", "localhost", "::1"}
CACHE_GB = 100.0
"""Size of the cache in gigabytes, if `HEADWAY_CACHE_GB` is unset."""
MANIFEST_LIMIT = 16 << 20
BLOCK = 8 << 20
"""Bytes of a remote file in memory at once."""

Progress = Callable[[int], None]
"""Is called with the number of bytes that have been copied."""


def is_remote(source: str | Path) -> bool:
    """Return whether a source of data is a URL of a remote folder."""
    return isinstance(source, str) and URL.match(source) is not None


@dataclass(frozen=True)
class RemoteFolder:
    """A remote folder, and its copy in the cache. store: reads its objects."""

    url: str
    folder: Path
    store: Any

    @classmethod
    def open(cls, url: str) -> RemoteFolder:
        """Open a remote folder. Raises UsageError for a URL that cannot be used."""
        url = url.rstrip("/")
        _check_url(url)
        try:
            from obstore.store import from_url
        except ImportError:
            raise UsageError(
                "reading data from a URL needs the package obstore, which is not installed",
                url,
                "pip install 'headway[remote]'",
            ) from None
        options: Any = {"allow_http": True} if url.startswith("http:") else {}
        try:
            store = from_url(url, client_options=options)
        except Exception as error:  # obstore has an own class for each kind of store
            raise UsageError(f"the URL cannot be used: {_shown(error)}", url) from None
        name = hashlib.sha256(url.encode()).hexdigest()[:16]
        return cls(url, cache_folder() / name, store)

    def copied(self, inner: str, progress: Progress = lambda size: None) -> Path:
        """Copy an inner folder ("" for the files of the folder itself) unless the cache has it.

        Returns the path of the copy. Raises DataError if a file differs from its manifest or is
        missing, HeadwayError if the store cannot be read.
        """
        path = self.folder / "files" / inner if inner else self.folder / "files"
        if (path / MANIFEST).is_file():
            return path
        where = f"{self.url}/{inner}".rstrip("/")
        prefix = f"{inner}/" if inner else ""
        manifest = self._read(f"{prefix}{MANIFEST}")
        files = check_manifest(parse_json(manifest, f"{where}/{MANIFEST}"), f"{where}/{MANIFEST}")
        sizes = [entry.get("size") for entry in files.values()]
        if not all(map(is_count, sizes)):
            raise DataError("the manifest lists a file without a size", f"{where}/{MANIFEST}")
        self._make_room(sum(size for size in sizes if is_count(size)))
        with new_folder(path) as temporary:
            for name, entry in files.items():
                make_durable_folder((temporary / name).parent)
                self._copy(f"{prefix}{name}", temporary / name, entry, progress)
        return path

    def use(self) -> None:
        """Note that the copy is used now, so that others are removed from the cache before it."""
        make_durable_folder(self.folder)
        write_file(self.folder / "url.txt", f"{self.url}\n".encode())

    def _read(self, name: str) -> bytes:
        """Return the content of a small object."""
        content = b"".join(self._blocks(name, MANIFEST_LIMIT))
        if len(content) > MANIFEST_LIMIT:
            raise DataError(f"the file has more than {MANIFEST_LIMIT:,} bytes", self._where(name))
        return content

    def _copy(self, name: str, path: Path, entry: dict[str, object], progress: Progress) -> None:
        """Copy an object. Raises DataError unless it has the size and the hash of the manifest."""
        digest, size = hashlib.sha256(), 0
        expected = entry.get("size")
        assert is_count(expected)
        with path.open("xb") as file:
            for block in self._blocks(name, expected):
                file.write(block)
                digest.update(block)
                size += len(block)
                progress(len(block))
        if size != expected or digest.hexdigest() != entry.get("sha256"):
            raise DataError(
                "the file is not the one that its manifest lists: it has another size or sha256",
                self._where(name),
                "upload the folder of tokens again",
            )

    def _blocks(self, name: str, limit: int) -> Any:
        """Yield the blocks of an object, until they have more than `limit` bytes."""
        size = 0
        try:
            for block in self.store.get(name).stream(min_chunk_size=BLOCK):
                size += len(block)
                yield bytes(block)
                if size > limit:
                    return
        except FileNotFoundError:
            hint = "check the URL; `headway data tokenize` writes such a folder"
            raise DataError("there is no such file", self._where(name), hint) from None
        except Exception as error:  # obstore has an own class for each kind of store
            raise HeadwayError(
                f"cannot be read: {_shown(error)}",
                self._where(name),
                "check the network and the credentials in the environment",
            ) from None

    def _where(self, name: str) -> str:
        return f"{self.url}/{name}"

    def _make_room(self, size: int) -> None:
        """Remove remote folders from the cache, least recently used first, to copy `size` bytes."""
        limit = cache_limit()
        make_durable_folder(self.folder)
        others = [path for path in cache_folder().iterdir() if path != self.folder]
        oldest = sorted((path for path in others if path.is_dir()), key=_last_used)
        while (total := _bytes_of(cache_folder()) + size) > limit:
            if not oldest:
                raise UsageError(
                    f"the data need {total:,} bytes of the cache, whose limit is {limit:,}",
                    self.url,
                    "set a greater limit by HEADWAY_CACHE_GB, or another folder by HEADWAY_CACHE",
                )
            shutil.rmtree(oldest.pop(0))


def cache_folder() -> Path:
    """Return the folder of the copies of remote folders."""
    named = os.environ.get("HEADWAY_CACHE")
    return (Path(named) if named else Path.home() / ".cache" / "headway") / "remote"


def cache_limit() -> int:
    """Return the greatest size of the cache in bytes. Raises UsageError for no positive number."""
    text = os.environ.get("HEADWAY_CACHE_GB", str(CACHE_GB))
    try:
        limit = round(float(text) * 1e9)
    except (ValueError, OverflowError):
        limit = 0
    if limit <= 0:
        raise UsageError(f"HEADWAY_CACHE_GB={text}: must be a positive number of gigabytes")
    return limit


def _check_url(url: str) -> None:
    """Raise UsageError for a URL with credentials, which would be stored with the run."""
    parts = urlsplit(url)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            "the URL of data must have no user, password, query or fragment",
            f"{parts.scheme}://{parts.hostname}{parts.path}",
            "set credentials by environment variables",
        )
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise UsageError("data are read by https only", url, "write https://")


def _shown(error: Exception) -> str:
    """Return the first line of an error, without queries of URLs and without secrets."""
    text = (str(error) or type(error).__name__).split("\n")[0]
    text = re.sub(r"\?\S*", "?...", text)
    for name, value in os.environ.items():
        if len(value) > 3 and re.search("KEY|SECRET|TOKEN|PASSWORD|CREDENTIAL", name.upper()):
            text = text.replace(value, "...")
    return text[:300]


def _last_used(folder: Path) -> float:
    note = folder / "url.txt"
    return note.stat().st_mtime if note.is_file() else 0.0


def _bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
