"""Masks as fast kernels need them: recognised where torch knows them, else added to the scores."""

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

    The result is kept for the next layers that have this mask, unless `tracing`: it must not be
    changed.
    """
    if hides_nothing(mask, num_queries):
        return None
    if tracing(like):
        return _matrix(mask, num_queries, num_keys, like)
    # gradients may not use what was made in inference mode
    key = num_queries, num_keys, like.dtype, like.device, torch.is_inference_mode_enabled()
    if key not in mask.made:
        mask.made[key] = _matrix(mask, num_queries, num_keys, like)
    return mask.made[key]


def _matrix(
    mask: Mask, num_queries: int, num_keys: int, like: Tensor
) -> Float[Tensor, "#B 1 #T S"]:
    if mask.keys is not None and not mask.causal and mask.window is None:
        allowed = mask.keys[:, None, None]  # the same keys for all queries
    else:
        allowed = mask.dense(num_queries, num_keys, like.device)
    zeros = torch.zeros(allowed.shape, dtype=like.dtype, device=like.device)
    return zeros.masked_fill_(~allowed, -torch.inf)


def _differs_by_sequence(mask: Mask) -> bool:
    return any(rule is not None for rule in (mask.keys, mask.past, mask.documents))
