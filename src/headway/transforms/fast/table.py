"""The table of fast twins: subclasses that compute the numbers of a plain class in less time or
memory.

`attention/`, `blocks/` and `models/` hold the equations in plain PyTorch. `FAST` maps each class
that has a faster implementation to it; `fast(model)` replaces the classes of a finished model. A
twin shares the parameters, their names and the signature of its plain class, and tests hold it to
the plain class in float64: outputs, gradients, memory, determinism.
"""

from typing import TypeVar

from torch import nn

from headway.attention import (
    Additive,
    Bilinear,
    CappedDot,
    Dot,
    GroupedQueryAttention,
    MultiHeadAttention,
    ScaledDot,
    SlidingWindow,
)
from headway.blocks import (
    GRU,
    LSTM,
    Decoder,
    DecoderOnly,
    DecoderOnlyBlock,
    Dropout,
    Encoder,
    FeedForward,
    GatedFeedForward,
    PreNorm,
    RecurrentDecoder,
)
from headway.transforms.fast.additive import FastAdditive
from headway.transforms.fast.block import FastDecoderOnlyBlock
from headway.transforms.fast.dot import FastBilinear, FastCappedDot, FastDot, FusedDot
from headway.transforms.fast.dropout import FastDropout
from headway.transforms.fast.feedforward import FastFeedForward, FastGatedFeedForward
from headway.transforms.fast.linear import FastLinear, FastLoRALinear
from headway.transforms.fast.memory import contiguous_parameters
from headway.transforms.fast.multihead import FastGroupedQueryAttention, FastMultiHeadAttention
from headway.transforms.fast.quantized import (
    FastBFloat16Linear,
    FastInt4Linear,
    FastInt8Linear,
    FastLoRABFloat16Linear,
    FastLoRAInt4Linear,
    FastLoRAInt8Linear,
    release_codes,
)
from headway.transforms.fast.recurrent import FastGRU, FastLSTM, FastRecurrentDecoder
from headway.transforms.fast.residual import FastDecoder, FastDecoderOnly, FastEncoder, FastPreNorm
from headway.transforms.fast.window import FastSlidingWindow
from headway.transforms.lora import LoRABFloat16Linear, LoRAInt4Linear, LoRAInt8Linear, LoRALinear
from headway.transforms.quantize.layers import BFloat16Linear, Int4Linear, Int8Linear
from headway.transforms.twins import add_twins

M = TypeVar("M", bound=nn.Module)

FAST: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: FastLinear,
    Int8Linear: FastInt8Linear,
    Int4Linear: FastInt4Linear,
    BFloat16Linear: FastBFloat16Linear,
    LoRALinear: FastLoRALinear,
    LoRAInt8Linear: FastLoRAInt8Linear,
    LoRAInt4Linear: FastLoRAInt4Linear,
    LoRABFloat16Linear: FastLoRABFloat16Linear,
    Dropout: FastDropout,
    FeedForward: FastFeedForward,
    GatedFeedForward: FastGatedFeedForward,
    MultiHeadAttention: FastMultiHeadAttention,
    GroupedQueryAttention: FastGroupedQueryAttention,
    ScaledDot: FusedDot,
    Dot: FastDot,
    Bilinear: FastBilinear,
    CappedDot: FastCappedDot,
    Additive: FastAdditive,
    SlidingWindow: FastSlidingWindow,
    GRU: FastGRU,
    LSTM: FastLSTM,
    RecurrentDecoder: FastRecurrentDecoder,
    Decoder: FastDecoder,
    DecoderOnly: FastDecoderOnly,
    DecoderOnlyBlock: FastDecoderOnlyBlock,
    Encoder: FastEncoder,
    PreNorm: FastPreNorm,
}
"""Plain class -> its fast twin."""

add_twins(FAST)


def fast(model: M) -> M:
    """Replace every plain class of the model that has a fast twin by it, in place.

    Only modules of exactly a class of `FAST` change; a subclass of yours keeps its own code. To
    replace the model itself, use the returned one.
    """
    for module in model.modules():
        twin = FAST.get(type(module))
        if twin is not None:
            module.__class__ = twin
    return model


def prepare_for_inference(model: M) -> M:
    """Apply `fast`, and arrange the weights on a CPU for products without gradients.

    The parameters move into one block of memory (`contiguous_parameters`), int8 and int4 codes into
    the layout of their product (`release_codes`).
    """
    model = fast(model)
    contiguous_parameters(model)
    release_codes(model)
    return model


def is_fast(model: nn.Module) -> bool:
    """Whether `fast` was applied to the model."""
    twins = set(FAST.values())
    return any(type(module) in twins for module in model.modules())
