"""Disentangled attention: score(t, s) = (q_t . k_s + q_t . k_b + q_b . k_s) / sqrt(3 K).

b is the bucket of the distance t - s. A word is compared with a word, a word with a distance, and a
distance with a word. Each of 2 B buckets has one learned vector, which all layers share; a layer
projects it as it projects a word. Near distances have a bucket each, far ones share buckets.

>>> import torch
>>> from headway.attention import DistanceVectors
>>> vectors = DistanceVectors(model_dim=4, num_buckets=4, max_length=16, norm=torch.nn.Identity())
>>> vectors.buckets(6, torch.device("cpu"))[0]  # of the first word, to words 0, 1, ... after it
tensor([4, 3, 2, 1, 1, 1])
"""

import math

import torch
from torch import nn

from headway.attention.cache import KeyValues, LayerCache
from headway.attention.capped import CappedDot
from headway.attention.masks import Mask
from headway.attention.multihead import MultiHeadAttention
from headway.attention.step import Step
from headway.base.shapes import Float, Int, Tensor


class DistanceVectors(nn.Module):
    """norm(E[b]): a vector for each of 2 B buckets of distances, B to each side.

    Distances up to B / 2 have a bucket each; longer ones share buckets that grow logarithmically up
    to `max_length`. He et al. 2021 (DeBERTa), section 3.1, and released code of version 3.
    """

    def __init__(self, model_dim: int, num_buckets: int, max_length: int, norm: nn.Module) -> None:
        super().__init__()
        self.num_buckets = num_buckets
        self.max_length = max_length
        self.table = nn.Parameter(torch.zeros(2 * num_buckets, model_dim))
        self.norm = norm

    def init_weights(self) -> None:
        nn.init.normal_(self.table, std=0.02)

    def forward(self) -> Float[Tensor, "1 C D"]:
        return self.norm(self.table)[None]

    def buckets(self, num_tokens: int, device: torch.device) -> Int[Tensor, "T S"]:
        """Return b(t - s), from 0 to 2 B - 1, for each query t and key s."""
        position = torch.arange(num_tokens, device=device)
        ahead = position[:, None] - position
        near = self.num_buckets // 2
        growth = torch.tensor((self.max_length - 1) / near).log()
        logarithm = (ahead.abs().clamp(min=near) / near).log() / growth
        far = (logarithm * (near - 1)).ceil().long() + near
        bucket = torch.where(ahead.abs() <= near, ahead, far * ahead.sign())
        return (bucket + self.num_buckets).clamp(0, 2 * self.num_buckets - 1)


class DisentangledAttention(MultiHeadAttention):
    """Self-attention of whole sequences whose scores depend on words and on their distances.

    distances: shared by all layers. window: as in `SlidingWindow`; None: all keys. He et al. 2021,
    equations 2 to 4, with the projections of words for distances.
    """

    def __init__(
        self,
        model_dim: int,
        num_heads: int,
        distances: DistanceVectors,
        *,
        window: int | None = None,
    ) -> None:
        scale = 1 / math.sqrt(3 * model_dim // num_heads)
        super().__init__(model_dim, num_heads, kernel=CappedDot(scale=scale, window=window))
        self.distances = distances
        self.scale = scale

    def forward(
        self,
        x: Float[Tensor, "N T D"],
        source: Float[Tensor, "N T D"] | KeyValues,
        mask: Mask,
        step: Step | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "N T D"]:
        """Attend from x to itself. source, step, cache: as in any attention; they are not used."""
        q, (k, v) = self.split_queries(self.query(x)), self.keys_values(x)
        context = self.kernel(q, k, v, mask, self.distance_scores(q, k))
        return self.output(context.transpose(1, 2).flatten(2))  # N H T K -> N T HK

    def distance_scores(
        self, q: Float[Tensor, "N H T K"], k: Float[Tensor, "N H S K"]
    ) -> Float[Tensor, "N H T S"]:
        """Return (q_t . k_b + q_b . k_s) / sqrt(3 K) for the bucket b of t - s."""
        vectors = self.distances()
        q_b, k_b = self.split_queries(self.query(vectors)), self.split_keys(self.key(vectors))
        bucket = self.distances.buckets(q.shape[2], q.device)
        shape = (*q.shape[:3], k.shape[2])
        word_to_distance = (q @ k_b.mT).gather(-1, bucket.expand(shape))  # N H T 2B -> N H T S
        distance_to_word = (k @ q_b.mT).gather(-1, bucket.mT.expand(shape)).mT
        return (word_to_distance + distance_to_word) * self.scale
