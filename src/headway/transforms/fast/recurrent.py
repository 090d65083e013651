"""Fast twin of the recurrent decoder: its past states are kept in a preallocated tensor.

The cells' fast twins are torch's own `nn.GRU` and `nn.LSTM`.
"""

from __future__ import annotations

from headway.blocks.recurrent_decoder import RecurrentDecoder
from headway.transforms.fast.cache import PreallocatedTokens


class FastRecurrentDecoder(RecurrentDecoder):
    """`RecurrentDecoder` with a preallocated history."""

    history_type = PreallocatedTokens
