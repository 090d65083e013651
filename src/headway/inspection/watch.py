"""Watch a model of any kind read one input."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from headway.attention import (
    AttentionMaps,
    Kernel,
    Seen,
    SlidingWindow,
    attention_layers,
    record_attention,
    record_inputs,
)
from headway.bundle import WRITTEN, BeamSearching, Bundle, Probe, Readout, part_of
from headway.errors import UsageError
from headway.inspection.ablation import head_importance, heads_of, layers_of
from headway.inspection.attention_flow import rolled, weighted
from headway.inspection.beams import search_tree
from headway.inspection.document import Attribution, Frame, Maps, Side, Vectors
from headway.inspection.gradient_x_input import gradient_x_input
from headway.inspection.head_patterns import head_kinds
from headway.inspection.logit_lens import logit_lens, unembedding_of
from headway.inspection.top_predictions import top_guesses
from headway.models.contracts import parameter_count
from headway.shapes import Tensor

ANALYSES = ("rollout", "value-weighted", "gradient x input", "lens", "beam")
SLOW = ("importance",)  # one more run for each head
METRIC = "log-probability of the answer"
MOST_ATTRIBUTED = 32  # places whose answers are followed back


def watch(
    bundle: Bundle,
    given: Any,
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
) -> Frame:
    """Everything that is seen while a model reads one input (and writes, if it writes):
    `Bundle.probe` says what may be given.

    layers: beginnings of names of attention layers ("decoder.blocks.3"); none: all. vectors: keep
    queries, keys and norms of values. analyses: what else is computed, where the model allows it.
    "importance", which is not by itself, runs once more for each head. top: guesses kept of each
    place. The model's outputs are those of an unwatched run.
    """
    unknown = set(analyses) - {*ANALYSES, *SLOW}
    if unknown:
        raise UsageError(
            f"unknown analyses {', '.join(sorted(unknown))}",
            hint=f"known: {', '.join((*ANALYSES, *SLOW))}",
        )
    if not attention_layers(bundle.model):
        raise UsageError(
            "this model has no attention to look at", hint="one with any attention but none"
        )
    searches = isinstance(bundle, BeamSearching) and target is None
    if "beam" not in analyses or not searches:
        probe = bundle.probe(given, second, target=target, language=language, written=written)
        return look_at(
            probe, layers=layers, vectors=vectors, analyses=analyses, top=top, label=label
        )
    bundle.check_input(given, second, language=language)
    tree, best = search_tree(bundle, given, language=language)
    probe = bundle.probe(given, second, target=best, language=language)
    frame = look_at(probe, layers=layers, vectors=vectors, analyses=analyses, top=top, label=label)
    return replace(frame, beam=tree)


def look_at(
    probe: Probe,
    *,
    layers: Sequence[str] = (),
    vectors: bool = False,
    analyses: Collection[str] = ANALYSES,
    top: int = 10,
    label: str = "",
) -> Frame:
    """`watch`, of an input that was probed before."""
    seen = _captured(probe, layers, vectors or "value-weighted" in analyses)
    maps = _maps(probe, seen)
    guesses = top_guesses(probe.readout, seen.given, top)
    lens = None
    if "lens" in analyses and guesses and unembedding_of(probe) is not None:
        lens = logit_lens(probe, min(top, 5))
    important = "importance" in analyses and probe.readout is not None
    return Frame(
        metric=METRIC if important else "",
        importance=importance_of(probe, seen.given) if important else {},
        label=label or probe.kind,
        model=facts_of(probe),
        sides={name: _side(probe, name) for name in probe.reading.pieces},
        maps=_with_derived(maps, analyses, vectors, layers_of(probe.reading.model)),
        answer=probe.answer,
        guesses=guesses,
        guesses_side=probe.readout.side if probe.readout is not None else "",
        lens=lens,
        attributions=attributions_of(probe, seen.given) if "gradient x input" in analyses else (),
    )


def facts_of(probe: Probe) -> dict[str, int | str]:
    """What is shown of a model: kind; layers, heads and width, of each part where these differ;
    parameters."""
    model: Any = probe.reading.model
    counts, names = heads_of(model), layers_of(model)
    widths = {
        part: int(model.get_submodule(own[0]).output.out_features) for part, own in names.items()
    }
    return {
        "kind": probe.kind,
        "layers": _told({part: len(heads) for part, heads in counts.items()}),
        "heads": _told({part: max(heads) for part, heads in counts.items()}),
        "width": _told(widths),
        "parameters": parameter_count(model),
    }


def _told(of: Mapping[str, int]) -> int | str:
    """One number where the parts agree."""
    if len(set(of.values())) == 1:
        return next(iter(of.values()))
    return ", ".join(f"{part} {count}" for part, count in of.items())


@dataclass(frozen=True)
class _Captured:
    """What one run left: its answer, weights and, where they were asked for, what made them."""

    given: Tensor
    weights: AttentionMaps
    inputs: dict[str, list[Seen]]


@torch.no_grad()
def _captured(probe: Probe, layers: Sequence[str], inputs: bool) -> _Captured:
    model = probe.reading.model
    with record_attention(model, layers) as weights:
        if not inputs:
            return _Captured(probe.reading.run(), weights, {})
        with record_inputs(model, layers) as seen:
            return _Captured(probe.reading.run(), weights, seen)


def _maps(probe: Probe, seen: _Captured) -> list[Maps]:
    """One for each part of the model, in its order."""
    parts: dict[str, list[str]] = {}
    for name in seen.weights:
        parts.setdefault(part_of(name), []).append(name)
    kernels = attention_layers(probe.reading.model)
    found = []
    for part, names in parts.items():
        queries, keys = probe.reading.axes[part]
        # a layer that is called once a step (an RNN decoder's) gives its rows one by one
        weights = [torch.cat(seen.weights[name], dim=2)[0].float() for name in names]
        normalised = all(kernels[name].normalised for name in names)
        maps = Maps(
            name=part,
            queries=queries,
            keys=keys,
            layers=names,
            weights=weights,
            causal=part == "decoder",
            normalised=normalised,
            kinds=[
                head_kinds(
                    own,
                    probe.reading.pieces[keys],
                    own=queries == keys,
                    causal=part == "decoder",
                    window=_window(kernels[name]),
                )
                for name, own in zip(names, weights, strict=True)
            ]
            if normalised
            else (),
            vectors=[_vectors(seen.inputs[name]) for name in names] if seen.inputs else (),
        )
        found.append(maps)
    return found


def _window(kernel: Kernel) -> int | None:
    return kernel.window if isinstance(kernel, SlidingWindow) else None


def _vectors(calls: Sequence[Seen]) -> Vectors:
    """Calls one after the other ask the same keys."""
    last = calls[-1]
    return Vectors(
        q=torch.cat([seen.q for seen in calls], dim=2)[0].float().cpu(),
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
    """The maps and what is computed from them; a rollout only where every layer was kept."""
    found = [each if vectors else replace(each, vectors=()) for each in maps]
    if "rollout" in analyses:
        found += [
            rolled(each)
            for each in maps
            if each.queries == each.keys and each.normalised and each.layers == layers[each.name]
        ]
    if "value-weighted" in analyses:
        found += [weighted(each) for each in maps]
    return found


def _side(probe: Probe, name: str) -> Side:
    reading = probe.reading
    words, picture = reading.words.get(name, ()), probe.images.get(name)
    if picture is None:
        return Side(tokens=reading.pieces[name], words=words)
    return Side(
        tokens=reading.pieces[name],
        words=words,
        picture=picture.pixels,
        grid=picture.grid,
        reach=picture.reach,
        beside=picture.beside,
    )


def attributions_of(probe: Probe, given: Tensor) -> list[Attribution]:
    """gradient x input for the likeliest answer at each place, the last 32 at most: its logit is
    followed back to all that was read. given: what the reading gave."""
    readout = probe.readout
    if readout is None:
        return []
    found = []
    best = readout.logits(given).argmax(-1).tolist()
    for row in range(len(best))[-MOST_ATTRIBUTED:]:
        column = best[row]
        scores = gradient_x_input(probe.reading, _one_of(readout, row, column))
        (name,) = readout.names([column])
        found += [
            Attribution(
                measure="gradient x input",
                side=side,
                of=name,
                place=readout.positions[row],
                scores=values.tolist(),
            )
            for side, values in scores.items()
        ]
    return found


def _one_of(readout: Readout, row: int, column: int) -> Callable[[Tensor], Tensor]:
    """One logit of what a reading gives."""
    return lambda given: readout.logits(given)[row, column]


@torch.no_grad()
def importance_of(probe: Probe, given: Tensor) -> dict[str, list[list[float]]]:
    """Of each head how far the log-probability of the likeliest answers (mean over places; of a
    number, the number) falls when it is off: `head_importance`. given: what the reading gave."""
    readout, reading = probe.readout, probe.reading
    if readout is None or not len(readout.positions):
        return {}
    best = readout.logits(given).argmax(-1, keepdim=True)

    def metric() -> float:
        rows = readout.logits(reading.run()).float()
        return float((rows if rows.shape[1] == 1 else rows.log_softmax(-1)).gather(1, best).mean())

    return head_importance(reading.model, metric)
