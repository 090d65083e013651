"""Attention with sinks: each head has a learned score s that no value belongs to.

A softmax gives weights that sum to 1 even where a head has nothing to read; trained models then
read the first token, whatever it is. With a sink the weights may sum to less:
a_j = exp(score_j) / (exp(s) + sum over i of exp(score_i)).

>>> import torch
>>> from headway.attention import Mask, SinkDot
>>> words = torch.tensor([[[[1.0], [0.0]]]])  # B H T K: one head, two words
>>> kernel = SinkDot(num_heads=1)  # s = 0, as if each query had one more key of score 0
>>> kernel.weights(words, words, Mask())[0, 0].detach().round(decimals=2)
tensor([[0.5800, 0.2100],
        [0.3300, 0.3300]])
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from headway.attention.capped import CappedDot
from headway.attention.kernel import masked_softmax
from headway.base.shapes import Bool, Float, Tensor


class SinkDot(CappedDot):
    """softmax([Q K^T / sqrt(K), s]) without its last column, times V. Xiao et al. 2024, section
    3.3; gpt-oss (OpenAI 2025), section 2.

    scale, cap, window: as in `CappedDot`. The sinks are learned and begin at 0.
    """

    normalised: ClassVar[bool] = False

    def __init__(
        self,
        num_heads: int,
        *,
        scale: float | None = None,
        cap: float | None = None,
        window: int | None = None,
    ) -> None:
        super().__init__(scale=scale, cap=cap, window=window)
        self.sinks = nn.Parameter(torch.empty(num_heads))
        self.init_weights()

    def init_weights(self) -> None:
        nn.init.zeros_(self.sinks)

    def with_sinks(
        self, scores: Float[Tensor, "B H T S"], allowed: Bool[Tensor, "#B #H T S"]
    ) -> tuple[Float[Tensor, "B H T S1"], Bool[Tensor, "#B #H T S1"]]:
        """Append the sink, which every query may read, to scores and mask: S1 = S + 1."""
        sinks = self.sinks.to(scores.dtype)[:, None, None].expand(*scores.shape[:3], 1)
        return torch.cat((scores, sinks), -1), F.pad(allowed, (0, 1), value=True)

    def normalise(
        self, scores: Float[Tensor, "B H T S"], allowed: Bool[Tensor, "#B #H T S"]
    ) -> Float[Tensor, "B H T S"]:
        return masked_softmax(*self.with_sinks(scores, allowed))[..., :-1]
