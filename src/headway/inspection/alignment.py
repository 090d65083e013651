"""Which source words a translation's words look at."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from headway.attention import Kernel
from headway.bundle import Bundle, attention_of
from headway.errors import UsageError
from headway.shapes import Float, Tensor


@dataclass(frozen=True)
class Alignment:
    """weights[t, s]: share of target word t's attention that falls on source word s."""

    source: list[str]
    target: list[str]
    weights: Float[Tensor, "T S"]

    def as_dict(self) -> dict[str, object]:
        rows = [[round(float(w), 4) for w in row] for row in self.weights]
        return {"source": self.source, "target": self.target, "weights": rows}


def check_aligns(bundle: Bundle) -> None:
    """UsageError unless the model translates a text and attends to it by weights that sum to 1."""
    if bundle.inputs.modality != "text" or not bundle.inputs.target:
        raise UsageError(f"a {bundle.kind} does not translate, so there is nothing to align")
    crosses = [m for n, m in bundle.model.named_modules() if n.endswith(".cross.kernel")]
    if not any(isinstance(kernel, Kernel) and kernel.normalised for kernel in crosses):
        raise UsageError(
            f"attention={bundle.config.attention} gives no alignment",
            hint="only attention whose weights sum to 1 says how much of each word is looked at",
        )


def align(bundle: Bundle, source: str, target: str, layer: int | None = None) -> Alignment:
    """Cross-attention between whole words: heads averaged, pieces of a source word summed, pieces
    of a target word averaged. `</s>` is left out of the rows and kept as a column, since heads
    that have nothing to say look there.

    layer: decoder block, from 0; None takes the one whose attention is sharpest, that is of least
    mean entropy after averaging its heads. UsageError for a model that does not attend, or whose
    weights are no shares (scores without softmax).
    """
    check_aligns(bundle)
    probe = bundle.probe(source, target=target)
    found = attention_of(probe.reading)
    crosses = [w.mean(0) for n, w in found.maps.items() if n.endswith(".cross")]  # H T S -> T S
    if layer is not None and not 0 <= layer < len(crosses):
        raise ValueError(f"{layer=} must be between 0 and {len(crosses) - 1}")
    weights = min(crosses, key=_entropy) if layer is None else crosses[layer]
    ids, tokenizers = probe.reading.ids, probe.tokenizers
    sources = tokenizers["source"].words(ids["source"])
    targets = tokenizers["target"].words(ids["target"][:-1])  # without </s>
    columns = torch.stack([weights[:, places].sum(1) for _, places in sources], dim=1)
    rows = [columns[places].mean(0) for _, places in targets]
    return Alignment(
        [word for word, _ in sources],
        [word for word, _ in targets],
        torch.stack(rows) if rows else columns[:0],
    )


def links(found: Alignment) -> set[tuple[int, int]]:
    """(source word, target word): each target word is linked to the source word that it looks at
    most, and to none where that is </s>. Of equals the first one."""
    if not found.source or not len(found.weights):
        return set()
    end = len(found.source) - 1  # </s> stands there
    best = found.weights.argmax(1).tolist()
    return {(source, target) for target, source in enumerate(best) if source != end}


def _entropy(weights: Float[Tensor, "T S"]) -> float:
    return float(-(weights * weights.clamp_min(1e-12).log()).sum(-1).mean())
