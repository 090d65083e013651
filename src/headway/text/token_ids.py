"""Token ids checked against the size of a vocabulary."""

from __future__ import annotations

from collections.abc import Iterable

from headway.base.errors import DataError


def checked_ids(ids: Iterable[int], size: int) -> list[int]:
    """Return the ids as integers. Raises DataError for an id that is not in 0 .. size - 1."""
    checked = list(map(int, ids))
    if checked and not 0 <= min(checked) <= max(checked) < size:
        outside = next(i for i in checked if not 0 <= i < size)
        raise DataError(
            f"token id {outside} is outside the vocabulary, ids 0 to {size - 1}",
            hint="use the tokenizer that the model was trained with",
        )
    return checked
