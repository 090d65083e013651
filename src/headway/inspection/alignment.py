"""Word alignments of a translation, from cross-attention."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from headway.attention import Kernel
from headway.base.errors import UsageError
from headway.base.shapes import Float, Tensor
from headway.bundle import Bundle, Probe, attention_of


@dataclass(frozen=True)
class Alignment:
    """weights[t, s]: fraction of the attention of target word t that falls on source word s."""

    source: list[str]
    target: list[str]
    weights: Float[Tensor, "T S"]

    def as_dict(self) -> dict[str, object]:
        rows = [[round(float(w), 4) for w in row] for row in self.weights]
        return {"source": self.source, "target": self.target, "weights": rows}


def check_aligns(bundle: Bundle) -> None:
    """Raise UsageError unless the model translates and its cross-attention weights sum to 1."""
    if bundle.inputs.modality != "text" or not bundle.inputs.target:
        raise UsageError(
            f"a {bundle.kind} does not translate, so that there are no words to align; use a "
            "translation model"
        )
    crosses = [m for n, m in bundle.model.named_modules() if n.endswith(".cross.kernel")]
    if not any(isinstance(kernel, Kernel) and kernel.normalised for kernel in crosses):
        raise UsageError(
            f"attention={bundle.config.attention} gives no alignment",
            hint="alignments need attention weights that sum to 1, that is a score with softmax",
        )


def align(bundle: Bundle, source: str, target: str, layer: int | None = None) -> Alignment:
    """Return the cross-attention between whole words: the mean over heads, the sum over the tokens
    of a source word, and the mean over the tokens of a target word. `</s>` has no row, but a
    column, because heads attend to it when no source word fits; it is the last one, and has the
    sum over all special tokens of the source.

    layer: decoder block, counted from 0; if None, the head that was trained to align
    (`alignment_head`), or the layer with the smallest mean entropy after averaging its heads.
    Raises UsageError for a model without cross-attention, or whose weights do not sum to 1 (scores
    without softmax).
    """
    check_aligns(bundle)
    probe = bundle.probe(source, target=target)
    maps = _maps(probe)
    trained = alignment_head(bundle)
    if layer is None and trained is not None:
        return _between_words(probe, {trained: maps[trained]})[trained]
    means = {head: weights for head, weights in maps.items() if head.head is None}
    if layer is not None and not 0 <= layer < len(means):
        raise ValueError(f"{layer=} must be between 0 and {len(means) - 1}")
    chosen = min(means, key=lambda head: _entropy(means[head])) if layer is None else Head(layer)
    return _between_words(probe, {chosen: means[chosen]})[chosen]


@dataclass(frozen=True, order=True)
class Head:
    """A head of cross-attention, layer and head counted from 0. head: None for the mean of all.

    As text, both are counted from 1, as on the command line and on the inspection page.
    """

    layer: int
    head: int | None = None

    def __str__(self) -> str:
        head = "all heads" if self.head is None else f"head {self.head + 1}"
        return f"layer {self.layer + 1}, {head}"


def alignment_head(bundle: Bundle) -> Head | None:
    """Return the head that gives the alignments of a model trained with guided alignment.

    None for a model without such a head.
    """
    layer = getattr(bundle.config, "alignment_layer", None)
    return None if layer is None else Head(layer, 0)


def align_by_head(bundle: Bundle, source: str, target: str) -> dict[Head, Alignment]:
    """Return the alignment of every cross-attention head, and of the mean of each layer's heads.

    Raises UsageError as `align` does.
    """
    check_aligns(bundle)
    probe = bundle.probe(source, target=target)
    return _between_words(probe, _maps(probe))


def entropy_by_head(bundle: Bundle, pairs: Sequence[tuple[str, str]]) -> dict[Head, float]:
    """Return the mean entropy of each head's attention over sentence pairs, in nats."""
    check_aligns(bundle)
    totals: dict[Head, float] = {}
    for source, target in pairs:
        for head, weights in _maps(bundle.probe(source, target=target)).items():
            totals[head] = totals.get(head, 0.0) + _entropy(weights) / len(pairs)
    return totals


def _maps(probe: Probe) -> dict[Head, Float[Tensor, "T S"]]:
    """Return the cross-attention between tokens: of each head, and the mean of each layer."""
    attention = attention_of(probe.reading)
    crosses = [w for n, w in attention.maps.items() if n.endswith(".cross")]  # each H T S
    maps = {Head(layer): weights.mean(0) for layer, weights in enumerate(crosses)}
    for layer, weights in enumerate(crosses):
        maps |= {Head(layer, head): of_head for head, of_head in enumerate(weights)}
    return maps


def _between_words(
    probe: Probe, maps: Mapping[Head, Float[Tensor, "T S"]]
) -> dict[Head, Alignment]:
    """Sum attention between tokens over source words, and average it over target words."""
    ids, tokenizers = probe.reading.ids, probe.tokenizers
    sources = _words(tokenizers["source"], ids["source"])
    targets = _words(tokenizers["target"], ids["target"])[:-1]
    alignments = {}
    for head, weights in maps.items():
        columns = torch.stack([weights[:, positions].sum(1) for _, positions in sources], dim=1)
        rows = [columns[positions].mean(0) for _, positions in targets]
        alignments[head] = Alignment(
            [word for word, _ in sources],
            [word for word, _ in targets],
            torch.stack(rows) if rows else columns[:0],
        )
    return alignments


def _words(tokenizer: Any, ids: Sequence[int]) -> list[tuple[str, list[int]]]:
    """Return the words of a sentence with the positions of their tokens, and </s> at the end with
    the positions of all special tokens."""
    special = set(tokenizer.special_ids.values())
    words = tokenizer.words(ids)
    plain = [word for word in words if ids[word[1][0]] not in special]
    rest = [position for position, index in enumerate(ids) if index in special]
    return [*plain, ("</s>", rest)]


def links(alignment: Alignment) -> set[tuple[int, int]]:
    """Return the links (source word, target word): each target word is linked to the source word
    with the largest weight (the first one of equals), and to none if that is </s>."""
    if not alignment.source or not len(alignment.weights):
        return set()
    end = len(alignment.source) - 1  # index of </s>
    best = alignment.weights.argmax(1).tolist()
    return {(source, target) for target, source in enumerate(best) if source != end}


def _entropy(weights: Float[Tensor, "T S"]) -> float:
    return float(-(weights * weights.clamp_min(1e-12).log()).sum(-1).mean())
