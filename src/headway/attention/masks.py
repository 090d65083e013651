"""Attention masks: which query may attend to which key. True = may attend.

A mask is kept as rules (causal, window, padding) and made a boolean matrix where it is applied: in
`masked_softmax` of `attention/kernel.py`.

>>> import torch
>>> from headway.attention import Mask
>>> Mask(causal=True).dense(3, 3)[0, 0].int()  # three words: none attends to a later one
tensor([[1, 0, 0],
        [1, 1, 0],
        [1, 1, 1]], dtype=torch.int32)
>>> Mask(keys=torch.tensor([[True, True, False]])).dense(1, 3)[0, 0].int()  # the third is padding
tensor([[1, 1, 0]], dtype=torch.int32)
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import torch

from headway.attention.documents import Documents
from headway.attention.sharing import IN_ORDER, Sharing
from headway.base.shapes import Bool, Int, Tensor


@dataclass(frozen=True)
class Mask:
    """Rules that say which keys a query may attend to.

    causal: a query attends to no key after its own position. With fewer queries than keys the
        queries are the last ones, because the earlier keys come from a cache: query t of T has
        position S - T + t. (torch's `is_causal` counts from the first key instead.)
    window: a query at position p attends to positions p - window + 1 ... p; without `causal`, as
        far to the right too.
    keys: True where a key is a real token, False where it is padding; None if nothing is padded.
    past: the position of the first query of each sequence, for caches that differ in length; None
        if it is S - T for all.
    documents: a query attends only to keys of its own document (packed sequences).
    sharing: which sequences attend to the same keys, if these are fewer than the sequences.
    made: what kernels have made of these rules, for the next layers of the same pass.
    """

    causal: bool = False
    window: int | None = None
    keys: Bool[Tensor, "B S"] | None = None
    past: Int[Tensor, " B"] | None = None
    documents: Documents | None = None
    sharing: Sharing = IN_ORDER
    made: dict[Hashable, Any] = field(init=False, default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise ValueError(f"{self.window=} must be at least 1: a token attends to itself")
        if self.past is not None and not self.causal:
            raise ValueError("past is the position of a decoder's queries and needs causal=True")
        if self.documents is not None and (self.past is not None or self.keys is not None):
            raise ValueError("packed sequences have neither padding (keys) nor a cache (past)")

    def dense(
        self, num_queries: int, num_keys: int, device: torch.device | None = None
    ) -> Bool[Tensor, "#B 1 T S"]:
        """Return the boolean matrix. B is 1 if all sequences share it."""
        first: Tensor | int = num_keys - num_queries
        if self.past is not None:
            device, first = self.past.device, self.past[:, None, None]
        else:
            if self.keys is not None:
                device = self.keys.device
            if self.documents is not None:
                device = self.documents.numbers.device
        query = first + torch.arange(num_queries, device=device)[None, :, None]  # -> #B T 1
        key = torch.arange(num_keys, device=device)
        allowed = torch.ones(1, num_queries, num_keys, dtype=torch.bool, device=device)
        if self.causal:
            allowed = allowed & (key <= query)
        if self.window is not None:
            allowed = allowed & ((key - query).abs() < self.window)
        if self.keys is not None:
            allowed = allowed & self.keys[:, None, :]
        if self.documents is not None:
            number = self.documents.numbers
            allowed = allowed & (number[:, :, None] == number[:, None, :])
        return allowed[:, None]  # #B T S -> #B 1 T S
