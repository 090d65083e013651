"""Messages go to stderr, data to stdout; errors have three parts and no traceback.

Data is UTF-8 wherever it goes except to a terminal, which gets its own encoding. A character that
the terminal's encoding lacks is written as a backslash escape (\\u2192), as are all such characters
of messages.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, cast

from rich.console import Console

from headway.errors import HeadwayError, HeadwayWarning


class Stream:
    """sys.stdout or sys.stderr of this moment, whose failures are errors with a name."""

    def __init__(self, attribute: str, title: str) -> None:
        self.attribute, self.title = attribute, title

    def __getattr__(self, name: str) -> Any:
        stream = getattr(sys, self.attribute)
        return getattr(getattr(stream, "rich_proxied_file", stream), name)

    def write(self, text: str) -> int:
        """As of a file. HeadwayError if it fails, BrokenPipeError if the reader has left."""
        with self._named_failure():
            return int(self.__getattr__("write")(text))

    def flush(self) -> None:
        """As of a file, with the errors of `write`."""
        with self._named_failure():
            self.__getattr__("flush")()

    @contextmanager
    def _named_failure(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            why = f"cannot write {self.title}: {error.strerror or error}"
            raise HeadwayError(why) from error


output, messages = Stream("stdout", "standard output"), Stream("stderr", "standard error")
talk = Console(file=cast(TextIO, messages), stderr=True, highlight=False, soft_wrap=True)


def on_output(**settings: Any) -> Console:
    """A console of rich that writes to standard output."""
    return Console(file=cast(TextIO, output), **settings)


def program() -> str:
    """How this person calls us: `headway`, or its path if that is on no search path."""
    if shutil.which("headway"):
        return "headway"
    called = Path(sys.argv[0])
    if called.name != "headway":
        return "python -m headway"
    inside = called.is_relative_to(Path.cwd())
    return str(called.relative_to(Path.cwd()) if inside else called)


def prepare_streams() -> None:
    """Set the encodings of standard output and standard error, as described above."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            is_data = stream is sys.stdout and not stream.isatty()
            encoding = "utf-8" if is_data else stream.encoding
            stream.reconfigure(encoding=encoding, errors="backslashreplace")


def finish(code: int) -> int:
    """Write what is still buffered; the exit code, given the one so far.

    A reader that has left (head, less) is no failure. If standard error fails, only the exit code
    can tell.
    """
    for stream in (output, messages):
        try:
            stream.flush()
        except HeadwayError as error:
            if not code:
                code = error.exit_code
                with suppress(HeadwayError):
                    report(error)
        except BrokenPipeError:
            pass
        else:
            continue
        # The interpreter flushes again at its end, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code


def data(text: str) -> None:
    """One line of what was asked for, as it is."""
    data_part(text + "\n")


def data_part(text: str) -> None:
    """Part of a line, shown at once."""
    output.write(text)
    output.flush()


def data_json(value: Any) -> None:
    """One JSON value on one line; NaN is refused, as it is no JSON."""
    data(json.dumps(value, ensure_ascii=False, allow_nan=False))


def report(error: HeadwayError) -> None:
    """what, where, what to do."""
    first, *others = str(error).split("\n")
    talk.print("error:", style="bold red", end=" ")
    talk.print(first, markup=False)
    for line in others:
        talk.print(line, markup=False)


@contextmanager
def warnings_on_one_line() -> Iterator[None]:
    """Show each HeadwayWarning of the block as one line among the messages; Python's own way shows
    a line of our source code too."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", HeadwayWarning)
        otherwise = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, HeadwayWarning):
                talk.print("warning:", style="bold yellow", end=" ")
                talk.print(str(message), markup=False)
            else:
                otherwise(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def report_bug(error: BaseException) -> None:
    """Something we did not foresee: say so, keep the traceback for the report."""
    place = Path("headway-error.log")
    try:
        place.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        saved = f"the traceback is in {place}"
    except OSError:
        saved = "run again with --debug for the traceback"
    report(HeadwayError(f"unexpected {type(error).__name__}: {error}", None, f"report it; {saved}"))
