"""Packed sequences: several documents in one row, number n(t) of the document at each position.

Training on short documents wastes time on padding. Packing puts them end to end into rows of one
length; the mask then allows query t to attend to key s only if n(t) = n(s), so that nothing leaks
from one document into the next.

>>> from headway.attention import Documents, Mask
>>> packed = Documents([[2, 1]])  # one row: a document of two words, then one of one word
>>> packed.positions
tensor([[0, 1, 0]])
>>> Mask(causal=True, documents=packed).dense(3, 3)[0, 0].int()
tensor([[1, 0, 0],
        [1, 1, 0],
        [0, 0, 1]], dtype=torch.int32)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from headway.base.shapes import Int, Tensor
from headway.base.transfers import upload


class Documents:
    """Which document each position of a batch of packed sequences belongs to.

    lengths: for each sequence the lengths of its documents in order; their sum is T, the same for
    all sequences. ValueError otherwise, and for an empty document.

    positions: position of each token within its document. numbers: number of its document, unique
    in the batch. longest: length of the longest document.
    """

    def __init__(
        self, lengths: Sequence[Sequence[int]], device: torch.device | str = "cpu"
    ) -> None:
        totals = {sum(row) for row in lengths}
        if len(totals) != 1 or any(length < 1 for row in lengths for length in row):
            raise ValueError("every row must have the same length, and no document may be empty")
        shape = (len(lengths), totals.pop())
        self.lengths = torch.tensor([length for row in lengths for length in row])
        starts = self.lengths.cumsum(0) - self.lengths
        within = torch.arange(int(self.lengths.sum())) - starts.repeat_interleave(self.lengths)
        number = torch.arange(len(self.lengths)).repeat_interleave(self.lengths)
        self.positions: Int[Tensor, "B T"] = upload(within.view(shape), device)
        self.numbers: Int[Tensor, "B T"] = upload(number.view(shape), device)
        self.longest = int(self.lengths.max())
