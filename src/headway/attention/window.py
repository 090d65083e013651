"""Sliding-window attention: a token looks at its neighbourhood only."""

from __future__ import annotations

from dataclasses import replace

import torch

from headway.attention.fused import fused_dot
from headway.attention.kernel import ScaledDot
from headway.attention.masks import Mask
from headway.shapes import Float, Tensor

# Queries answered together; each block reads the blocks of keys that its window reaches.
CHUNK = 128


class SlidingWindow(ScaledDot):
    """softmax(Q K^T / sqrt(K)) V over the last `window` keys up to a query's own position.

    When nothing is causal, as far to the right too. For self-attention only: between two
    sequences positions cannot be compared. Time and memory grow with T x window. Beltagy et al.
    2020, section 3.1; Jiang et al. 2023 (Mistral), section 2.
    """

    def __init__(self, window: int) -> None:
        super().__init__()
        if window < 1:
            raise ValueError(f"{window=} must be at least 1: a token attends to itself")
        self.window = window

    def forward(
        self,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B H S K"],
        v: Float[Tensor, "B H S Kv"],
        mask: Mask,
        bias: Float[Tensor, "#B #H T S"] | None = None,
    ) -> Float[Tensor, "B H T Kv"]:
        mask = self._narrowed(mask)
        num_queries, num_keys = q.shape[2], k.shape[2]
        by_row = mask.past is not None or mask.documents is not None
        if by_row or num_keys <= CHUNK + self.window:
            return fused_dot(q, k, v, mask, bias)
        parts = []
        # split, not slices: the gradient of a slice is as long as the whole input, one for each
        all_keys, all_values = torch.split(k, CHUNK, dim=2), torch.split(v, CHUNK, dim=2)
        for i, queries in enumerate(torch.split(q, CHUNK, dim=2)):
            start, length = i * CHUNK, queries.shape[2]
            first = num_keys - num_queries + start  # position of the block's first query
            low = max(0, first - self.window + 1) // CHUNK  # block of the first key in reach
            high = first + length + (0 if mask.causal else self.window - 1)
            high = -(-min(high, num_keys) // CHUNK)
            keys, values = (torch.cat(x[low:high], dim=2) for x in (all_keys, all_values))
            near = slice(low * CHUNK, low * CHUNK + keys.shape[2])
            added = _distances(first - near.start, length, keys.shape[2], mask, like=q)
            if bias is not None:
                added = added + bias[:, :, start : start + length, near]
            real = None if mask.keys is None else mask.keys[:, near]
            parts.append(fused_dot(queries, keys, values, Mask(keys=real), added))
        return torch.cat(parts, dim=2)

    def weights(
        self,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B H S K"],
        mask: Mask,
        bias: Float[Tensor, "#B #H T S"] | None = None,
    ) -> Float[Tensor, "B H T S"]:
        return super().weights(q, k, self._narrowed(mask), bias)

    def _narrowed(self, mask: Mask) -> Mask:
        window = self.window if mask.window is None else min(mask.window, self.window)
        return replace(mask, window=window)


def _distances(
    first: int, num_queries: int, num_keys: int, mask: Mask, like: Tensor
) -> Float[Tensor, "1 1 T S"]:
    """0 within the window and -inf outside, for a block whose first query stands at key `first`."""
    assert mask.window is not None
    query = first + torch.arange(num_queries, device=like.device)[:, None]
    back = query - torch.arange(num_keys, device=like.device)  # T S
    allowed = back.abs() < mask.window
    allowed = allowed & (back >= 0) if mask.causal else allowed
    zeros = torch.zeros(allowed.shape, dtype=like.dtype, device=like.device)
    return zeros.masked_fill_(~allowed, -torch.inf)[None, None]
