"""The first steps of a walkthrough: tokens or patches become embeddings with positions."""

from typing import Any

import torch
from torch import nn

from headway.blocks import (
    Added,
    Concatenated,
    Embeddings,
    ImageEmbedding,
    NoPositions,
    SegmentEmbeddings,
)
from headway.bundle import Probe
from headway.inspection.document import Step
from headway.inspection.tables import Axis, Tables, quoted, step
from headway.inspection.tracing import Trace


def input_steps(probe: Probe, trace: Trace, side: str, position: int, tables: Tables) -> list[Step]:
    """Return the steps that compute the input of the first block of the stack of this side."""
    reading = probe.reading
    module = reading.model.get_submodule(reading.embeddings[side])
    rows = Axis(reading.tokens[side], position)
    if isinstance(module, ImageEmbedding):
        return _image(trace, module, rows, tables)
    steps = [_ids(probe, side, rows, tables)]
    if isinstance(module, SegmentEmbeddings):
        steps += _words(trace, module.words, rows, tables)
        return steps + _segments(trace, module, rows, tables)
    assert isinstance(module, Embeddings)
    return steps + _words(trace, module, rows, tables)


def _ids(probe: Probe, side: str, rows: Axis, tables: Tables) -> Step:
    ids = torch.tensor(probe.reading.ids[side], dtype=torch.float)
    return step(
        "Tokens",
        f"{_split(len(ids))} The following steps show the token {quoted(rows.names[rows.keep])}.",
        "text → ids",
        type(probe.tokenizers[side]).encode,
        tables.table("ids", ids[:, None], rows, Axis(["id"])),
    )


def _split(tokens: int) -> str:
    """The sentence on the number of tokens."""
    if tokens == 1:
        return "The text is one token, which has an id."
    return f"The text is split into {tokens} tokens, and each has an id."


def _words(trace: Trace, module: Embeddings, rows: Axis, tables: Tables) -> list[Step]:
    positions: Any = module.positions
    words, placed = trace.input_of(positions)[0], trace.output_of(positions)[0]
    by = "" if module.scale == 1 else f", times {module.scale:.4g}"
    steps = [
        step(
            "Embedding",
            f"The id selects a row of the embedding matrix{by}.",
            "x = E[id]" if not by else "x = E[id] · √D",
            Embeddings.forward,
            tables.table("embedding", words, rows, Axis()),
        )
    ]
    normed = [] if isinstance(module.norm, nn.Identity) else [_norm(trace, module, rows, tables)]
    if isinstance(positions, NoPositions):
        return steps + normed
    dims = Axis()
    arrays = [tables.table("x", placed, rows, dims)]
    if isinstance(positions, Added):
        where = trace.output_of(positions.table)[0]
        arrays.insert(0, tables.table("position", where, rows, dims))
    table = type(positions.table).forward
    concatenated = isinstance(positions, Concatenated)
    return [
        *steps,
        step(
            "Position",
            "Attention ignores the order of tokens, so that a vector of the position is "
            + ("concatenated to the embedding." if concatenated else "added to the embedding."),
            "x = [E[id], P[t]]" if concatenated else "x = E[id] + P[t]",
            table,
            *arrays,
        ),
        *normed,
    ]


def _norm(trace: Trace, module: Embeddings, rows: Axis, tables: Tables) -> Step:
    return step(
        "Norm",
        "The sum is normalised: each token's vector gets mean 0 and variance 1.",
        "x = norm(x)",
        type(module.norm).forward,
        tables.table("normed", trace.output_of(module.norm)[0], rows, Axis()),
    )


def _segments(trace: Trace, module: SegmentEmbeddings, rows: Axis, tables: Tables) -> list[Step]:
    norm: Any = module.norm
    return [
        step(
            "Segment and norm",
            "A vector of the segment (first or second text) is added if the model has one, and "
            "the sum is normalised.",
            "x = norm(E[id] + P[t] + S[text])",
            SegmentEmbeddings.forward,
            tables.table("sum", trace.input_of(norm)[0], rows, Axis()),
            tables.table("x", trace.output_of(module)[0], rows, Axis()),
        )
    ]


def _image(trace: Trace, module: ImageEmbedding, rows: Axis, tables: Tables) -> list[Step]:
    num_prefix_tokens = module.num_prefix_tokens
    patches = Axis(rows.names[num_prefix_tokens:], max(0, rows.keep - num_prefix_tokens))
    positions: Any = module.positions
    inputs = trace.input_of(module.patches.project)[0]
    return [
        step(
            "Patches",
            f"The image is split into {len(patches.names)} patches of {module.patches.height} x "
            f"{module.patches.width} pixels, each a vector of {inputs.shape[-1]} numbers.",
            "image → patches",
            type(module.patches).forward,
            tables.table("patches", inputs, patches, Axis()),
        ),
        step(
            "Embedding",
            "A linear projection maps each patch to an embedding.",
            "x_p = patch_p W + b",
            type(module.patches).forward,
            tables.table("x", trace.output_of(module.patches)[0], patches, Axis()),
        ),
        step(
            "Position",
            "A vector of the position (row and column) is added"
            + (
                f", and {', '.join(rows.names[:num_prefix_tokens])} are prepended."
                if num_prefix_tokens
                else "."
            ),
            "x = [c + P[c], x₁ + P[1], …]" if num_prefix_tokens else "x = x_p + P[p]",
            type(positions).forward,
            tables.table("x + P", trace.output_of(positions)[0], patches, Axis()),
            tables.table("x", trace.output_of(module)[0], rows, Axis()),
        ),
    ]
