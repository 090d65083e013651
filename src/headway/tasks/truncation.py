"""Counts the inputs that are truncated to a model's maximum length, and reports them."""

import warnings
from collections.abc import Sequence

from headway.base.errors import HeadwayWarning


class Truncation:
    """Counts truncated inputs.

    limit: the maximum number of tokens of an input. unit: the word for an input.
    """

    def __init__(self, limit: int, unit: str = "text") -> None:
        self.limit, self.unit = limit, unit
        self._inputs = self._longer = 0
        self._first = (0, 0)

    def add(self, lengths: Sequence[int]) -> None:
        """Count the next inputs. lengths: their numbers of tokens before truncation."""
        for length in lengths:
            self._inputs += 1
            if length > self.limit:
                self._longer += 1
                self._first = self._first if self._longer > 1 else (self._inputs, length)

    @property
    def message(self) -> str | None:
        """One line about the truncated inputs; None if none was truncated."""
        number, length = self._first
        if self._longer == 1:
            return (
                f"{self.unit} {number} has {length:,} tokens and is truncated to the first "
                f"{self.limit:,}"
            )
        if self._longer:
            return (
                f"{self._longer:,} of {self._inputs:,} {self.unit}s have more than "
                f"{self.limit:,} tokens (the first is {self.unit} {number} with {length:,}) and "
                f"are truncated to the first {self.limit:,}"
            )
        return None


def warn_of_truncation(lengths: Sequence[int], limit: int, unit: str = "text") -> None:
    """Issue a HeadwayWarning if inputs of an evaluation are truncated.

    lengths: the numbers of tokens of the inputs. limit, unit: as in `Truncation`.
    """
    truncation = Truncation(limit, unit)
    truncation.add(lengths)
    if truncation.message is not None:
        warnings.warn(truncation.message, HeadwayWarning, stacklevel=3)
