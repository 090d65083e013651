"""Errors that can be acted on: what is wrong, where, and how to fix it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HeadwayError(ValueError):
    """An error with up to three parts, printed on up to three lines without a traceback.

    what: what was expected and what was found. where: file and line, flag or key. hint: the fix.
    """

    exit_code = 1

    def __init__(self, what: str, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what, where, hint)
        self.what, self.where, self.hint = what, where, hint

    def __str__(self) -> str:
        parts = [self.what]
        if self.where:
            parts.append(f"  at   {self.where}")
        if self.hint:
            parts.append(f"  try  {self.hint}")
        return "\n".join(parts)

    @property
    def on_one_line(self) -> str:
        """Where and what, without the hint, for lists of errors."""
        return f"{self.where}: {self.what}" if self.where else self.what


class UsageError(HeadwayError):
    """The command or the configuration is invalid."""

    exit_code = 2


class DataError(HeadwayError):
    """A file is invalid."""

    exit_code = 3


class OutOfMemory(HeadwayError):
    """The model or the batch does not fit into memory."""

    exit_code = 4

    @classmethod
    def of(cls, error: BaseException, hint: str) -> OutOfMemory:
        """The error for a failed allocation; hint: how to need less memory."""
        first = str(error).split("\n")[0] or "an allocation failed"
        return cls(f"out of memory: {first}", hint=hint)


class HeadwayWarning(UserWarning):
    """Something is ignored or takes longer than it could, and the work continues."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception of a library means a failed allocation, on a CPU or a GPU."""
    text = str(error).lower()
    is_allocation = "out of memory" in text or "can't allocate memory" in text
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and is_allocation)


def closest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that a misspelt name probably means, or None."""
    matches = difflib.get_close_matches(name, list(candidates), n=1, cutoff=0.6)
    return matches[0] if matches else None


def index_from_one(option: str, number: int, count: int) -> int:
    """The index, counted from 0, of the layer or head that an option of the command line names.

    The command line counts layers and heads from 1. UsageError if there is none of that number.
    """
    if not 1 <= number <= count:
        raise UsageError(f"{option} {number}: must be from 1 to {count}")
    return number - 1


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """The end of an error message on an unknown name: the name it probably means, if any."""
    meant = closest(name, candidates)
    return f". Did you mean {meant}?" if meant else ""
