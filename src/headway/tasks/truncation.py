"""Inputs of which a model reads only the first tokens: counted, and told in one line."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from headway.errors import HeadwayWarning


class Truncation:
    """Counts the inputs that are cut.

    limit: the number of tokens that the model reads of one. unit: what an input is.
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

    @property
    def message(self) -> str | None:
        """One line on the inputs that were cut; None if none was."""
        number, length = self._first
        if self._longer == 1:
            return f"{self.unit} {number} has {length:,} tokens; the first {self.limit:,} are read"
        if self._longer:
            return (
                f"{self._longer:,} of {self._inputs:,} {self.unit}s have more than "
                f"{self.limit:,} tokens (the first is {self.unit} {number} with {length:,}); "
                f"the first {self.limit:,} of each are read"
            )
        return None


def warn_of_truncation(lengths: Sequence[int], limit: int, unit: str = "text") -> None:
    """A HeadwayWarning if inputs of an evaluation are cut. lengths: their numbers of tokens."""
    truncation = Truncation(limit, unit)
    truncation.add(lengths)
    if truncation.message is not None:
        warnings.warn(truncation.message, HeadwayWarning, stacklevel=3)
