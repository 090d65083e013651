"""Inspection of one forward pass of any model: attention maps, predictions and analyses."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import nn

from headway.attention import (
    AttentionMaps,
    CappedDot,
    Kernel,
    KernelInputs,
    SlidingWindow,
    attention_layers,
    record_attention,
    record_inputs,
)
from headway.base.errors import UsageError
from headway.base.shapes import Float, Tensor
from headway.blocks import record_routing
from headway.bundle import WRITTEN, BeamSearching, Bundle, Probe, part_of
from headway.inspection.ablation import heads_of, layers_of
from headway.inspection.attention_flow import rolled, weighted
from headway.inspection.beams import search_tree
from headway.inspection.document import Attribution, Frame, Maps, Side, Vectors
from headway.inspection.experts import mixtures_in, mixtures_of, with_effects
from headway.inspection.gradient_x_input import gradients_x_input
from headway.inspection.head_effects import WholeModel, ablations
from headway.inspection.head_patterns import head_pattern_scores
from headway.inspection.logit_lens import logit_lens, unembedding_of
from headway.inspection.stream_updates import Updates, recording_updates
from headway.inspection.top_predictions import most_probable_predictions
from headway.inspection.work import Report, Work, unreported
from headway.models.contracts import parameter_count

ANALYSES = ("rollout", "value-weighted", "gradient x input", "lens", "beam", "updates")
OF_A_PAGE = (*ANALYSES, "effects")  # those of `headway inspect` and of the live page
SLOW = ("importance",)  # one more forward pass per head, as for effects
METRIC = "log-probability of the answer"
CHEAP = 5e9  # multiplications, about a second: "effects" that need more are left out
MAX_ATTRIBUTED_POSITIONS = 32  # positions whose predictions are attributed


def watch(
    bundle: Bundle,
    input: object,
    second: str | None = None,
    *,
    target: str | None = None,
    language: str | None = None,
    written: int = WRITTEN,
    layers: Sequence[str] = (),
    vectors: bool = False,
    analyses: Collection[str] = ANALYSES,
    top: int = 10,
    label: str = "",
    max_tokens: int | None = None,
    report: Report = unreported,
    images: Sequence[object] = (),
) -> Frame:
    """Return the attention maps, predictions and analyses of one input.

    input: the text or image. second, target, language, written, images: as for `Bundle.probe`.
    layers: prefixes of the names of attention layers ("decoder.blocks.3"); if empty, all. vectors:
    whether queries, keys and norms of values are stored. analyses: what is computed in addition, if
    the model allows it; "importance", not in the default, needs one more forward pass per head and
    expert, and so does "effects", which is left out for models for which it takes more than about a
    second. top: the number of predictions per position. label: name of the frame; if empty, the
    kind of the model. max_tokens: maximum number of tokens of the input and of the output; if
    unset, there is none. report: called with the fraction that is done, after the output is
    generated.

    The outputs of the model are those of a normal forward pass. Raises UsageError for an unknown
    analysis or layer, for too many tokens, and for a model without attention.
    """
    unknown = set(analyses) - {*OF_A_PAGE, *SLOW}
    if unknown:
        raise UsageError(
            f"unknown analyses {', '.join(sorted(unknown))}",
            hint=f"known: {', '.join((*OF_A_PAGE, *SLOW))}",
        )
    if not attention_layers(bundle.model):
        raise UsageError(
            "this model has no attention layers to inspect", hint="use a model with attention"
        )
    tree, output = None, cast(str | Sequence[int] | None, target)
    if "beam" in analyses and isinstance(bundle, BeamSearching) and target is None:
        bundle.check_input(input, second, language=language)
        tree, output = search_tree(bundle, input, language=language)
    probe = bundle.probe(
        input, second, target=output, language=language, written=written, images=images
    )
    _check_tokens(probe, max_tokens)
    frame = inspect_probe(
        probe,
        layers=layers,
        vectors=vectors,
        analyses=analyses,
        top=top,
        label=label,
        report=report,
    )
    return frame if tree is None else replace(frame, beam=tree)


def _check_tokens(probe: Probe, most: int | None) -> None:
    """Raise UsageError for an input or output of more than `most` tokens."""
    for side, tokens in probe.reading.tokens.items():
        if most is not None and len(tokens) > most:
            raise UsageError(
                f"{side}: {len(tokens):,} tokens, but at most {most} can be inspected here",
                hint="inspect a shorter text",
            )


def inspect_probe(
    probe: Probe,
    *,
    layers: Sequence[str] = (),
    vectors: bool = False,
    analyses: Collection[str] = ANALYSES,
    top: int = 10,
    label: str = "",
    report: Report = unreported,
) -> Frame:
    """Return what `watch` returns, for an input that was probed before."""
    work = Work(_forward_passes(probe, analyses), report)
    captured = _captured(
        probe, layers or _with_sides(probe), vectors or "value-weighted" in analyses
    )
    maps = _maps(probe, captured)
    work.done()
    predictions = most_probable_predictions(probe.readout, captured.output, top)
    lens = None
    if "lens" in analyses and predictions and unembedding_of(probe) is not None:
        lens = logit_lens(probe, min(top, 5))
    without, mixtures = None, mixtures_in(probe, captured.routing)
    if probe.readout is not None and _ablates(probe, analyses):
        whole = WholeModel.of(probe.readout, captured.output)
        without = ablations(probe.reading, whole, work)
        mixtures = with_effects(mixtures, probe, whole, work)
    important = "importance" in analyses and without is not None
    return Frame(
        metric=METRIC if important else "",
        importance=without.importance if important and without is not None else {},
        effects={} if without is None else without.effects,
        updates=captured.updates if "updates" in analyses else {},
        mixtures=mixtures,
        label=label or probe.kind,
        model=model_properties(probe),
        sides={name: _side(probe, name) for name in probe.reading.tokens},
        maps=_with_derived(maps, analyses, vectors, layers_of(probe.reading.model)),
        answer=probe.answer,
        predictions=predictions,
        predictions_side=probe.readout.side if probe.readout is not None else "",
        lens=lens,
        attributions=attributions_of(probe, captured.output, work)
        if "gradient x input" in analyses
        else (),
    )


def _with_sides(probe: Probe) -> Sequence[str]:
    """Return the attention layers whose sides the probe names: those of a transcriber's encoder
    have too many tokens. Empty if that is all."""
    parts = layers_of(probe.reading.model)
    if parts.keys() <= probe.reading.axes.keys():
        return ()
    return [name for part in probe.reading.axes for name in parts.get(part, ())]


def _forward_passes(probe: Probe, analyses: Collection[str]) -> int:
    """Return the number of forward passes that take most of the time of these analyses."""
    passes = 1
    if probe.readout is not None and "gradient x input" in analyses:
        passes += 1 + min(len(probe.readout.positions), MAX_ATTRIBUTED_POSITIONS)
    if _ablates(probe, analyses):
        passes += 1 + _num_ablations(probe)
    return passes


def _num_ablations(probe: Probe) -> int:
    """Return the number of heads and experts, each of which is ablated alone."""
    heads = sum(map(sum, heads_of(probe.reading.model).values()))
    mixtures = mixtures_of(probe.reading.model).values()
    return heads + sum(len(mixture.experts) for mixture in mixtures)


def _ablates(probe: Probe, analyses: Collection[str]) -> bool:
    """Return whether each head and each expert is ablated: on request, and for "effects" if that is
    cheap."""
    if probe.readout is None or not len(probe.readout.positions):
        return False
    tokens = sum(map(len, probe.reading.tokens.values()))
    products = parameters_of_a_token(probe.reading.model) * tokens * _num_ablations(probe)
    return "importance" in analyses or ("effects" in analyses and products <= CHEAP)


def parameters_of_a_token(model: nn.Module) -> int:
    """Return the number of parameters that compute one token: all but those of the experts that do
    not read it."""
    idle = sum(
        (len(mixture.experts) - mixture.router.chosen) * parameter_count(mixture.experts[0])
        for mixture in mixtures_of(model).values()
    )
    return parameter_count(model) - idle


def model_properties(probe: Probe) -> dict[str, int | str]:
    """Return the properties of a model that are shown: kind, layers, heads, width (for each part if
    they differ) and number of parameters."""
    model: Any = probe.reading.model
    counts, names = heads_of(model), layers_of(model)
    widths = {
        part: int(model.get_submodule(layers[0]).output.out_features)
        for part, layers in names.items()
    }
    return {
        "kind": probe.kind,
        "layers": _one_or_all({part: len(heads) for part, heads in counts.items()}),
        "heads": _one_or_all({part: max(heads) for part, heads in counts.items()}),
        "width": _one_or_all(widths),
        "parameters": parameter_count(model),
    }


def _one_or_all(of: Mapping[str, int]) -> int | str:
    """Return one number if all parts have the same, otherwise a number for each part."""
    if len(set(of.values())) == 1:
        return next(iter(of.values()))
    return ", ".join(f"{part} {count}" for part, count in of.items())


@dataclass(frozen=True)
class _Captured:
    """Recording of one forward pass: output, attention weights, probabilities of experts, and on
    request queries and keys."""

    output: Tensor
    weights: AttentionMaps
    inputs: dict[str, list[KernelInputs]]
    updates: Updates
    routing: dict[str, Float[Tensor, "N E"]]


@torch.no_grad()
def _captured(probe: Probe, layers: Sequence[str], inputs: bool) -> _Captured:
    model = probe.reading.model
    with (
        record_attention(model, layers) as weights,
        recording_updates(model) as updates,
        record_routing(model) as routing,
    ):
        if not inputs:
            return _Captured(probe.reading.run(), weights, {}, updates(), routing)
        with record_inputs(model, layers) as recorded:
            return _Captured(probe.reading.run(), weights, recorded, updates(), routing)


def _maps(probe: Probe, captured: _Captured) -> list[Maps]:
    """Return the maps of each part of the model, in its order."""
    parts: dict[str, list[str]] = {}
    for name in captured.weights:
        parts.setdefault(part_of(name), []).append(name)
    kernels = attention_layers(probe.reading.model)
    maps_of_parts = []
    for part, names in parts.items():
        queries, keys = probe.reading.axes[part]
        # a layer that is called once per step (in an RNN decoder) returns one row per call
        weights = [torch.cat(captured.weights[name], dim=2)[0].float() for name in names]
        normalised = all(kernels[name].normalised for name in names)
        maps = Maps(
            name=part,
            queries=queries,
            keys=keys,
            layers=names,
            weights=weights,
            causal=part == "decoder",
            normalised=normalised,
            patterns=[
                head_pattern_scores(
                    layer_weights,
                    probe.reading.tokens[keys],
                    own=queries == keys,
                    causal=part == "decoder",
                    window=_window(kernels[name]),
                )
                for name, layer_weights in zip(names, weights, strict=True)
            ]
            if normalised
            else (),
            vectors=[_vectors(captured.inputs[name]) for name in names] if captured.inputs else (),
        )
        maps_of_parts.append(maps)
    return maps_of_parts


def _window(kernel: Kernel) -> int | None:
    return kernel.window if isinstance(kernel, SlidingWindow | CappedDot) else None


def _vectors(calls: Sequence[KernelInputs]) -> Vectors:
    """Join the queries of several calls, which have the same keys."""
    last = calls[-1]
    return Vectors(
        q=torch.cat([call.q for call in calls], dim=2)[0].float().cpu(),
        k=last.k[0].float().cpu(),
        norms=last.norms[0].float().cpu(),
        scale=last.scale,
    )


def _with_derived(
    maps: Sequence[Maps],
    analyses: Collection[str],
    vectors: bool,
    layers: Mapping[str, Sequence[str]],
) -> Sequence[Maps]:
    """Return the maps and the measures computed from them; rollout needs the maps of all layers."""
    derived = [attention if vectors else replace(attention, vectors=()) for attention in maps]
    if "rollout" in analyses:
        derived += [
            rolled(attention)
            for attention in maps
            if attention.queries == attention.keys
            and attention.normalised
            and attention.layers == layers[attention.name]
        ]
    if "value-weighted" in analyses:
        derived += [weighted(attention) for attention in maps]
    return derived


def _side(probe: Probe, name: str) -> Side:
    reading = probe.reading
    words, image = reading.words.get(name, ()), probe.images.get(name)
    if image is None:
        return Side(tokens=reading.tokens[name], words=words, generated=probe.generated.get(name))
    return Side(
        tokens=reading.tokens[name],
        words=words,
        image=image.pixels,
        grid=image.grid,
        reach=image.reach,
        num_prefix_tokens=image.num_prefix_tokens,
        generated=probe.generated.get(name),
    )


def attributions_of(probe: Probe, output: Tensor, work: Work) -> list[Attribution]:
    """Return gradient x input for the logit of the most probable prediction at each position, for
    at most the last 32 positions. output: the output of the forward pass."""
    readout = probe.readout
    if readout is None or not len(readout.positions):
        return []
    best = readout.logits(output).argmax(-1)
    rows = torch.arange(len(best), device=best.device)[-MAX_ATTRIBUTED_POSITIONS:]
    columns = best[rows]
    work.done()
    scores = gradients_x_input(
        probe.reading, lambda output: readout.logits(output)[rows, columns], work.done
    )
    return [
        Attribution(
            measure="gradient x input",
            side=side,
            of=name,
            position=readout.positions[row],
            scores=values.tolist(),
        )
        for row, name, of_sides in zip(
            rows.tolist(), readout.names(columns.tolist()), scores, strict=True
        )
        for side, values in of_sides.items()
    ]
