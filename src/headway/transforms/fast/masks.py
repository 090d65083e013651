"""Masks as fast kernels need them: recognised where torch knows them, else added to the scores."""

from __future__ import annotations

from functools import lru_cache

import torch

from headway.attention.masks import Mask
from headway.base.shapes import Float, Tensor
from headway.transforms.tracing import tracing


def hides_nothing(mask: Mask, num_queries: int) -> bool:
    """Whether every query may attend to every key, so that no mask need be applied."""
    by_position = (mask.causal and num_queries > 1) or mask.window is not None
    return not (by_position or _differs_by_sequence(mask))


def is_plain_causal(mask: Mask, num_queries: int, num_keys: int) -> bool:
    """Whether the mask is the square causal triangle, the one that torch's `is_causal` means."""
    plain = mask.window is None and not _differs_by_sequence(mask)
    return mask.causal and plain and num_queries == num_keys


def additive(
    mask: Mask, num_queries: int, num_keys: int, like: Tensor
) -> Float[Tensor, "#B 1 #T S"] | None:
    """Return 0 where a query may attend and -inf where not, in `like`'s dtype; None if it may
    attend to all keys. T is 1 if all queries may attend to the same keys.

    The result for `past` is kept for the next layers of a decoding step, whose masks have the same
    tensor: it must not be changed.
    """
    if hides_nothing(mask, num_queries):
        return None
    is_of_step = mask.past is not None and mask.keys is None and not tracing(like)
    matrix = _last_matrix if is_of_step else _matrix
    return matrix(mask, num_queries, num_keys, like.dtype, like.device)


def _matrix(
    mask: Mask, num_queries: int, num_keys: int, dtype: torch.dtype, device: torch.device
) -> Float[Tensor, "#B 1 #T S"]:
    if mask.keys is not None and not mask.causal and mask.window is None:
        allowed = mask.keys[:, None, None]  # the same keys for all queries
    else:
        allowed = mask.dense(num_queries, num_keys, device)
    zeros = torch.zeros(allowed.shape, dtype=dtype, device=device)
    return zeros.masked_fill_(~allowed, -torch.inf)


# The layers of a step share the tensor `past`, so their masks are equal.
_last_matrix = lru_cache(maxsize=1)(_matrix)


def _differs_by_sequence(mask: Mask) -> bool:
    return any(rule is not None for rule in (mask.keys, mask.past, mask.documents))


def forget_last_mask() -> None:
    """Compute the next mask again, even if its `past` is the same tensor, with other numbers."""
    _last_matrix.cache_clear()
