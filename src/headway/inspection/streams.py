"""Which stacks of blocks a model has, and how their vectors become logits of tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from headway.blocks import Decoder, DecoderOnly, Encoder
from headway.errors import UsageError
from headway.models import (
    GPT,
    Bert,
    Captioner,
    Translator,
)
from headway.shapes import Float, Tensor

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


@dataclass(frozen=True)
class Speaker:
    """A stack whose vectors are said as words: logits(h), of vectors before the stack's last norm,
    are those of the model's own output when h is what leaves the last block."""

    part: str
    stack: Stack
    logits: Callable[[Float[Tensor, "B T D"]], Float[Tensor, "B T V"]]


def speaker_of(model: nn.Module) -> Speaker:
    """How the model speaks. UsageError for one that has no words to say, or no blocks."""
    stacks = stacks_of(model)
    if isinstance(model, GPT | Translator | Captioner) and "decoder" in stacks:
        stack, output = stacks["decoder"], model.output
        return Speaker("decoder", stack, lambda hidden: output(stack.norm(hidden)))
    if isinstance(model, Bert) and model.masked_words is not None:
        own, words = stacks["encoder"], model.words
        return Speaker("encoder", own, lambda hidden: words(own.norm(hidden)))
    raise UsageError(
        "this model's layers say no words",
        hint="a Transformer that writes (gpt, translator, captioner), or one that guesses hidden "
        "words",
    )
