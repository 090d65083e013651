"""Batch invariance: the logits of a sequence have the same bits in any batch, on a CPU.

Four things make them differ in the last bits: the library that computes a product, and its way,
depend on the number of rows; a sum over keys depends on the longest sequence; exp and tanh round
differently in the processor's vector instructions and in what is left over behind the last full
vector; a prompt is read together with others. The transform fixes the first two and refuses widths
with leftovers; whoever decodes must read prompts alone, and decode at least two rows at a time.
"""

from typing import Any, TypeVar

from torch import nn

from headway.attention import MultiHeadAttention
from headway.base.errors import UsageError
from headway.blocks import Decoder, DecoderOnly
from headway.transforms.fast.cache import AlignedCache
from headway.transforms.fast.dot import FusedDot
from headway.transforms.fast.linear import FastLinear, available

M = TypeVar("M", bound=nn.Module)
VECTOR = 64
"""A multiple of the numbers in a vector of any processor, times a number of threads."""


def make_batch_invariant(model: M) -> M:
    """Let a fast model compute batch-invariant logits, in place; lone rows take longer.

    UsageError for a model that cannot: on a GPU, quantised, or with other attention than
    scaled-dot-product.
    """
    problem = _problem(model)
    if problem:
        raise UsageError(
            f"this model cannot have the same bits in every batch: {problem}",
            hint="leave out --exact: tokens are the same without it, up to ties",
        )
    for module in model.modules():
        if isinstance(module, FastLinear):
            module.invariant = True
        if isinstance(module, Decoder | DecoderOnly):
            module.cache_type = AlignedCache
    return model


def _problem(model: nn.Module) -> str:
    """Return why a model cannot be batch-invariant, or "" if it can."""
    if next(model.parameters()).device.type != "cpu":
        return "it is on a GPU"
    if not available():
        return "this torch has no oneDNN"
    config: Any = model.config
    if getattr(config, "options", ()):
        return f"it has {config.options[0]}"
    if config.ffn_dim % VECTOR:
        return f"ffn_dim={config.ffn_dim} is not a multiple of {VECTOR}"
    if config.positions == "rotary" and config.head_width % (VECTOR // 2):
        return f"the dimension of a head, {config.head_width}, is not a multiple of {VECTOR // 2}"
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and not isinstance(module, FastLinear):
            return f"{name} is a {type(module).__name__}, not a fast linear layer in float32"
        if isinstance(module, MultiHeadAttention) and type(module.kernel) is not FusedDot:
            return f"the attention of {name} is {type(module.kernel).__name__}"
        if isinstance(module, nn.RNNBase):
            return f"{name} is a recurrent network"
    return ""
