"""Errors that a person can act on: what is wrong, where, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HeadwayError(ValueError):
    """An error with up to three parts, shown on up to three lines; never with a traceback."""

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


class UsageError(HeadwayError):
    """The command or the configuration asks for something that makes no sense."""

    exit_code = 2


class DataError(HeadwayError):
    """A file is not what it must be."""

    exit_code = 3


class OutOfMemory(HeadwayError):
    """The model or the batch does not fit into memory."""

    exit_code = 4

    @classmethod
    def of(cls, error: BaseException, hint: str) -> OutOfMemory:
        """The error of a failed allocation, with what to do about it."""
        first = str(error).split("\n")[0] or "an allocation failed"
        return cls(f"out of memory: {first}", hint=hint)


class HeadwayWarning(UserWarning):
    """Something in a file was ignored, and the rest of it is used."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a library says that it could not allocate memory, on a CPU or on a GPU."""
    text = str(error).lower()
    refused = "out of memory" in text or "can't allocate memory" in text
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and refused)


def closest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate a misspelt name probably meant."""
    found = difflib.get_close_matches(name, list(candidates), n=1, cutoff=0.6)
    return found[0] if found else None


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """The end of a sentence that refuses a name: the one it probably meant, if any."""
    meant = closest(name, candidates)
    return f". Did you mean {meant}?" if meant else ""
