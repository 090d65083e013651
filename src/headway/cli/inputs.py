"""Inputs of a verb: its arguments, or the lines of standard input."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

from headway.base.errors import UsageError
from headway.cli.streams import is_stream_file
from headway.data.formats.lines import read_lines, read_stream
from headway.tasks.truncation import Truncation
from headway.terminal.console import say, talk

CHUNK = 512  # lines processed together: enough to sort by length, few enough for early output
NAME = "standard input"

T = TypeVar("T")


def is_file(argument: str) -> bool:
    """Whether an argument is the path of an existing file."""
    return os.path.isfile(argument)  # unlike Path.is_file, False too for a text that is too long


def check_no_file(text: str, hint: str | None = None) -> None:
    """UsageError if a text is the path of an existing file with a suffix.

    The result would be of the name of the file. hint: how its contents are read; if unset, as lines
    of standard input.
    """
    if Path(text).suffix and is_file(text):
        raise UsageError(
            "the input is the path of a file, but inputs are texts",
            text,
            hint or f"< {text} reads one input per line of the file",
        )


def arguments_or_lines(
    arguments: Sequence[str], unit: str, of_file: Callable[[str], str | None] = lambda path: None
) -> Iterator[str]:
    """The arguments; without any, the lines of standard input. unit: the name of one input, for the
    prompt on a terminal. A pipe among the arguments has its lines as inputs. of_file: how the
    contents of a file are read (`check_no_file`)."""
    for text in arguments:
        if not is_stream_file(text):
            check_no_file(text, of_file(text))
    return _with_lines(arguments) if arguments else standard_input(unit)


def _with_lines(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the arguments, with the lines of pipes in their place."""
    for text in arguments:
        if is_stream_file(text):
            yield from read_lines(Path(text))
        else:
            yield text


def standard_input(unit: str) -> Iterator[str]:
    """The lines of standard input, by the rules for files (`read_stream`)."""
    if sys.stdin is None:
        raise UsageError("standard input is closed", hint="pass the texts as arguments")
    if _is_typed():
        talk.print(f"one {unit} per line; Ctrl-D ends")
    return read_stream(sys.stdin.buffer.readline, NAME)


def _is_typed() -> bool:
    """Whether standard input is a terminal, where each line is answered at once."""
    return sys.stdin is not None and sys.stdin.isatty()


def chunks(texts: Iterable[T], *, from_input: bool) -> Iterator[list[T]]:
    """Yield lists of texts that are processed together. from_input: whether the texts are from
    standard input; on a terminal, each list has one text."""
    iterator = iter(texts)
    size = 1 if from_input and _is_typed() else CHUNK
    while chunk := list(islice(iterator, size)):
        yield chunk


class Truncated(Truncation):
    """Reports the inputs of a verb that were truncated to the maximum length of the model."""

    def report(self) -> None:
        """Print one line on stderr if an input was truncated."""
        if self.message is not None:
            say(f"          ! {self.message}")
