"""Dot-product score with a scale of its own and a soft limit: c tanh(s q . k / c).

The limit c keeps every score between -c and c, so that no weight can become 0 or 1 however large
the vectors grow in training; small scores are hardly changed, since tanh(x) is about x.

>>> import torch
>>> from headway.attention import CappedDot
>>> q, k = torch.tensor([[[[1.0]]]]), torch.tensor([[[[1.0], [10.0], [1000.0]]]])  # B H T K
>>> CappedDot(scale=1.0, cap=50.0).scores(q, k)[0, 0].round(decimals=2)
tensor([[ 1.0000,  9.8700, 50.0000]])
"""

import math
from dataclasses import replace

from headway.attention.kernel import Bias, Contexts, Keys, Queries, SoftmaxKernel, Values, Weights
from headway.attention.masks import Mask
from headway.base.shapes import Float, Tensor


class CappedDot(SoftmaxKernel):
    """softmax(c tanh(s Q K^T / c)) V. Bello et al. 2016, equation 16; Gemma 2, section 2.

    scale: s; None: 1 / sqrt(K). cap: c; None: no limit. window: as in `SlidingWindow`; None: all
    keys that the mask allows.
    """

    def __init__(
        self, *, scale: float | None = None, cap: float | None = None, window: int | None = None
    ) -> None:
        super().__init__()
        if window is not None and window < 1:
            raise ValueError(f"{window=} must be at least 1: a token attends to itself")
        self.scale = scale
        self.cap = cap
        self.window = window

    def scores(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"]
    ) -> Float[Tensor, "B H T S"]:
        scale = 1 / math.sqrt(q.shape[-1]) if self.scale is None else self.scale
        scores = q @ k.transpose(-1, -2) * scale
        return scores if self.cap is None else self.cap * (scores / self.cap).tanh()

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask, bias: Bias = None) -> Contexts:
        return super().forward(q, k, v, self.narrowed(mask), bias)

    def weights(self, q: Queries, k: Keys, mask: Mask, bias: Bias = None) -> Weights:
        return super().weights(q, k, self.narrowed(mask), bias)

    def narrowed(self, mask: Mask) -> Mask:
        """Return the mask with this window; a narrower window of the mask itself is kept."""
        if self.window is None:
            return mask
        window = self.window if mask.window is None else min(mask.window, self.window)
        return replace(mask, window=window)
