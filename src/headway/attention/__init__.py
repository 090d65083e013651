"""Attention: soft look-up. Scores, softmax, weighted sum (lectures 1.1-1.6)."""

from headway.attention.cache import KeyValueCache
from headway.attention.fused import FusedDot
from headway.attention.kernel import Kernel, ScaledDot
from headway.attention.masks import Mask
from headway.attention.multihead import MultiHeadAttention
from headway.attention.record import AttentionMaps, record_attention

__all__ = [
    "AttentionMaps",
    "FusedDot",
    "Kernel",
    "KeyValueCache",
    "Mask",
    "MultiHeadAttention",
    "ScaledDot",
    "record_attention",
]
