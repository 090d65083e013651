"""Token ids checked against the size of a vocabulary."""

from __future__ import annotations

from collections.abc import Iterable

from headway.errors import DataError


def checked_ids(ids: Iterable[int], size: int) -> list[int]:
    """Return the ids as integers. Raises DataError for an id that is not in 0 .. size - 1."""
    checked = [int(i) for i in ids]
    for i in checked:
        if not 0 <= i < size:
            raise DataError(
                f"token id {i} is outside the vocabulary, ids 0 to {size - 1}",
                hint="use the tokenizer that the model was trained with",
            )
    return checked
