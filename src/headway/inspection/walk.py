"""A walkthrough of one forward pass of a model, from the input to the prediction."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from headway.base.errors import UsageError
from headway.base.shapes import Tensor
from headway.blocks import DecoderBlock, EncoderBlock, MixtureOfExperts
from headway.bundle import Probe
from headway.inspection.block_stacks import Stack, stacks_of
from headway.inspection.document import Step
from headway.inspection.tables import Axis, Tables, quoted, step
from headway.inspection.top_predictions import most_probable_predictions
from headway.inspection.tracing import Trace, attention_in, call_of, stream_of, traced
from headway.inspection.walk_attention import Around, attention_steps, norm_step, residual_step
from headway.inspection.walk_input import input_steps
from headway.transforms.twins import plain_class


def walk(
    probe: Probe,
    *,
    map: str | None = None,
    layer: int = 0,
    head: int = 0,
    position: int | None = None,
    tables: Tables = Tables(),  # noqa: B008, it is frozen
) -> list[Step]:
    """Return the steps of the computation at one position, through one head of one layer.

    All numbers were recorded while the model ran. Only scores and weights, which fast kernels do
    not store, are computed again by `Kernel.weights` and `scores`. map: "encoder", "decoder" or
    "cross"; if None, cross-attention if there is any, otherwise self-attention. layer, head:
    counted from 0. position: position of the query; if None, the position of the prediction: a
    masked token, [CLS], or in generated text the last token.

    Raises UsageError for a map, layer, head or position that does not exist, and for a recurrent
    network.
    """
    path = _path(probe, map, layer, head, position, tables)
    trace, output = traced(probe.reading.model, probe.reading.run)
    side = probe.reading.axes["decoder" if path.part == "cross" else path.part][0]
    steps = input_steps(probe, trace, side, path.position, tables)
    stream = stream_of(trace, path.stack)
    steps += _layers(path, stream, 0, layer, "Earlier layers")
    steps += _block(path, trace)
    depth = len(path.stack.blocks)
    steps += _layers(path, stream, layer + 1, depth, "Later layers")
    return steps + _end(path, trace, output)


@dataclass(frozen=True)
class _Path:
    """The part, layer, head and position of a walkthrough."""

    probe: Probe
    stack: Stack
    part: str
    layer: int
    head: int
    position: int
    tables: Tables

    @property
    def rows(self) -> Axis:
        """The tokens of the residual stream."""
        reading = self.probe.reading
        side = reading.axes["decoder" if self.part == "cross" else self.part][0]
        return Axis(reading.tokens[side], self.position)


def _path(
    probe: Probe, part: str | None, layer: int, head: int, position: int | None, tables: Tables
) -> _Path:
    stacks, reading = stacks_of(probe.reading.model), probe.reading
    known = [
        name for name in reading.axes if ("encoder" if name == "encoder" else "decoder") in stacks
    ]
    if not known:
        raise UsageError("a walkthrough needs a Transformer, but this is a recurrent network")
    part = part or ("cross" if "cross" in known else known[-1])
    if part not in known:
        raise UsageError(f"the model has no map {part!r}; its maps are {', '.join(known)}")
    stack = stacks["encoder" if part == "encoder" else "decoder"]
    blocks = list(stack.blocks)
    if not 0 <= layer < len(blocks):
        raise UsageError(f"{part} has no layer {layer}: its layers are 0 to {len(blocks) - 1}")
    if not isinstance(blocks[layer], EncoderBlock | DecoderBlock):
        raise UsageError(f"layer {layer} of {part} has no attention; choose another layer")
    attention, _ = attention_in(blocks[layer], part)
    if not 0 <= head < attention.num_heads:
        raise UsageError(
            f"layer {layer} of {part} has no head {head}: "
            f"its heads are 0 to {attention.num_heads - 1}"
        )
    side = reading.axes[part][0]
    count = len(reading.tokens[side])
    if position is None:
        position = _prediction_position(probe, side, count)
    if not 0 <= position < count:
        raise UsageError(f"{side} has no position {position}: its positions are 0 to {count - 1}")
    return _Path(probe, stack, part, layer, head, position, tables)


def _prediction_position(probe: Probe, side: str, count: int) -> int:
    """Return the position of the prediction: that of a masked token or [CLS], else the last one."""
    readout, generates = probe.readout, "decoder" in probe.reading.axes
    if readout is not None and readout.side == side and len(readout.positions) and not generates:
        return readout.positions[0]
    return 0 if side in probe.images and not generates else count - 1


def _layers(path: _Path, stream: list[Tensor], first: int, last: int, title: str) -> list[Step]:
    """Return a step with the outputs of several layers at the position, one row per layer."""
    if first >= last:
        return []
    rows = torch.stack([stream[i + 1][0, path.position] for i in range(first, last)])
    names = Axis([f"layer {i + 1}" for i in range(first, last)], last - first - 1)
    table = path.tables.table("x", rows, names, Axis())
    return [
        step(
            title,
            "Each layer does the same computation with its own parameters and adds its output "
            "to the residual stream.",
            "x ← block(x)",
            type(path.stack).forward,
            table,
        )
    ]


def _block(path: _Path, trace: Trace) -> list[Step]:
    """Return the steps of the sublayers of the chosen layer, in order."""
    block, call = path.stack.blocks[path.layer], call_of(path.stack, path.layer)
    reading, steps = path.probe.reading, []
    for part, name, around in _sublayers(block, path.part):
        if part == path.part:
            attention, residual = attention_in(block, part)
            queries, keys = reading.axes[part]
            around_head = Around(
                attention=attention,
                residual=residual,
                call=call,
                head=path.head,
                queries=Axis(reading.tokens[queries], path.position),
                keys=Axis(reading.tokens[keys], path.position if keys == queries else 0),
            )
            steps += attention_steps(trace, around_head, path.tables)
        elif name == "feedforward":
            steps += _feedforward(path, trace, block, call)
        else:
            out = trace.output_of(around, call)[0]
            steps.append(
                step(
                    "Other attention of this layer",
                    "The layer has a second attention sublayer, whose output is added, too.",
                    "x ← x + attention(x)",
                    type(block).forward,
                    path.tables.table("x", out, path.rows, Axis()),
                )
            )
    return steps


def _sublayers(block: Any, part: str) -> list[tuple[str, str, nn.Module]]:
    """Return (map, name, residual connection) of the sublayers of a block, in order."""
    name = "decoder" if isinstance(block, DecoderBlock) or part != "encoder" else "encoder"
    sublayers = [(name, "attention", block.around_attention)]
    if isinstance(block, DecoderBlock):
        sublayers.append(("cross", "cross", block.around_cross))
    return [*sublayers, ("", "feedforward", block.around_feedforward)]


def _feedforward(path: _Path, trace: Trace, block: Any, call: int) -> list[Step]:
    network, around = block.feedforward, block.around_feedforward
    before = norm_step(trace, around, call, path.rows, path.tables)
    after = residual_step(trace, around, call, path.rows, path.tables)
    if isinstance(network, MixtureOfExperts):
        return [*before, _experts(path, trace, network, call), *after]
    inner = trace.input_of(network.contract, call)[0, path.position]
    steps = [
        step(
            "Feed-forward",
            "A network with one hidden layer is applied to each position separately. "
            f"{int((inner.abs() > 1e-6).sum())} of its {inner.numel()} hidden units are not 0.",
            "FFN(x) = f(x W₁ + b₁) W₂ + b₂",
            plain_class(network).forward,
            path.tables.table("input", trace.input_of(network, call)[0], path.rows, Axis()),
            path.tables.table("hidden", inner, Axis([path.rows.names[path.position]]), Axis()),
            path.tables.table("output", trace.output_of(network, call)[0], path.rows, Axis()),
        )
    ]
    return [*before, *steps, *after]


def _experts(path: _Path, trace: Trace, network: MixtureOfExperts, call: int) -> Step:
    """Return the step of a mixture of experts: the probabilities of the experts for each token."""
    probabilities = trace.output_of(network.router, call)
    chosen, weights = network.router.choice(probabilities[path.position])
    pairs = zip(chosen.tolist(), weights.tolist(), strict=True)
    names = ", ".join(f"expert {number + 1} ({weight:.2f})" for number, weight in pairs)
    experts = Axis([f"expert {number + 1}" for number in range(len(network.experts))])
    return step(
        "Mixture of experts",
        f"Of {len(network.experts)} feed-forward networks the most probable read a token: {names}.",
        "y = Σ over chosen e of p_e FFN_e(x),  p = softmax(W_r x)",
        MixtureOfExperts.forward,
        path.tables.table("input", trace.input_of(network, call)[0], path.rows, Axis()),
        path.tables.table("p", probabilities, path.rows, experts),
        path.tables.table("output", trace.output_of(network, call)[0], path.rows, Axis()),
    )


def _end(path: _Path, trace: Trace, output: Tensor) -> list[Step]:
    """Return the steps from the last layer to the prediction."""
    steps, model = [], path.probe.reading.model
    norm: Any = path.stack.norm
    if not isinstance(norm, nn.Identity):
        steps.append(
            step(
                "Final norm",
                "A pre-norm stack does not normalise the output of its last layer, so that a "
                "final norm follows.",
                "x ← norm(x)",
                type(norm).forward,
                path.tables.table("x", trace.input_of(norm)[0], path.rows, Axis()),
                path.tables.table("norm(x)", trace.output_of(norm)[0], path.rows, Axis()),
            )
        )
    if path.part == "encoder" and "decoder" in stacks_of(model):
        steps.append(
            step(
                "Memory",
                "The output of the encoder; the decoder attends to it by cross-attention at "
                "every step.",
                "memory = encoder(x)",
                type(path.stack).forward,
                path.tables.table("memory", trace.output_of(path.stack)[0], path.rows, Axis()),
            )
        )
    return steps + _predictions(path, output)


def _predictions(path: _Path, output: Tensor) -> list[Step]:
    """Return the steps of the logits and their softmax."""
    readout = path.probe.readout
    if readout is None or not len(readout.positions):
        return []
    position = path.position + (
        path.probe.reading.axes.keys() == {"decoder"} and readout.side == "text"
    )
    positions = list(readout.positions)
    row = positions.index(position) if position in positions else len(positions) - 1
    logits = readout.logits(output)[row].float()
    count = min(path.tables.rows, len(logits))
    best = logits.topk(count).indices
    names = Axis(readout.names(best.tolist()))
    where = f"position {positions[row]} of {readout.side}"
    shape = tuple(logits.shape)
    shown = path.tables.table("logits", logits[best, None], names, Axis(["logit"]))
    steps = [
        step(
            "Logits",
            f"One number for each possible prediction at {where}; the largest are shown.",
            readout.equation,
            readout.function,
            replace(shown, shape=shape),
        )
    ]
    if len(logits) < 2:
        return steps
    shares = logits.softmax(-1)
    shown = path.tables.table("p", shares[best, None], names, Axis(["probability"]))
    largest = f"{quoted(names.names[0])}, {100 * float(shares.max()):.1f} %"
    steps.append(
        step(
            "Softmax",
            f"The logits become probabilities, which sum to 1. The most probable is {largest}.",
            "p = exp(z) / Σ exp(z)",
            most_probable_predictions,
            replace(shown, shape=shape),
        )
    )
    return steps
