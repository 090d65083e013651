"""The stacks of Transformer blocks of a model."""

from torch import nn

from headway.blocks import Decoder, DecoderOnly, Encoder

Stack = Encoder | Decoder | DecoderOnly


def stacks_of(model: nn.Module) -> dict[str, Stack]:
    """Return the stacks of blocks by name ("encoder", "decoder"); empty for a recurrent model."""
    stacks: dict[str, Stack] = {}
    for module in model.modules():
        if isinstance(module, Encoder):
            stacks["encoder"] = module
        elif isinstance(module, Decoder | DecoderOnly):
            stacks["decoder"] = module
    return stacks
