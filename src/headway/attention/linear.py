"""Linear attention: context = Q (K^T V), so time grows with the length, not with its square.

Without a softmax the products can be regrouped: K^T V is a K x Kv matrix, however long the
sequence is. The causal form is recurrent: M_t = M_(t-1) + k_t^T v_t, context_t = q_t M_t.

>>> import torch
>>> from headway.attention import LinearElu, Mask
>>> words = torch.tensor([[[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]]])  # B H T K = 1 1 3 2
>>> LinearElu().weights(words, words, Mask())[0, 0].round(decimals=2)
tensor([[0.3300, 0.2700, 0.4000],
        [0.2700, 0.3300, 0.4000],
        [0.3000, 0.3000, 0.4000]])
"""

import math
from typing import ClassVar

import torch

from headway.attention.kernel import Bias, Contexts, Kernel, Keys, Queries, Values, Weights, spread
from headway.attention.masks import Mask
from headway.base.shapes import Float, Tensor

# Tokens between two updates of the running sum of a causal pass: inside, products are quadratic.
CHUNK = 64


def running_sum(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S Kv"],
    *,
    causal: bool,
) -> Float[Tensor, "B H T Kv"]:
    """Return Q K^T V (causal: over keys up to each query) in O(T), multiplying K^T V first.

    The causal form is the recurrence above in steps of `CHUNK` tokens. With fewer queries than keys
    the queries are the last ones. Katharopoulos et al. 2020, section 3.3.
    """
    if not causal:
        return q @ (k.transpose(-1, -2) @ v)
    past = k.shape[2] - q.shape[2]
    before, keys_here = torch.split(k, [past, q.shape[2]], dim=2)
    values_before, values_here = torch.split(v, [past, q.shape[2]], dim=2)
    total = before.transpose(-1, -2) @ values_before  # B H K Kv
    parts = []
    # split, not slices: the gradient of a slice is as long as the whole input, one for each
    for queries, keys, values in zip(
        *(torch.split(x, CHUNK, dim=2) for x in (q, keys_here, values_here)), strict=True
    ):
        inside = (queries @ keys.transpose(-1, -2)).tril()
        parts.append(queries @ total + inside @ values)
        total = total + keys.transpose(-1, -2) @ values
    return torch.cat(parts, dim=2)


def _is_linear(mask: Mask, bias: Tensor | None) -> bool:
    """Whether mask and bias depend on keys and order only; otherwise every score is needed."""
    by_pair = (bias, mask.window, mask.past, mask.documents)
    return all(rule is None for rule in by_pair)


def _without_padding(k: Tensor, mask: Mask) -> Tensor:
    """Set the keys of padding to 0, so that they add nothing to any sum."""
    return k if mask.keys is None else k * mask.keys[:, None, :, None].to(k.dtype)


class LinearDot(Kernel):
    """(Q K^T / sqrt(K)) V: the scores are the weights, without a softmax.

    The lectures' "linear attention", which "does not work too well": weights may be negative, do
    not sum to 1, and grow with the number of keys. Masked pairs have weight 0; a bias adds to the
    scores of the others.
    """

    normalised: ClassVar[bool] = False

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask, bias: Bias = None) -> Contexts:
        k, v = spread(k, q.shape[1]), spread(v, q.shape[1])
        if not _is_linear(mask, bias):
            return (self.weights(q, k, mask, bias) @ v).to(v.dtype)
        # sums over all tokens are kept in float32, whatever autocast says of single products
        exact = torch.promote_types(q.dtype, torch.float32)
        with torch.autocast(q.device.type, enabled=False):
            queries = q.to(exact) / math.sqrt(q.shape[-1])
            keys = _without_padding(k.to(exact), mask)
            return running_sum(queries, keys, v.to(exact), causal=mask.causal).to(v.dtype)

    def weights(self, q: Queries, k: Keys, mask: Mask, bias: Bias = None) -> Weights:
        k = spread(k, q.shape[1])
        exact = torch.promote_types(q.dtype, torch.float32)
        scores = q.to(exact) @ k.to(exact).transpose(-1, -2) / math.sqrt(q.shape[-1])
        scores = scores if bias is None else scores + bias
        return scores.masked_fill(~mask.dense(q.shape[2], k.shape[2], q.device), 0.0)


def elu_plus_one(x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """elu(x) + 1 = exp(x) below 0, x + 1 above: positive, and exact where it is small."""
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


class LinearElu(Kernel):
    """phi(Q) (phi(K)^T V) / (phi(Q) sum phi(K)), phi = elu + 1: weights are positive, sum to 1.

    The softmax's exp(q k) is replaced by phi(q) phi(k), which can be summed over keys first.
    Katharopoulos et al. 2020, equations 5 and 7. A bias b multiplies a pair's weight by exp(b), as
    it would inside a softmax.
    """

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask, bias: Bias = None) -> Contexts:
        k, v = spread(k, q.shape[1]), spread(v, q.shape[1])
        exact = torch.promote_types(q.dtype, torch.float32)
        if not _is_linear(mask, bias):
            return (self.weights(q, k, mask, bias).to(exact) @ v.to(exact)).to(v.dtype)
        with torch.autocast(q.device.type, enabled=False):
            queries = elu_plus_one(q.to(exact))
            keys = _without_padding(elu_plus_one(k.to(exact)), mask)
            # one more value, always 1: its sum is the normaliser
            values = torch.cat((v, torch.ones_like(v[..., :1])), dim=-1).to(exact)
            sums = running_sum(queries, keys, values, causal=mask.causal)
            return (sums[..., :-1] / _never_zero(sums[..., -1:])).to(v.dtype)

    def weights(self, q: Queries, k: Keys, mask: Mask, bias: Bias = None) -> Weights:
        k = spread(k, q.shape[1])
        exact = torch.promote_types(q.dtype, torch.float32)
        scores = elu_plus_one(q.to(exact)) @ elu_plus_one(k.to(exact)).transpose(-1, -2)
        scores = scores if bias is None else scores * bias.exp()
        scores = scores.masked_fill(~mask.dense(q.shape[2], k.shape[2], q.device), 0.0)
        return scores / _never_zero(scores.sum(-1, keepdim=True))


def _never_zero(sums: Tensor) -> Tensor:
    """A query that may attend to nothing has sum 0 and must get 0, not 0 / 0."""
    return sums.masked_fill(sums == 0, 1.0)
