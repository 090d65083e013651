"""Attention: soft look-up. Scores, softmax, weighted sum."""

from headway.attention.additive import Additive
from headway.attention.bilinear import Bilinear
from headway.attention.cache import KeyValueCache, KeyValues, LayerCache
from headway.attention.capped import CappedDot
from headway.attention.disentangled import DisentangledAttention, DistanceVectors
from headway.attention.documents import Documents
from headway.attention.dot import Dot
from headway.attention.grid_positions import RelativeGrid, RotaryGrid
from headway.attention.grouped import GroupedQueryAttention
from headway.attention.kernel import Kernel, ScaledDot, SoftmaxKernel
from headway.attention.linear import LinearDot, LinearElu
from headway.attention.masks import Mask
from headway.attention.multihead import MultiHeadAttention
from headway.attention.record import (
    AttentionMaps,
    KernelArguments,
    KernelInputs,
    around_kernels,
    at_attention,
    attention_layers,
    record_attention,
    record_inputs,
)
from headway.attention.relative import (
    Alibi,
    AttentionPositions,
    Past,
    RelativeBuckets,
    Rotary,
    positions_after,
)
from headway.attention.rotary_parts import AdjacentRotary, PartialRotary
from headway.attention.rotary_scaling import RotaryScaling
from headway.attention.sharing import Sharing
from headway.attention.step import Step
from headway.attention.window import SlidingWindow

__all__ = [
    "Additive",
    "AdjacentRotary",
    "Alibi",
    "AttentionMaps",
    "AttentionPositions",
    "Bilinear",
    "CappedDot",
    "DisentangledAttention",
    "DistanceVectors",
    "Documents",
    "Dot",
    "GroupedQueryAttention",
    "Kernel",
    "KernelArguments",
    "KernelInputs",
    "KeyValueCache",
    "KeyValues",
    "LayerCache",
    "LinearDot",
    "LinearElu",
    "Mask",
    "MultiHeadAttention",
    "PartialRotary",
    "Past",
    "RelativeBuckets",
    "RelativeGrid",
    "Rotary",
    "RotaryGrid",
    "RotaryScaling",
    "ScaledDot",
    "Sharing",
    "SlidingWindow",
    "SoftmaxKernel",
    "Step",
    "around_kernels",
    "at_attention",
    "attention_layers",
    "positions_after",
    "record_attention",
    "record_inputs",
]
