"""Word alignments of a translation, from cross-attention."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from headway.attention import Kernel
from headway.bundle import Bundle, attention_of
from headway.errors import UsageError
from headway.shapes import Float, Tensor


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
    column, because heads attend to it when no source word fits.

    layer: decoder block, counted from 0; if None, the one with the smallest mean entropy after
    averaging its heads. Raises UsageError for a model without cross-attention, or whose weights do
    not sum to 1 (scores without softmax).
    """
    check_aligns(bundle)
    probe = bundle.probe(source, target=target)
    attention = attention_of(probe.reading)
    crosses = [w.mean(0) for n, w in attention.maps.items() if n.endswith(".cross")]  # H T S -> T S
    if layer is not None and not 0 <= layer < len(crosses):
        raise ValueError(f"{layer=} must be between 0 and {len(crosses) - 1}")
    weights = min(crosses, key=_entropy) if layer is None else crosses[layer]
    ids, tokenizers = probe.reading.ids, probe.tokenizers
    sources = tokenizers["source"].words(ids["source"])
    targets = tokenizers["target"].words(ids["target"][:-1])  # without </s>
    columns = torch.stack([weights[:, positions].sum(1) for _, positions in sources], dim=1)
    rows = [columns[positions].mean(0) for _, positions in targets]
    return Alignment(
        [word for word, _ in sources],
        [word for word, _ in targets],
        torch.stack(rows) if rows else columns[:0],
    )


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
