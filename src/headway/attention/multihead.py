"""Multi-head attention: concat(head_1 ... head_H) W_O, head_h = kernel(x W_Q^h, s W_K^h, s W_V^h).

H attentions run side by side, each on its own projections of the queries' vectors x and the
source's vectors s, so that each head can attend to something else. In self-attention s is x; in
cross-attention s is another sequence: the encoder's output, image patches, sound.

>>> import torch
>>> from headway.attention import Mask, MultiHeadAttention
>>> attention = MultiHeadAttention(model_dim=4, num_heads=2, bias=False)
>>> for projection in (attention.query, attention.key, attention.value, attention.output):
...     _ = projection.weight.data.copy_(torch.eye(4))
>>> words = torch.tensor([[[1.0, 0, 0, 0], [0, 1.0, 0, 0], [1.0, 1.0, 0, 0]]])  # B T D = 1 3 4
>>> attention(words, words, Mask())[0].detach().round(decimals=2)  # head 1 sees 2 of the features
tensor([[0.8000, 0.6000, 0.0000, 0.0000],
        [0.6000, 0.8000, 0.0000, 0.0000],
        [0.7500, 0.7500, 0.0000, 0.0000]])
"""

from torch import nn

from headway.attention.cache import KeyValues, LayerCache
from headway.attention.kernel import Kernel, ScaledDot
from headway.attention.masks import Mask
from headway.attention.relative import AttentionPositions, positions_after
from headway.attention.step import Step
from headway.base.shapes import Float, Tensor


class MultiHeadAttention(nn.Module):
    """Multi-head attention around any kernel. Vaswani et al. 2017, section 3.2.2.

    The weights of the H heads are stored in one matrix each: head h of the queries is columns
    h K ... (h + 1) K of `query`.

    source_dim: width E of the source, if not D. value_dim: width of the values of one head, K
    unless set. positions: rotary, ALiBi or relative positions, for self-attention only.
    """

    def __init__(
        self,
        model_dim: int,
        num_heads: int,
        *,
        kernel: Kernel | None = None,
        source_dim: int | None = None,
        head_dim: int | None = None,
        value_dim: int | None = None,
        bias: bool = True,
        positions: AttentionPositions | None = None,
    ) -> None:
        super().__init__()
        if num_heads < 1:
            raise ValueError(f"{num_heads=} must be at least 1")
        if head_dim is None:
            if model_dim % num_heads:
                raise ValueError(f"{model_dim=} must be a multiple of {num_heads=}")
            head_dim = model_dim // num_heads
        source_dim = model_dim if source_dim is None else source_dim
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.value_dim = head_dim if value_dim is None else value_dim
        self.query = nn.Linear(model_dim, num_heads * head_dim, bias=bias)
        self.key = nn.Linear(source_dim, num_heads * head_dim, bias=bias)
        self.value = nn.Linear(source_dim, num_heads * self.value_dim, bias=bias)
        self.output = nn.Linear(num_heads * self.value_dim, model_dim, bias=bias)
        self.kernel = ScaledDot() if kernel is None else kernel
        self.positions = positions

    def forward(
        self,
        x: Float[Tensor, "N T D"],
        source: Float[Tensor, "N S E"] | KeyValues,
        mask: Mask,
        step: Step | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "N T D"]:
        """Attend from x to the source.

        source: vectors, or their keys and values if they were computed before (`keys_values`), as a
        decoder does once for each sentence. step: where the tokens of self-attention are; whole
        sequences if None. cache: keys and values of the tokens before x, to which those of x are
        appended.
        """
        if self.positions is not None:
            whole = Step.whole(x.shape[1], mask, x.device) if step is None else step
            step = whole.placed(self.positions, x.dtype)
        k, v = source if isinstance(source, KeyValues) else self.keys_values(source, step)
        if cache is not None and step is not None:
            k, v = cache.append(step, k, v)
        queries = mask.sharing.gather(self.query(x), k.shape[0])
        q = self.rotated(self.split_queries(queries), step)
        bias = None if step is None or self.positions is None else step.bias
        context = self.kernel(q, k, v, mask, bias)
        merged = context.transpose(1, 2).flatten(2)  # M H WT Kv -> M WT HKv
        return self.output(mask.sharing.scatter(merged, x.shape[1]))

    def keys_values(self, source: Float[Tensor, "M S E"], step: Step | None = None) -> KeyValues:
        """Project the source, split it into heads, and apply the positions of its keys."""
        return self.split_keys_values(self.key(source), self.value(source), step)

    def split_keys_values(
        self, keys: Float[Tensor, "M S GK"], values: Float[Tensor, "M S GKv"], step: Step | None
    ) -> KeyValues:
        """Split projected keys and values into heads, and apply the positions of the keys."""
        k = self.rotated(self.split_keys(keys), step)
        return KeyValues(k, split_heads(values, self.value_dim))

    def rotated(self, x: Float[Tensor, "N H T K"], step: Step | None) -> Float[Tensor, "N H T K"]:
        """Apply the positions of the step to queries or keys."""
        if self.positions is None:
            return x
        if step is None:
            return self.positions.rotate(x, positions_after((0,), x.shape[2], x.device))
        return self.positions.rotate(x, step.positions, step.cos_sin)

    def split_queries(self, queries: Float[Tensor, "N T HK"]) -> Float[Tensor, "N H T K"]:
        """Split projected queries into heads."""
        return split_heads(queries, self.head_dim)

    def split_keys(self, keys: Float[Tensor, "M S GK"]) -> Float[Tensor, "M G S K"]:
        """Split projected keys into heads."""
        return split_heads(keys, self.head_dim)


def split_heads(x: Float[Tensor, "B T HK"], head_dim: int) -> Float[Tensor, "B H T K"]:
    """Split the last axis into heads of width `head_dim`, and move the heads forward."""
    return x.view(*x.shape[:2], -1, head_dim).transpose(1, 2)
