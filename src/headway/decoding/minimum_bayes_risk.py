"""Minimum Bayes risk: the output that is most like all others, instead of the most probable one.

    y* = argmax over candidates y of  1/N sum over samples r of chrF(y, r)

Kumar and Byrne 2004; with samples of the model as references: Eikema and Aziz 2020.
"""

from collections.abc import Sequence


def expected_utilities(candidates: Sequence[str], samples: Sequence[str]) -> list[float]:
    """Return the mean sentence chrF of each candidate against all samples, 0 to 100.

    Raises ValueError without samples.
    """
    if not samples:
        raise ValueError("minimum Bayes risk needs at least one sample")
    from sacrebleu.metrics.chrf import CHRF

    chrf = CHRF()
    counts: dict[str, int] = {}
    for sample in samples:
        counts[sample] = counts.get(sample, 0) + 1
    utilities = {}
    for candidate in candidates:
        if candidate not in utilities:
            total = sum(
                count * chrf.sentence_score(candidate, [sample]).score
                for sample, count in counts.items()
            )
            utilities[candidate] = total / len(samples)
    return [utilities[candidate] for candidate in candidates]
