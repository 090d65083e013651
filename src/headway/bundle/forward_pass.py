"""The forward pass of a model for one input, whatever its task; and its attention weights."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from headway.attention import record_attention
from headway.base.errors import UsageError
from headway.base.shapes import Float, Tensor
from headway.base.sharing import WHOLE, Share
from headway.data.padding import collate_encoder_batch, shortest_first
from headway.data.word_targets import WordSequence
from headway.text import EncoderTokenizer, positions_of_words

WORD_ROWS = 32  # sequences per forward pass


@dataclass(frozen=True, kw_only=True)
class ForwardPass:
    """The forward pass for one input, which can be run any number of times.

    run: computes the output for a batch of one: logits, or the vectors of a model without an output
    layer. tokens: name of a side -> the texts of its tokens; the input side is the first, the
    generated side the last. ids: the token ids of the sides that are text. words: for these sides,
    the positions of the tokens of each word. axes: name of an attention map ("encoder", "decoder",
    "cross") -> the sides of its queries and its keys; other maps are not shown. embeddings: side ->
    name of the module whose output enters the first block.
    """

    model: nn.Module
    run: Callable[[], Tensor]
    tokens: Mapping[str, Sequence[str]]
    axes: Mapping[str, tuple[str, str]]
    embeddings: Mapping[str, str]
    ids: Mapping[str, Sequence[int]] = field(default_factory=dict)
    words: Mapping[str, Sequence[Sequence[int]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Attention:
    """Attention weights for one input. maps: layer name -> Float "H T S", rows sum to 1.

    source and target: the texts of the tokens along the axes. Row t of a decoder map is the query
    that predicted target token t; rows of encoder maps are source tokens.
    """

    source: list[str]
    target: list[str]
    maps: dict[str, Float[Tensor, "H T S"]]


def part_of(layer: str) -> str:
    """Return the kind of attention map of a layer: "encoder", "decoder" or "cross"."""
    if layer.rpartition(".")[2] == "cross":
        return "cross"
    return "decoder" if "decoder" in layer.split(".") else "encoder"


def encoder_pass(
    model: nn.Module,
    tokenizer: EncoderTokenizer,
    ids: Sequence[int],
    types: Sequence[int],
    *,
    run: Callable[..., Tensor] | None = None,
    within: str = "",
) -> ForwardPass:
    """Return the forward pass of an encoder for ids with special tokens.

    run: the method of the model to call; if unset, the model itself. within: name of the encoder in
    the model, with a dot after it.
    """
    device = str(next(model.parameters()).device)
    batch = collate_encoder_batch([ids], [types], tokenizer.special_tokens.pad).to(device)
    call: Callable[..., Tensor] = model if run is None else run
    return ForwardPass(
        model=model,
        run=lambda: call(batch.tokens, batch.keys, batch.types),
        tokens={"text": tokenizer.token_strings(ids)},
        axes={"encoder": ("text", "text")},
        embeddings={"text": f"{within}embedding"},
        ids={"text": list(ids)},
        words={"text": positions_of_words(tokenizer, ids)},
    )


@torch.inference_mode()
def word_outputs(
    model: nn.Module,
    rows: Sequence[WordSequence],
    pad: int,
    share: Share = WHOLE,
) -> list[Float[Tensor, "W ..."]]:
    """Return the model's outputs at the first token of each word: one CPU tensor per sequence.

    share: of an evaluation.
    """
    device = str(next(model.parameters()).device)

    def compute(chosen: Sequence[int]) -> list[Tensor]:
        batch = collate_encoder_batch([rows[i].ids for i in chosen], None, pad).to(device)
        outputs = model(batch.tokens, batch.keys).float()
        return [outputs[row, list(rows[i].firsts)].cpu() for row, i in enumerate(chosen)]

    batches = list(shortest_first([row.ids for row in rows], WORD_ROWS))
    outputs: list[Tensor] = [torch.empty(0)] * len(rows)
    for chosen, of_batch in zip(batches, share.each(batches, compute, len), strict=True):
        for i, output in zip(chosen, of_batch, strict=True):
            outputs[i] = output
    return outputs


@torch.inference_mode()
def attention_of(
    reading: ForwardPass, layers: Sequence[str] = (), heads: Sequence[int] = ()
) -> Attention:
    """Return the full attention weights, whichever attention kernels the model uses.

    layers: prefixes of layer names. heads: indices of heads, in the order of the result. If empty,
    all. Raises UsageError for a layer or a head that does not exist.
    """
    with record_attention(reading.model, layers) as maps:
        reading.run()
    sides = [list(tokens) for tokens in reading.tokens.values()]
    # A layer that is called once per step (of an RNN decoder) returns its rows one by one.
    weights_of = {name: torch.cat(calls, dim=2)[0] for name, calls in maps.items()}
    return Attention(
        sides[0],
        sides[-1],
        {name: _select_heads(weights, heads, name) for name, weights in weights_of.items()},
    )


class Attending(ABC):
    """A bundle of a model with attention."""

    @property
    @abstractmethod
    def reading(self) -> Callable[..., ForwardPass]:
        """Prepare a forward pass over the inputs of the bundle, for inspection."""

    def attention(
        self,
        *inputs: object,
        layers: Sequence[str] = (),
        heads: Sequence[int] = (),
        **options: object,
    ) -> Attention:
        """Return the attention weights of a forward pass over inputs, as `reading` takes them.

        layers, heads: those to return (`attention_of`); if empty, all. Row t of a map of a decoder
        is the query that predicts token t. Raises what `reading` raises.
        """
        return attention_of(self.reading(*inputs, **options), layers, heads)


def _select_heads(
    weights: Float[Tensor, "H T S"], heads: Sequence[int], layer: str
) -> Float[Tensor, "_ T S"]:
    for head in heads:
        if not 0 <= head < len(weights):
            raise UsageError(f"{layer} has no head {head}; its heads are 0 to {len(weights) - 1}")
    return weights[list(heads)] if heads else weights
