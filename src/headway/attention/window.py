"""Sliding-window attention: query t attends to keys t - w + 1 ... t only.

Each token attends to the w most recent tokens (without a causal mask, as far to the right too).
Stacked layers widen the reach: after L layers a token depends on about L w tokens.

>>> import torch
>>> from headway.attention import Mask, SlidingWindow
>>> words = torch.ones(1, 1, 3, 2)  # B H T K: three words with equal scores
>>> SlidingWindow(window=2).weights(words, words, Mask(causal=True))[0, 0]
tensor([[1.0000, 0.0000, 0.0000],
        [0.5000, 0.5000, 0.0000],
        [0.0000, 0.5000, 0.5000]])
"""

from dataclasses import replace

from headway.attention.kernel import Bias, Contexts, Keys, Queries, ScaledDot, Values, Weights
from headway.attention.masks import Mask


class SlidingWindow(ScaledDot):
    """softmax(Q K^T / sqrt(K)) V over the last `window` keys up to the position of each query.

    For self-attention only: positions of two different sequences cannot be compared. Beltagy et
    al. 2020, section 3.1; Jiang et al. 2023 (Mistral), section 2.
    """

    def __init__(self, window: int) -> None:
        super().__init__()
        if window < 1:
            raise ValueError(f"{window=} must be at least 1: a token attends to itself")
        self.window = window

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask, bias: Bias = None) -> Contexts:
        return super().forward(q, k, v, self.narrowed(mask), bias)

    def weights(self, q: Queries, k: Keys, mask: Mask, bias: Bias = None) -> Weights:
        return super().weights(q, k, self.narrowed(mask), bias)

    def narrowed(self, mask: Mask) -> Mask:
        """Return the mask with this window; a narrower window of the mask itself is kept."""
        window = self.window if mask.window is None else min(mask.window, self.window)
        return replace(mask, window=window)
