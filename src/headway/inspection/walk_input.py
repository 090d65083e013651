"""The first steps of a walk: how words, or a picture, become vectors that know their places."""

from __future__ import annotations

from typing import Any

import torch

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
from headway.inspection.tables import Axis, Tables, step
from headway.inspection.tracing import Trace


def input_steps(probe: Probe, trace: Trace, side: str, place: int, tables: Tables) -> list[Step]:
    """What enters the first block of the stack that reads this side."""
    reading = probe.reading
    module = reading.model.get_submodule(reading.embeddings[side])
    rows = Axis(reading.pieces[side], place)
    if isinstance(module, ImageEmbedding):
        return _picture(trace, module, rows, tables)
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
        f"The text is cut into {len(ids)} pieces, and each has a number. "
        f"{rows.names[rows.keep]!r} is followed from here on.",
        "text → ids",
        type(probe.tokenizers[side]).encode,
        tables.table("ids", ids[:, None], rows, Axis(["id"])),
    )


def _words(trace: Trace, module: Embeddings, rows: Axis, tables: Tables) -> list[Step]:
    positions: Any = module.positions
    words, placed = trace.given(positions)[0], trace.gave(positions)[0]
    by = "" if module.scale == 1 else f", times {module.scale:.4g}"
    steps = [
        step(
            "Embedding",
            f"The number picks a row of the embedding matrix{by}: what the piece means.",
            "x = E[id]" if not by else "x = E[id] · √D",
            Embeddings.forward,
            tables.table("word", words, rows, Axis()),
        )
    ]
    if isinstance(positions, NoPositions):
        return steps
    dims = Axis()
    arrays = [tables.table("x", placed, rows, dims)]
    if isinstance(positions, Added):
        where = trace.gave(positions.table)[0]
        arrays.insert(0, tables.table("place", where, rows, dims))
    table = type(positions.table).forward
    beside = isinstance(positions, Concatenated)
    return [
        *steps,
        step(
            "Position",
            "Attention knows no order: a vector for the place "
            + ("stands beside the word's." if beside else "is added to the word's."),
            "x = [E[id], P[t]]" if beside else "x = E[id] + P[t]",
            table,
            *arrays,
        ),
    ]


def _segments(trace: Trace, module: SegmentEmbeddings, rows: Axis, tables: Tables) -> list[Step]:
    norm: Any = module.norm
    return [
        step(
            "Text and norm",
            "A vector that says of which text the token is comes on top, where the model has one; "
            "then the numbers are brought to one size.",
            "x = norm(E[id] + P[t] + S[text])",
            SegmentEmbeddings.forward,
            tables.table("sum", trace.given(norm)[0], rows, Axis()),
            tables.table("x", trace.gave(module)[0], rows, Axis()),
        )
    ]


def _picture(trace: Trace, module: ImageEmbedding, rows: Axis, tables: Tables) -> list[Step]:
    beside = module.beside
    patches = Axis(rows.names[beside:], max(0, rows.keep - beside))
    positions: Any = module.positions
    inputs = trace.given(module.patches.project)[0]
    return [
        step(
            "Patches",
            f"The picture is cut into {len(patches.names)} patches of {module.patches.height} x "
            f"{module.patches.width} pixels, each a row of {inputs.shape[-1]} numbers.",
            "picture → patches",
            type(module.patches).forward,
            tables.table("patches", inputs, patches, Axis()),
        ),
        step(
            "Embedding",
            "One matrix makes a vector of each patch.",
            "x_p = patch_p W + b",
            type(module.patches).forward,
            tables.table("x", trace.gave(module.patches)[0], patches, Axis()),
        ),
        step(
            "Position",
            "A vector for row and column is added"
            + (f", and {', '.join(rows.names[:beside])} are put before them." if beside else "."),
            "x = [c + P[c], x₁ + P[1], …]" if beside else "x = x_p + P[p]",
            type(positions).forward,
            tables.table("placed", trace.gave(positions)[0], patches, Axis()),
            tables.table("x", trace.gave(module)[0], rows, Axis()),
        ),
    ]
