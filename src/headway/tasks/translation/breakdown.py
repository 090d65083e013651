"""Scores of translations by the length of their sources, and by their direction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.evaluation import score_against_several, score_translations
from headway.evaluation.bleu import DEFAULT
from headway.tasks.translation.pair_files import Pair

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


def scores_by_direction(
    pairs: Sequence[Pair], references: Sequence[Sequence[str]], outputs: Sequence[str]
) -> dict[str, Any]:
    """Return BLEU, chrF and the number of sentences of each direction, if there are several."""
    names = sorted({pair.direction for pair in pairs})
    if len(names) < 2:
        return {}
    scores: dict[str, dict[str, float]] = {}
    for name in names:
        chosen = [i for i, pair in enumerate(pairs) if pair.direction == name]
        of_direction = score_against_several(
            [outputs[i] for i in chosen], [references[i] for i in chosen], DEFAULT
        )
        scores[name] = {**of_direction.scores, "sentences": len(chosen)}
    return {"by_direction": scores}
