"""A metric by kind of example, as a table."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

KINDS = "by_kind"
"""The name of the table in the details of scores."""


class KindScore(TypedDict):
    """The number of examples of a kind, and the mean of their scores."""

    count: int
    mean: float


def by_kind(kinds: Sequence[str], values: Sequence[float]) -> dict[str, KindScore]:
    """Return the mean value of each kind, in the order of the kinds; none for examples without a
    kind ("")."""
    groups: dict[str, list[float]] = {}
    for kind, value in zip(kinds, values, strict=True):
        if kind:
            groups.setdefault(kind, []).append(value)
    return {
        kind: KindScore(count=len(group), mean=sum(group) / len(group))
        for kind, group in sorted(groups.items())
    }


def kind_lines(table: Mapping[str, KindScore]) -> list[str]:
    """Format the table, one line for each kind."""
    width = max(map(len, table), default=0)
    return [
        f"{kind:<{width}}  {row['mean']:6.1%} of {row['count']:,}" for kind, row in table.items()
    ]
