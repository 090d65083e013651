"""Texts that a verb reads: its arguments, or standard input line by line."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from headway.cli.console import talk
from headway.errors import UsageError

CHUNK = 512  # lines processed together; enough to sort by length, few enough to answer soon
NAME = "standard input"

T = TypeVar("T")


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
    return read_stream(sys.stdin.buffer, NAME)


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
