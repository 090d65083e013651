"""One step: what all layers of a pass through a stack share, computed once and passed to them.

A pass computes T tokens: all of a sequence in training, a prompt, or one new token after those in a
cache. Where the tokens are, which keys they may attend to, the angles by which rotary positions
rotate queries and keys, the biases of ALiBi and the place of new keys in a cache are the same in
every layer.

>>> import torch
>>> from headway.attention import KeyValueCache, Mask, Rotary, Step
>>> cpu = torch.device("cpu")
>>> whole = Step.whole(3, Mask(causal=True), cpu)  # all three words of a text
>>> whole.positions
tensor([[0, 1, 2]])
>>> cache = KeyValueCache(num_rows=2, num_layers=1)
>>> cache.lengths = [3, 1]  # two texts, of three words and of one
>>> new = cache.step(1, cpu)  # one more word of each
>>> new.positions
tensor([[3],
        [1]])
>>> new.mask.dense(1, new.num_keys)[:, 0, 0].int()  # the second has no words at 2 and 3
tensor([[1, 1, 1, 1],
        [1, 1, 0, 0]], dtype=torch.int32)
>>> [tuple(x.shape) for x in new.placed(Rotary(head_dim=4), torch.float32).cos_sin]  # N 1 T K/2
[(2, 1, 1, 2), (2, 1, 1, 2)]
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from headway.attention.masks import Mask
from headway.attention.relative import AttentionPositions, CosSin, positions_after
from headway.base.shapes import Float, Int, Tensor


@dataclass(frozen=True, eq=False)
class Step:
    """A pass over T tokens of N sequences, which attend to S keys.

    positions: of the tokens in their sequences; one row if all sequences agree. mask: which keys
    self-attention may attend to. cos_sin, bias: what `scheme` computes from the positions.

    With a cache, the keys of row n are appended at positions[n]. start: the position of the first
    token, if it is the same in all rows; otherwise rows, the index of each row, is set.
    """

    positions: Int[Tensor, "#N T"]
    mask: Mask
    num_keys: int
    start: int | None = None
    rows: Int[Tensor, "N 1"] | None = None
    scheme: AttentionPositions | None = None
    cos_sin: CosSin | None = None
    bias: Float[Tensor, "#N H T S"] | None = None

    @classmethod
    def whole(cls, num_tokens: int, mask: Mask, device: torch.device) -> Step:
        """Return the step of whole sequences of T tokens: self-attention without a cache."""
        return cls(positions_after((0,), num_tokens, device), mask, num_tokens)

    def placed(self, scheme: AttentionPositions | None, dtype: torch.dtype) -> Step:
        """Return the step with the angles and biases of a position scheme, if it lacks them.

        dtype: of the queries and keys. Packed documents are rotated by the positions within each.
        """
        if scheme is self.scheme:
            return self
        if scheme is None:
            return replace(self, scheme=None, cos_sin=None, bias=None)
        documents = self.mask.documents
        within = self.positions if documents is None else documents.positions
        return replace(
            self,
            scheme=scheme,
            cos_sin=scheme.cos_sin(within, dtype),
            bias=scheme.bias(self.positions, self.num_keys),
        )
