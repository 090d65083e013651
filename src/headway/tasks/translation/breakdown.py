"""Scores of translations by parts: sentence length, direction, and frequency of the words.

F1 by how often a word is in the training data: Neubig et al. 2019, "compare-mt", section 3.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headway.evaluation import score_against_several, score_translations
from headway.evaluation.bleu import DEFAULT
from headway.tasks.translation.pair_files import Pair

GROUPS = 5
"""Number of groups of sentences by source length, of equal size."""

EDGES = (0, 1, 2, 5, 10, 100, 1000)
"""Least frequency of each group of words."""


def bleu_by_length(pairs: Sequence[Pair], outputs: Sequence[str]) -> list[tuple[int, int, float]]:
    """Return (minimum source words, maximum, BLEU) of `GROUPS` groups of equal size.

    The shortest sentences come first; those of the same length are in the same group.
    """
    lengths = [len(pair.source.split()) for pair in pairs]
    ordered = sorted(lengths)
    edges = sorted({ordered[i * len(ordered) // GROUPS] for i in range(1, GROUPS)})
    groups: list[tuple[int, int, float]] = []
    for low, high in pairwise([0, *edges, ordered[-1] + 1]):
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
) -> dict[str, dict[str, float]]:
    """Return BLEU, chrF and the number of sentences of each direction, if there are several."""
    names = sorted({pair.direction for pair in pairs})
    scores: dict[str, dict[str, float]] = {}
    for name in names if len(names) > 1 else ():
        chosen = [i for i, pair in enumerate(pairs) if pair.direction == name]
        of_direction = score_against_several(
            [outputs[i] for i in chosen], [references[i] for i in chosen], DEFAULT
        )
        scores[name] = {**of_direction.scores, "sentences": len(chosen)}
    return scores


@dataclass(frozen=True)
class WordGroup:
    """F1 of the words with `least` to `most` occurrences in training; most: None without limit.

    words: their number in the references. f1: 0 to 100.
    """

    least: int
    most: int | None
    words: int
    f1: float


def word_counts(texts: Iterable[str]) -> Counter[str]:
    """Count the words of texts, by the tokenization of BLEU (13a), cased."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(_words(text))
    return counts


def f1_by_frequency(
    outputs: Sequence[str], references: Sequence[str], frequency: Mapping[str, int]
) -> list[WordGroup]:
    """Return F1 of each group of words that is in a reference, rarest first.

    A word of an output is correct if it is in the reference, each occurrence once.
    """
    written, wanted, correct = (Counter[int]() for _ in range(3))
    for output, reference in zip(outputs, references, strict=True):
        ours, theirs = Counter(_words(output)), Counter(_words(reference))
        for words, total in ((ours, written), (theirs, wanted), (ours & theirs, correct)):
            for word, count in words.items():
                total[_group(frequency.get(word, 0))] += count
    limits: list[tuple[int, int | None]] = [(low, high - 1) for low, high in pairwise(EDGES)]
    limits.append((EDGES[-1], None))
    return [
        WordGroup(*limits[i], wanted[i], 200 * correct[i] / (written[i] + wanted[i]))
        for i in sorted(wanted)
    ]


def _group(frequency: int) -> int:
    return sum(frequency >= edge for edge in EDGES) - 1


def _words(text: str) -> list[str]:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    tokenize: Callable[[str], str] = Tokenizer13a()  # type: ignore[no-untyped-call]
    return tokenize(text).split()
