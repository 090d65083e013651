"""The combinations of model, kernel and property that `make test` runs."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

from tests.fixtures.zoo import BUILT_WITH

Triple = tuple[Any, Any, Any]


def pairwise(first: Sequence[Any], second: Sequence[Any], third: Sequence[Any]) -> set[Triple]:
    """Return the fewest triples in which any two values of different lists occur together.

    All pairs of the two longer lists are taken; the pair (i, j) is combined with value i + j of the
    shortest, modulo its length. Every row and every column of that table holds each value of the
    shortest list, as it is a Latin square or longer than one.
    """
    lists = (first, second, third)
    short, *longer = sorted(range(3), key=lambda axis: len(lists[axis]))
    chosen = set()
    for i, value in enumerate(lists[longer[0]]):
        for j, other_value in enumerate(lists[longer[1]]):
            shared = lists[short][(i + j) % len(lists[short])]
            by_axis = {longer[0]: value, longer[1]: other_value, short: shared}
            chosen.add((by_axis[0], by_axis[1], by_axis[2]))
    return chosen


def combinations(models: Sequence[str], kernels: Sequence[str], checks: Sequence[Any]) -> list[Any]:
    """All triples as parameters of a test; what only `make test-all` tries is marked `slow`.

    `make test` tries every model with the kernel that it is built with on every property, and the
    other kernels `pairwise`.
    """
    chosen = pairwise(models, kernels, checks) | set(product(models, [BUILT_WITH], checks))
    return [
        pytest.param(
            name,
            kernel,
            check,
            id=f"{name}-{kernel}-{check.__name__}",
            marks=() if (name, kernel, check) in chosen else pytest.mark.slow,
        )
        for name, kernel, check in product(models, kernels, checks)
    ]
