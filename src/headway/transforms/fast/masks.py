"""Masks as fast kernels need them: recognised where torch knows them, else added to the scores."""

from __future__ import annotations

import torch

from headway.attention.masks import Mask
from headway.shapes import Float, Tensor
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
) -> Float[Tensor, "#B 1 T S"] | None:
    """Return 0 where a query may attend and -inf where not, in `like`'s dtype; None if it may
    attend to all keys.

    The result for `past` is kept for the next layers of a decoding step, whose masks have the same
    tensor: it must not be changed.
    """
    if hides_nothing(mask, num_queries):
        return None
    if mask.past is None or mask.keys is not None or tracing(like):
        return _computed(mask, num_queries, num_keys, like)
    rules = mask.causal, mask.window, num_queries, num_keys, like.dtype, like.device
    past, known_rules, known = _LAST[0]
    if past is not mask.past or known_rules != rules:
        known = _computed(mask, num_queries, num_keys, like)
        _LAST[0] = mask.past, rules, known
    return known


_LAST: list[tuple[Tensor | None, tuple[object, ...], Tensor]] = [(None, (), torch.empty(0))]
"""The last `past`, the rules and shapes beside it, and the result."""


def _computed(
    mask: Mask, num_queries: int, num_keys: int, like: Tensor
) -> Float[Tensor, "#B 1 T S"]:
    allowed = mask.dense(num_queries, num_keys, like.device)
    zeros = torch.zeros(allowed.shape, dtype=like.dtype, device=like.device)
    return zeros.masked_fill_(~allowed, -torch.inf)


def _differs_by_sequence(mask: Mask) -> bool:
    return any(rule is not None for rule in (mask.keys, mask.past, mask.documents))
