"""Progress of computations that take longer than a user waits without a sign."""

from collections.abc import Callable

Report = Callable[[float], None]
"""A listener: it is called with the fraction of a computation that is done, from 0 to 1."""


def unreported(fraction: float) -> None:
    """Report nothing."""


class Work:
    """Counts what is done of a known amount of work, and reports its fraction."""

    def __init__(self, amount: int, report: Report) -> None:
        self._amount, self._report, self._done = amount, report, 0

    def done(self, amount: int = 1) -> None:
        """Add a part of the work that is done now."""
        self._done += amount
        self._report(min(1.0, self._done / self._amount))
