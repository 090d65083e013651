"""Fast twin of sliding-window attention: time and memory grow with T x window, not with T x T."""

import torch

from headway.attention.kernel import Bias, Contexts, Keys, Queries, Values
from headway.attention.masks import Mask
from headway.attention.window import SlidingWindow
from headway.base.shapes import Float, Tensor
from headway.transforms.fast.dot import fused_dot
from headway.transforms.tracing import tracing

# Queries answered together; each block reads the blocks of keys that its window reaches.
CHUNK = 128


class FastSlidingWindow(SlidingWindow):
    """The numbers of `SlidingWindow`, block by block of queries."""

    def narrowed(self, mask: Mask) -> Mask:
        if tracing():
            return super().narrowed(mask)
        if self.window not in mask.made:
            mask.made[self.window] = super().narrowed(mask)
        return mask.made[self.window]

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask, bias: Bias = None) -> Contexts:
        mask = self.narrowed(mask)
        num_queries, num_keys = q.shape[2], k.shape[2]
        differs_by_sequence = mask.past is not None or mask.documents is not None
        # exported, the graph must hold for every length; the compiler makes one for each
        whole = differs_by_sequence or torch.compiler.is_exporting()
        if whole or num_keys <= CHUNK + self.window:
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
            window_bias = _distances(first - near.start, length, keys.shape[2], mask, like=q)
            if bias is not None:
                window_bias = window_bias + bias[:, :, start : start + length, near]
            real = None if mask.keys is None else mask.keys[:, near]
            parts.append(fused_dot(queries, keys, values, Mask(keys=real), window_bias))
        return torch.cat(parts, dim=2)


def _distances(
    first: int, num_queries: int, num_keys: int, mask: Mask, like: Tensor
) -> Float[Tensor, "1 1 T S"]:
    """Return 0 within the window and -inf outside, for queries from position `first` on."""
    assert mask.window is not None
    query = first + torch.arange(num_queries, device=like.device)[:, None]
    back = query - torch.arange(num_keys, device=like.device)  # T S
    allowed = back.abs() < mask.window
    allowed = allowed & (back >= 0) if mask.causal else allowed
    zeros = torch.zeros(allowed.shape, dtype=like.dtype, device=like.device)
    return zeros.masked_fill_(~allowed, -torch.inf)[None, None]
