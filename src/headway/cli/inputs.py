"""Texts that a verb reads: its arguments, or standard input line by line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TypeVar

from headway.cli.console import talk
from headway.errors import UsageError
from headway.tasks.truncation import Truncation

CHUNK = 512  # lines processed together; enough to sort by length, few enough to answer soon
NAME = "standard input"

T = TypeVar("T")


def utf8_arguments(arguments: Sequence[str]) -> list[str]:
    """The arguments as UTF-8, also where the locale made Python read their bytes as ASCII.

    UsageError for one that is not UTF-8: no text, no tokenizer and no run can hold it, and Python
    passes its bytes on as lone surrogates.
    """
    return [_utf8(argument, number) for number, argument in enumerate(arguments, start=1)]


def _utf8(argument: str, number: int) -> str:
    try:
        argument.encode()
    except UnicodeEncodeError as error:
        with suppress(UnicodeError):
            return os.fsencode(argument).decode()
        code = ord(argument[error.start])
        found = f"byte 0x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"U+{code:04X}"
        raise UsageError(
            f"{found} at character {error.start + 1} is not UTF-8",
            f"argument {number}",
            "write the text in UTF-8; if it names a file, rename that",
        ) from error
    return argument


def arguments_or_lines(arguments: Sequence[str], unit: str) -> Iterator[str]:
    """The arguments; without any, the lines of standard input. unit: what a line holds, for the
    person who types them."""
    return iter(arguments) if arguments else standard_input(unit)


def standard_input(unit: str) -> Iterator[str]:
    """The lines of standard input, read as those of a file: `read_stream`."""
    from headway.data.formats import read_stream

    if sys.stdin is None:
        raise UsageError("standard input is closed", hint="give the texts as arguments")
    if _is_typed():
        talk.print(f"one {unit} a line; Ctrl-D ends")
    return read_stream(sys.stdin.buffer.readline, NAME)


def _is_typed() -> bool:
    """Whether standard input is a terminal, where a person waits for each answer."""
    return sys.stdin is not None and sys.stdin.isatty()


def chunks(texts: Iterable[T], *, from_input: bool) -> Iterator[list[T]]:
    """The texts in lists that are processed together. from_input: they are read from standard
    input; where a person types them, each is a list of its own."""
    iterator = iter(texts)
    size = 1 if from_input and _is_typed() else CHUNK
    while chunk := list(islice(iterator, size)):
        yield chunk


class Truncated(Truncation):
    """Reports inputs of a verb of which a model reads only the first tokens."""

    def report(self) -> None:
        """One line on stderr, if an input was cut."""
        if self.message is not None:
            talk.print(f"          ! {self.message}", markup=False)
