"""Output: messages to stderr, data to stdout, errors in three parts without a traceback.

Data is encoded in UTF-8, except on a terminal, where the encoding of the terminal is used. A
character that this encoding lacks is written as a backslash escape (\\u2192), in data and messages.
"""

import functools
import io
import json
import math
import os
import re
import shutil
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, cast

from rich.console import Console, ConsoleDimensions

from headway.base.errors import HeadwayError, HeadwayWarning, UsageError
from headway.base.files import is_printable
from headway.base.ranks import LAUNCHED

SIZES = re.compile("[1-9][0-9]{0,4}")
"""The values of COLUMNS and LINES that are used."""
WIDTHS, HEIGHTS = (40, 500), (10, 500)
"""The smallest and the largest size of a terminal for which text is arranged."""


class Stream:
    """The current sys.stdout or sys.stderr. HeadwayError, with its title, if a write fails.

    may_end: whether writing goes on after the reader of a pipe has exited, or although the stream
    was closed before the program started (`>&-`), without an effect.
    """

    def __init__(self, attribute: str, title: str, *, may_end: bool = False) -> None:
        self.attribute, self.title, self.may_end = attribute, title, may_end
        self.was_closed = False

    def __getattr__(self, name: str) -> Any:
        stream = getattr(sys, self.attribute) or _nowhere()
        return getattr(getattr(stream, "rich_proxied_file", stream), name)

    def write(self, text: str) -> int:
        """Write like a file. HeadwayError if it fails, BrokenPipeError if the reader has exited."""
        if self.was_closed and not self.may_end:
            raise HeadwayError(
                f"cannot write {self.title}: it is closed", hint="redirect it: >FILE or >/dev/null"
            )
        with self._named_failure():
            self.__getattr__("write")(text)
        return len(text)

    def flush(self) -> None:
        """Flush like a file, with the errors of `write`."""
        with self._named_failure():
            self.__getattr__("flush")()

    @contextmanager
    def _named_failure(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            if not self.may_end:
                raise
        except OSError as error:
            raise HeadwayError(f"cannot write {self.title}: {error.strerror or error}") from error


@functools.cache
def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")


def _environment() -> dict[str, str]:
    """The environment without a COLUMNS or LINES that is no positive number."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in ("COLUMNS", "LINES") or SIZES.fullmatch(value)
    }


class _Console(Console):
    """A console of a usable size.

    For a width of one column, rich arranges the help for minutes; for one of a million, it writes
    hundreds of megabytes of spaces.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, _environ=_environment())

    @property
    def size(self) -> ConsoleDimensions:
        width, height = super().size
        return ConsoleDimensions(_within(width, WIDTHS), _within(height, HEIGHTS))

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self.width, self.height = new_size


def _within(value: int, limits: tuple[int, int]) -> int:
    return min(max(value, limits[0]), limits[1])


output = Stream("stdout", "standard output")
messages = Stream("stderr", "standard error", may_end=True)
talk = _Console(file=cast(TextIO, messages), stderr=True, highlight=False, soft_wrap=True)


class _OutputConsole(_Console):
    def on_broken_pipe(self) -> None:
        """Leave the error to `main`: rich exits with 1, but a reader may end before the text."""
        raise  # rich calls this while it handles the BrokenPipeError


def on_output(**settings: Any) -> Console:
    """A rich console that writes to standard output."""
    return _OutputConsole(file=cast(TextIO, output), **settings)


def program() -> str:
    """The command that runs Headway: `headway`, or its path if it is not on the search path."""
    if launched := os.environ.get(LAUNCHED):
        return launched
    if shutil.which("headway"):
        return "headway"
    called = Path(sys.argv[0])
    if called.name != "headway":
        return "python -m headway"
    inside = called.is_relative_to(Path.cwd())
    return str(called.relative_to(Path.cwd()) if inside else called)


def prepare_streams() -> None:
    """Set the encodings of standard output and standard error, as the module describes.

    A stream that is closed (`>&-`) becomes /dev/null: the next file that is opened would get its
    number, and with it what libraries print. `sys.stdin` stays None, which verbs refuse to read;
    data for a closed standard output is an error.
    """
    output.was_closed = sys.stdout is None
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            lowest = os.open(os.devnull, os.O_RDWR)
            if name != "stdin":
                setattr(sys, name, os.fdopen(lowest, "w", encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            is_data = stream is sys.stdout and not stream.isatty()
            encoding = "utf-8" if is_data else stream.encoding
            stream.reconfigure(encoding=encoding, errors="backslashreplace")


def utf8_arguments(arguments: Sequence[str]) -> list[str]:
    """The arguments decoded as UTF-8, also in a locale where Python decodes them as ASCII.

    UsageError for an argument that is not UTF-8, which Python represents by lone surrogates: texts,
    tokenizers and runs cannot contain them.
    """
    return [_utf8(argument, number) for number, argument in enumerate(arguments, start=1)]


def _utf8(argument: str, number: int) -> str:
    try:
        argument.encode()
    except UnicodeEncodeError as error:
        with suppress(UnicodeError):
            return os.fsencode(argument).decode()
        code = ord(argument[error.start])
        unit = f"byte 0x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"U+{code:04X}"
        raise UsageError(
            f"{unit} at character {error.start + 1} is not UTF-8",
            f"argument {number}",
            "encode the text in UTF-8; if it is the name of a file, rename the file",
        ) from error
    return argument


def finish(code: int) -> int:
    """Flush both streams, and return the exit code: `code`, or that of a failed flush.

    A reader that has exited (head, less) is not a failure. If standard error fails, the exit code
    is the only sign of it.
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
        # The interpreter flushes again when it exits, and would print an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code


def say(text: str) -> None:
    """Print a message on standard error. Brackets are no markup."""
    talk.print(text, markup=False)


def say_next(commands: Sequence[str]) -> None:
    """Print what to run next: commands without the name of the program, one a line."""
    for number, command in enumerate(commands):
        say(f"{'' if number else 'next':<10}{program()} {command}")


def data(text: str) -> None:
    """Write one line of data to standard output."""
    data_part(text + "\n")


def data_part(text: str) -> None:
    """Write part of a line to standard output, and flush."""
    output.write(text)
    output.flush()


def data_json(value: object) -> None:
    """Write a JSON value on one line; NaN and infinity, which JSON does not have, as null."""
    data(json.dumps(_without_nan(value), ensure_ascii=False, allow_nan=False))


def result(value: object, text: str, *, as_json: bool) -> None:
    """Write a result as one JSON value, or as text."""
    if as_json:
        data_json(value)
    else:
        data(text)


def _without_nan(value: object) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def one_line(text: str) -> str:
    """A name of a file for a terminal: control characters and line breaks as escapes."""
    return "".join(c if is_printable(c) else repr(c)[1:-1] for c in text)


def report(error: HeadwayError) -> None:
    """Print an error on standard error: what, where, and how to fix it."""
    first, *rest = str(error).split("\n")
    talk.print("error:", style="bold red", end=" ")
    talk.print(first, markup=False)
    for line in rest:
        talk.print(line, markup=False)


@contextmanager
def warnings_on_one_line() -> Iterator[None]:
    """Print each HeadwayWarning of the block as one line; Python's default adds a source line."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", HeadwayWarning)
        default = warnings.showwarning

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
                default(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def report_bug(error: BaseException) -> None:
    """Report an unexpected exception, and save its traceback in a file."""
    log = Path("headway-error.log")
    try:
        log.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        saved = f"the traceback is in {log}"
    except OSError:
        saved = "run again with --debug for the traceback"
    report(HeadwayError(f"unexpected {type(error).__name__}: {error}", None, f"report it; {saved}"))
