"""One input as a model reads it, whatever its kind; and the attention while it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from headway.attention import record_attention
from headway.data.encoder_batches import collate_framed, shortest_first
from headway.data.word_targets import WordRow
from headway.errors import UsageError
from headway.shapes import Float, Tensor
from headway.text import MarkedTokenizer, word_places

WORD_ROWS = 32  # rows of words read at once


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One input, to be read as often as wanted.

    run: the model's answer of one row: logits, or the vectors of a model without an output.
    pieces: name of a side -> what its tokens stand for; the side that is read comes first, the one
    that is written last. ids: of the sides that are text. words: the places of each word's pieces.
    axes: name of a map ("encoder", "decoder", "cross") -> the sides of its queries and its keys.
    embeddings: side -> name of the module that makes the vectors which enter the first block.
    """

    model: nn.Module
    run: Callable[[], Tensor]
    pieces: Mapping[str, Sequence[str]]
    axes: Mapping[str, tuple[str, str]]
    embeddings: Mapping[str, str]
    ids: Mapping[str, Sequence[int]] = field(default_factory=dict)
    words: Mapping[str, Sequence[Sequence[int]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Attention:
    """Attention weights of one input. maps: layer name -> Float "H T S", rows sum to 1.

    source and target: the pieces along the axes. Row t of a decoder map is the query that predicted
    target piece t; encoder rows are the source pieces.
    """

    source: list[str]
    target: list[str]
    maps: dict[str, Float[Tensor, "H T S"]]


def part_of(layer: str) -> str:
    """Name of the map that an attention layer belongs to: "encoder", "decoder" or "cross"."""
    if layer.rpartition(".")[2] == "cross":
        return "cross"
    return "decoder" if "decoder" in layer.split(".") else "encoder"


def framed_reading(
    model: nn.Module,
    tokenizer: MarkedTokenizer,
    ids: Sequence[int],
    types: Sequence[int],
    *,
    run: Callable[..., Tensor] | None = None,
    within: str = "",
) -> Reading:
    """What an encoder reads between its marks. run: what is asked of the model, itself unless
    given; within: name of the encoder in the model, with a dot behind it."""
    device = str(next(model.parameters()).device)
    batch = collate_framed([ids], [types], tokenizer.marks.pad).to(device)
    ask: Callable[..., Tensor] = model if run is None else run
    return Reading(
        model=model,
        run=lambda: ask(batch.tokens, batch.keys, batch.types),
        pieces={"text": tokenizer.pieces(ids)},
        axes={"encoder": ("text", "text")},
        embeddings={"text": f"{within}embedding"},
        ids={"text": list(ids)},
        words={"text": word_places(tokenizer, ids)},
    )


@torch.inference_mode()
def word_outputs(
    model: nn.Module,
    rows: Sequence[WordRow],
    pad: int,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Float[Tensor, "W ..."]]:
    """The model's outputs at the first piece of each word, a tensor for each row, on the CPU.

    progress: called before each batch with the number of rows processed so far.
    """
    device = str(next(model.parameters()).device)
    outputs: list[Tensor] = [torch.empty(0)] * len(rows)
    done = 0
    for chosen in shortest_first([row.ids for row in rows], WORD_ROWS):
        progress(done)
        batch = collate_framed([rows[i].ids for i in chosen], None, pad).to(device)
        of_batch = model(batch.tokens, batch.keys).float()
        for row, i in enumerate(chosen):
            outputs[i] = of_batch[row, list(rows[i].firsts)].cpu()
        done += len(chosen)
    return outputs


@torch.inference_mode()
def attention_of(
    reading: Reading, layers: Sequence[str] = (), heads: Sequence[int] = ()
) -> Attention:
    """Full attention weights, whichever kernels run: those of layers whose names begin as one of
    `layers`, and of these heads, in the order given; none given: of all.

    UsageError for a layer or a head that is not there.
    """
    with record_attention(reading.model, layers) as maps:
        reading.run()
    sides = [list(pieces) for pieces in reading.pieces.values()]
    # A layer that is called once a step (an RNN decoder's) gives its rows one by one.
    found = {name: torch.cat(calls, dim=2)[0] for name, calls in maps.items()}
    return Attention(
        sides[0], sides[-1], {name: _only(weights, heads, name) for name, weights in found.items()}
    )


def _only(
    weights: Float[Tensor, "H T S"], heads: Sequence[int], layer: str
) -> Float[Tensor, "_ T S"]:
    for head in heads:
        if not 0 <= head < len(weights):
            raise UsageError(f"{layer} has no head {head}: they are 0 to {len(weights) - 1}")
    return weights[list(heads)] if heads else weights
