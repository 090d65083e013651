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


class Truncated:
    """Counts the inputs of which a model reads only the first tokens, and reports them.

    limit: the number of tokens that it reads of one. unit: what an input is.
    """

    def __init__(self, limit: int, unit: str = "text") -> None:
        self.limit, self.unit = limit, unit
        self._inputs = self._longer = 0
        self._first = (0, 0)

    def add(self, lengths: Sequence[int]) -> None:
        """The numbers of tokens of the next inputs, before any are cut."""
        for length in lengths:
            self._inputs += 1
            if length > self.limit:
                self._longer += 1
                self._first = self._first if self._longer > 1 else (self._inputs, length)

    def report(self) -> None:
        """One line on stderr, if an input was cut."""
        number, length = self._first
        if self._longer == 1:
            what = f"{self.unit} {number} has {length:,} tokens; the first {self.limit:,} are read"
        elif self._longer:
            what = (
                f"{self._longer:,} of {self._inputs:,} {self.unit}s have more than "
                f"{self.limit:,} tokens (the first is {self.unit} {number} with {length:,}); "
                f"the first {self.limit:,} of each are read"
            )
        else:
            return
        talk.print(f"          ! {what}", markup=False)
