"""What happens to rows of data files that cannot be used: the run stops, or a few are left out.

A row that is left out is never lost without a word: its file, line and reason are kept, counted and
shown, and training stops if there are more of them than the user allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from headway.base.errors import DataError, UsageError
from headway.base.settings import setting
from headway.data.prepared import Emit

STOP = "stop"
LEFT_OUT = "left_out"  # kind of an event
LEFT_OUT_FILE = "left_out.txt"  # in the folder of a run
_SKIP = re.compile(r"skip:([1-9][0-9]{0,8})")
_SHOWN = 3

Row = TypeVar("Row")
Example = TypeVar("Example")


def bad_rows_setting() -> Any:
    """Declare the setting for the policy, which `BadRows.of` reads."""
    return setting(
        STOP,
        "what happens to a row that is no example: stop, or skip:N, which leaves out at most N "
        "rows and lists them with file, line and reason",
    )


@dataclass
class BadRows:
    """Rows that are left out of the data.

    limit: the maximum number of them; with 0 the first one stops the run. advice: how the user may
    leave rows out, for the error of the first one. errors: why each one was left out, with file and
    line.
    """

    limit: int = 0
    advice: str = ""
    errors: list[DataError] = field(default_factory=list)

    @classmethod
    def of(cls, policy: str) -> BadRows:
        """Return the policy that a user sets: stop, or skip:N. Raises UsageError for another."""
        if policy == STOP:
            return cls(advice="leave such rows out with --data.bad-rows skip:100")
        match = _SKIP.fullmatch(policy)
        if match is None:
            raise UsageError(
                f"data.bad_rows={policy}: must be stop, or skip:N with the maximum number of "
                "rows that are left out",
                hint="--data.bad-rows skip:100",
            )
        return cls(int(match[1]))

    def leave_out(self, error: DataError) -> None:
        """Leave out a row for this reason; raise the error if no more may be left out."""
        if len(self.errors) < self.limit:
            self.errors.append(error)
            return
        advice = self.advice
        if self.limit:
            advice = f"allow more than the {self.limit:,} that were left out before it"
        hints = [hint for hint in (error.hint, advice) if hint]
        raise DataError(error.what, error.where, "; or ".join(hints) or None) from error

    def parsed(self, rows: Iterable[Row], parse: Callable[[Row], Example]) -> Iterator[Example]:
        """Yield the example of each row, without the rows for which `parse` raises DataError."""
        for row in rows:
            try:
                example = parse(row)
            except DataError as error:
                self.leave_out(error)
            else:
                yield example

    def lines(self) -> list[str]:
        """Return one line for each row that was left out: where it is, and why."""
        return [error.on_one_line for error in self.errors]

    def announce(self, emit: Emit) -> None:
        """Emit an event that lists the rows that were left out, if there are any."""
        if self.errors:
            emit({"kind": LEFT_OUT, "text": self.summary(), "rows": self.lines()})

    def summary(self) -> str | None:
        """Return a sentence on the rows that were left out; None if there are none."""
        if not self.errors:
            return None
        count = len(self.errors)
        more = f"; and {count - _SHOWN:,} more" if count > _SHOWN else ""
        shown = "; ".join(self.lines()[:_SHOWN])
        return f"{count:,} {'row was' if count == 1 else 'rows were'} left out: {shown}{more}"


NONE_LEFT_OUT = BadRows()
"""The policy of readers that are given none: the first bad row is an error, so it never changes."""
