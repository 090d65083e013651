"""BLEU of translations by the length of their sources."""

from __future__ import annotations

from collections.abc import Sequence

from headway.data.formats import Pair
from headway.evaluation import score_translations

GROUPS = 5
"""Number of groups of sentences by source length, of equal size."""


def bleu_by_length(pairs: Sequence[Pair], outputs: Sequence[str]) -> list[tuple[int, int, float]]:
    """Return (minimum source words, maximum, BLEU) of `GROUPS` groups of equal size.

    The shortest sentences come first; those of the same length are in the same group.
    """
    lengths = [len(pair.source.split()) for pair in pairs]
    ordered = sorted(lengths)
    edges = sorted({ordered[i * len(ordered) // GROUPS] for i in range(1, GROUPS)})
    groups: list[tuple[int, int, float]] = []
    for low, high in zip([0, *edges], [*edges, ordered[-1] + 1], strict=True):
        chosen = [i for i, length in enumerate(lengths) if low <= length < high]
        if chosen:
            scores = score_translations(
                [outputs[i] for i in chosen], [pairs[i].target for i in chosen], ["bleu"]
            )
            group_lengths = [lengths[i] for i in chosen]
            groups.append((min(group_lengths), max(group_lengths), scores.bleu))
    return groups
