"""Which stacks of blocks a model has."""

from __future__ import annotations

from torch import nn

from headway.blocks import Decoder, DecoderOnly, Encoder

Stack = Encoder | Decoder | DecoderOnly


def stacks_of(model: nn.Module) -> dict[str, Stack]:
    """ "encoder", "decoder" -> the model's stack of blocks; none of a recurrent one."""
    found: dict[str, Stack] = {}
    for module in model.modules():
        if isinstance(module, Encoder):
            found["encoder"] = module
        elif isinstance(module, Decoder | DecoderOnly):
            found["decoder"] = module
    return found
