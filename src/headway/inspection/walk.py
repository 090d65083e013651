"""A guided walk through one real computation of a model, from words to an answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from headway.blocks import DecoderBlock, EncoderBlock
from headway.bundle import Bundle, Probe
from headway.errors import UsageError
from headway.inspection.block_stacks import Stack, stacks_of
from headway.inspection.document import Step
from headway.inspection.tables import Axis, Tables, step
from headway.inspection.top_predictions import top_guesses
from headway.inspection.tracing import (
    Trace,
    attention_in,
    call_of,
    stream_of,
    traced,
)
from headway.inspection.walk_attention import Around, attention_steps, norm_step, residual_step
from headway.inspection.walk_input import input_steps
from headway.shapes import Tensor
from headway.transforms.fast import plain_class


def walk(
    bundle: Bundle,
    given: Any,
    second: str | None = None,
    *,
    target: str | None = None,
    language: str | None = None,
    written: int = 0,
    map: str | None = None,
    layer: int = 0,
    head: int = 0,
    place: int | None = None,
    tables: Tables = Tables(),  # noqa: B008, it is frozen
) -> list[Step]:
    """Step by step what the model computes at one place, through one head of one layer.

    Every number was taken from the model while it ran: nothing is computed a second time, but for
    weights, which fast kernels never make (`Kernel.weights` and `scores` say what they were).
    given, second, target, language, written: as `Bundle.probe` takes them. map: "encoder",
    "decoder" or "cross"; None: cross-attention where there is any, else self-attention. layer,
    head: from 0. place: of the side that attends; None: where the answer is read (a hidden word,
    [CLS]; of what is written, the last one).

    UsageError for a map, layer, head or place that is not there, and for a recurrent network.
    """
    probe = bundle.probe(given, second, target=target, language=language, written=written)
    return walk_through(probe, map=map, layer=layer, head=head, place=place, tables=tables)


def walk_through(
    probe: Probe,
    *,
    map: str | None = None,
    layer: int = 0,
    head: int = 0,
    place: int | None = None,
    tables: Tables = Tables(),  # noqa: B008, it is frozen
) -> list[Step]:
    """`walk`, of an input that was probed before."""
    path = _path(probe, map, layer, head, place, tables)
    trace, given = traced(probe.reading.model, probe.reading.run)
    side = probe.reading.axes["decoder" if path.part == "cross" else path.part][0]
    steps = input_steps(probe, trace, side, path.place, tables)
    stream = stream_of(trace, path.stack)
    steps += _layers(path, stream, 0, layer, "The layers before")
    steps += _block(path, trace)
    depth = len(path.stack.blocks)
    steps += _layers(path, stream, layer + 1, depth, "The layers after")
    return steps + _end(path, trace, given)


@dataclass(frozen=True)
class _Path:
    """Where the walk leads."""

    probe: Probe
    stack: Stack
    part: str
    layer: int
    head: int
    place: int
    tables: Tables

    @property
    def rows(self) -> Axis:
        """The tokens of the stream."""
        reading = self.probe.reading
        side = reading.axes["decoder" if self.part == "cross" else self.part][0]
        return Axis(reading.pieces[side], self.place)


def _path(
    probe: Probe, part: str | None, layer: int, head: int, place: int | None, tables: Tables
) -> _Path:
    stacks, reading = stacks_of(probe.reading.model), probe.reading
    known = [
        name for name in reading.axes if ("encoder" if name == "encoder" else "decoder") in stacks
    ]
    if not known:
        raise UsageError(
            "there is no walk through a recurrent network", hint="a Transformer of any kind"
        )
    part = part or ("cross" if "cross" in known else known[-1])
    if part not in known:
        raise UsageError(f"the model has no {part!r} of blocks; it has {', '.join(known)}")
    stack = stacks["encoder" if part == "encoder" else "decoder"]
    blocks = list(stack.blocks)
    if not 0 <= layer < len(blocks):
        raise UsageError(f"{part} has no layer {layer}: they are 0 to {len(blocks) - 1}")
    if not isinstance(blocks[layer], EncoderBlock | DecoderBlock):
        raise UsageError(f"layer {layer} of {part} has no attention to walk through")
    attention, _ = attention_in(blocks[layer], part)
    if not 0 <= head < attention.num_heads:
        raise UsageError(
            f"layer {layer} of {part} has no head {head}: they are 0 to {attention.num_heads - 1}"
        )
    side = reading.axes[part][0]
    count = len(reading.pieces[side])
    if place is None:
        place = _followed(probe, side, count)
    if not 0 <= place < count:
        raise UsageError(f"{side} has no place {place}: they are 0 to {count - 1}")
    return _Path(probe, stack, part, layer, head, place, tables)


def _followed(probe: Probe, side: str, count: int) -> int:
    """The place from which the answer is read: a hidden word's, [CLS]'s; else the last one."""
    readout, writes = probe.readout, "decoder" in probe.reading.axes
    if readout is not None and readout.side == side and len(readout.positions) and not writes:
        return readout.positions[0]
    return 0 if side in probe.images else count - 1


def _layers(path: _Path, stream: list[Tensor], first: int, last: int, title: str) -> list[Step]:
    """What some layers made of the walked place, one row each."""
    if first >= last:
        return []
    rows = torch.stack([stream[i + 1][0, path.place] for i in range(first, last)])
    names = Axis([f"layer {i + 1}" for i in range(first, last)], last - first - 1)
    table = path.tables.table("x", rows, names, Axis())
    return [
        step(
            title,
            "Each of them does the same with numbers of its own, and adds what it found.",
            "x ← block(x)",
            type(path.stack).forward,
            table,
        )
    ]


def _block(path: _Path, trace: Trace) -> list[Step]:
    """The sublayers of the walked layer in their order, the walked attention head by head."""
    block, call = path.stack.blocks[path.layer], call_of(path.stack, path.layer)
    reading, steps = path.probe.reading, []
    for part, name, around in _sublayers(block, path.part):
        if part == path.part:
            attention, residual = attention_in(block, part)
            queries, keys = reading.axes[part]
            place = Around(
                attention=attention,
                residual=residual,
                call=call,
                head=path.head,
                queries=Axis(reading.pieces[queries], path.place),
                keys=Axis(reading.pieces[keys], path.place if keys == queries else 0),
            )
            steps += attention_steps(trace, place, path.tables)
        elif name == "feedforward":
            steps += _feedforward(path, trace, block, call)
        else:
            out = trace.gave(around, call)[0]
            steps.append(
                step(
                    "The other attention of this layer",
                    "Between, the layer attends elsewhere too; what comes out goes on.",
                    "x ← x + attention(x)",
                    type(block).forward,
                    path.tables.table("x", out, path.rows, Axis()),
                )
            )
    return steps


def _sublayers(block: Any, part: str) -> list[tuple[str, str, nn.Module]]:
    """(map, name, residual) of a block's sublayers, in order."""
    own = "decoder" if isinstance(block, DecoderBlock) or part != "encoder" else "encoder"
    found = [(own, "attention", block.around_attention)]
    if isinstance(block, DecoderBlock):
        found.append(("cross", "cross", block.around_cross))
    return [*found, ("", "feedforward", block.around_feedforward)]


def _feedforward(path: _Path, trace: Trace, block: Any, call: int) -> list[Step]:
    network, around = block.feedforward, block.around_feedforward
    before = norm_step(trace, around, call, path.rows, path.tables)
    inner = trace.given(network.contract, call)[0, path.place]
    steps = [
        step(
            "Feed-forward",
            "A small network looks at this place alone: the one nonlinearity between attentions. "
            f"{int((inner.abs() > 1e-6).sum())} of its {inner.numel()} inner numbers are not 0.",
            "FFN(x) = f(x W₁ + b₁) W₂ + b₂",
            plain_class(network).forward,
            path.tables.table("given", trace.given(network, call)[0], path.rows, Axis()),
            path.tables.table("inner", inner, Axis([path.rows.names[path.place]]), Axis()),
            path.tables.table("found", trace.gave(network, call)[0], path.rows, Axis()),
        )
    ]
    after = residual_step(trace, around, call, path.rows, path.tables)
    return [*before, *steps, *after]


def _end(path: _Path, trace: Trace, given: Tensor) -> list[Step]:
    """From the last layer to the answer."""
    steps, model = [], path.probe.reading.model
    norm: Any = path.stack.norm
    if not isinstance(norm, nn.Identity):
        steps.append(
            step(
                "The last norm",
                "A stack that norms before its sublayers leaves its sum as it is; it is normed "
                "once more.",
                "x ← norm(x)",
                type(norm).forward,
                path.tables.table("x", trace.given(norm)[0], path.rows, Axis()),
                path.tables.table("norm(x)", trace.gave(norm)[0], path.rows, Axis()),
            )
        )
    if path.part == "encoder" and "decoder" in stacks_of(model):
        steps.append(
            step(
                "The memory",
                "This is what the decoder looks across at, for every word it writes.",
                "memory = encoder(x)",
                type(path.stack).forward,
                path.tables.table("memory", trace.gave(path.stack)[0], path.rows, Axis()),
            )
        )
    return steps + _said(path, given)


def _said(path: _Path, given: Tensor) -> list[Step]:
    """Logits, and their softmax."""
    readout = path.probe.readout
    if readout is None or not len(readout.positions):
        return []
    wanted = path.place + (path.probe.reading.axes.keys() == {"decoder"} and readout.side == "text")
    places = list(readout.positions)
    row = places.index(wanted) if wanted in places else len(places) - 1
    logits = readout.logits(given)[row].float()
    count = min(path.tables.rows, len(logits))
    best = logits.topk(count).indices
    names = Axis(readout.names(best.tolist()))
    where = f"place {places[row]} of {readout.side}"
    shape = tuple(logits.shape)
    shown = path.tables.table("logits", logits[best, None], names, Axis(["logit"]))
    steps = [
        step(
            "Logits",
            f"One number for each thing that could be said of {where}; the greatest are shown.",
            readout.equation,
            readout.function,
            replace(shown, shape=shape),
        )
    ]
    if len(logits) < 2:
        return steps
    shares = logits.softmax(-1)
    shown = path.tables.table("p", shares[best, None], names, Axis(["probability"]))
    likeliest = f"{names.names[0]!r}, {100 * float(shares.max()):.1f} %"
    steps.append(
        step(
            "Softmax",
            f"The numbers become probabilities, which sum to 1. The likeliest: {likeliest}.",
            "p = exp(z) / Σ exp(z)",
            top_guesses,
            replace(shown, shape=shape),
        )
    )
    return steps
