"""The blocks of a model's stacks, which several transforms change."""

from torch import nn

from headway.blocks.decoder import Decoder
from headway.blocks.decoder_only import DecoderOnly
from headway.blocks.encoder import Encoder


def stacked_blocks(model: nn.Module) -> list[nn.Module]:
    """Return the blocks of every encoder and decoder stack; none for a recurrent network."""
    stacks = [m for m in model.modules() if isinstance(m, Encoder | Decoder | DecoderOnly)]
    return [block for stack in stacks for block in stack.blocks]
