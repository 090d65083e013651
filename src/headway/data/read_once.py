"""Examples that are read from their files once, however often a task goes over them.

A vocabulary must be known before texts are encoded, and their number before some are held out. So a
task goes over its examples several times: the first time it reads their files and writes a copy,
and from then on it reads the copy.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import SpooledTemporaryFile, gettempdir
from typing import IO, Any, Generic, TypeVar
from weakref import finalize

from headway.base.chunks import chunks
from headway.base.files import cannot_write

IN_MEMORY = 64 * 2**20
"""Bytes of a copy that stay in memory; a larger one is a file that has no name."""
CHUNK = 64
"""Number of examples in a line of the copy."""
REPORTED = 64 * CHUNK
"""Number of examples between two calls of `progress`."""
T = TypeVar("T")


class ReadOnce(Generic[T]):
    """Examples whose files are read when they are first needed, and only then.

    The copy is lines of JSON. It disappears with this object, also if the process is killed.
    Several iterations may be under way at the same time.
    """

    def __init__(
        self,
        read: Callable[[], Iterable[T]],
        pack: Callable[[T], object],
        unpack: Callable[[Any], T],
        folder: Path | None = None,
        progress: Callable[[int], None] = lambda count: None,
    ) -> None:
        """read: reads the files. pack: returns what JSON can hold of an example. unpack: returns
        the example. folder: where a large copy is written; None: the folder of temporary files.
        progress: called with the number of examples read so far."""
        self._read, self._pack, self._unpack = read, pack, unpack
        self._folder, self._progress = folder, progress
        self._copy: IO[bytes] | None = None
        self._count = 0

    @property
    def is_read(self) -> bool:
        """Whether the files have been read."""
        return self._copy is not None

    def __len__(self) -> int:
        """Return the number of examples; read the files unless they have been read."""
        self._copied()
        return self._count

    def __iter__(self) -> Iterator[T]:
        copy, position = self._copied(), 0
        while True:
            copy.seek(position)
            line = copy.readline()
            position = copy.tell()
            if not line:
                return
            yield from map(self._unpack, json.loads(line))

    def _copied(self) -> IO[bytes]:
        """Read the files unless they have been read, and return the copy.

        Raises what reading them raises; HeadwayError if the copy cannot be written.
        """
        if self._copy is None:
            folder = None if self._folder is None else str(self._folder)
            copy = SpooledTemporaryFile(IN_MEMORY, dir=folder)  # noqa: SIM115 (kept open)
            finalize(self, copy.close)
            count = 0
            for chunk in chunks(self._read(), CHUNK):
                line = json.dumps([*map(self._pack, chunk)], ensure_ascii=False) + "\n"
                try:
                    copy.write(line.encode("utf-8", "surrogatepass"))
                except OSError as error:
                    raise cannot_write(self._folder or Path(gettempdir()), error) from error
                count += len(chunk)
                if count % REPORTED == 0:
                    self._progress(count)
            self._copy, self._count = copy, count
        return self._copy
