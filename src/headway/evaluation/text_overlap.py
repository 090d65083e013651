"""Exact match, F1, ROUGE and character error rate of generated texts against references.

Of several references, the one with the best value counts, for each metric on its own.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from headway.evaluation.paired import Sums
from headway.evaluation.squad import word_f1

TEXT_METRICS = ("exact", "f1", "rouge1", "rouge2", "rougeL", "cer")


def score_texts(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, Sums]:
    """Return the metrics of `TEXT_METRICS` by name, 0 to 1; the error rate may be larger.

    exact: the fraction of outputs that equal a reference. f1: the mean F1 of the words, by the
    rules of SQuAD (`word_f1`). rouge1, rouge2, rougeL: the mean of `rouge_n` and `rouge_l`. cer:
    the number of inserted, deleted and substituted characters, divided by the number of characters
    of the references; lower is better. Raises ValueError for no outputs, or an output without a
    reference.
    """
    if len(outputs) != len(references) or not outputs or not all(references):
        raise ValueError(
            f"{len(outputs)=} and {len(references)=} must be equal and not 0, "
            "with a reference for each output"
        )
    return {
        "exact": _mean(lambda output, text: float(output == text), outputs, references),
        "f1": _mean(word_f1, outputs, references),
        "rouge1": _mean(partial(rouge_n, n=1), outputs, references),
        "rouge2": _mean(partial(rouge_n, n=2), outputs, references),
        "rougeL": _mean(rouge_l, outputs, references),
        "cer": _error_rate(outputs, references),
    }


def rouge_n(output: str, reference: str, n: int) -> float:
    """Return ROUGE-N: the F1 of the n-grams of words.

    2 * common / (n-grams of the output + n-grams of the reference), where `common` counts each
    n-gram as often as it is in both; 0 if neither has an n-gram. Lin 2004, section 2.
    """
    grams = [_grams(rouge_words(text), n) for text in (output, reference)]
    common = (grams[0] & grams[1]).total()
    return 2 * common / (grams[0].total() + grams[1].total()) if common else 0.0


def rouge_l(output: str, reference: str) -> float:
    """Return ROUGE-L: the F1 of the longest common subsequence of words. Lin 2004, section 3.1.

    2 * length of the subsequence / (words of the output + words of the reference).
    """
    a, b = rouge_words(output), rouge_words(reference)
    common = common_subsequence(a, b)
    return 2 * common / (len(a) + len(b)) if common else 0.0


def rouge_words(text: str) -> list[str]:
    """Return the words in lower case: runs of letters with their marks, and of digits.

    No word is stemmed. Of a text in ASCII, they are the words of the `rouge_score` package. Scripts
    without spaces, such as Chinese, are not divided into words.
    """
    characters = text.lower()
    return "".join(c if unicodedata.category(c)[0] in "LMN" else " " for c in characters).split()


def common_subsequence(a: Sequence[str], b: Sequence[str]) -> int:
    """Return the length of the longest common subsequence.

    One row of the table L[i, j] = L[i-1, j-1] + 1 if a_i = b_j, else max(L[i-1, j], L[i, j-1]) is
    one integer: bit j is 0 where L[i, j+1] > L[i, j]. Hyyrö 2004, "Bit-parallel LCS-length
    computation revisited".
    """
    positions = _positions(b)
    row = every = (1 << len(b)) - 1
    for item in a:
        matches = row & positions.get(item, 0)
        row = (row + matches | row - matches) & every
    return len(b) - row.bit_count()


def edit_distance(a: Sequence[str], b: Sequence[str]) -> int:
    """Return the number of insertions, deletions and substitutions from a to b. Levenshtein 1966.

    One row of the table of distances D[i, j] of the first i items of a and the first j items of b
    is two integers: bit j of `up` (`down`) is 1 where D[i, j+1] - D[i, j] is 1 (-1). Hyyrö 2001,
    "Explaining and extending the bit-parallel approximate string matching algorithm of Myers".
    """
    if not b:
        return len(a)
    positions, last = _positions(b), 1 << (len(b) - 1)
    every = (1 << len(b)) - 1
    up, down, distance = every, 0, len(b)
    for item in a:
        matches = positions.get(item, 0)
        diagonal = ((((matches & up) + up) ^ up) | matches | down) & every
        rise, fall = (down | ~(diagonal | up)) & every, up & diagonal
        distance += bool(rise & last) - bool(fall & last)
        rise, fall = rise << 1 | 1, fall << 1
        up, down = (fall | ~(diagonal | rise)) & every, rise & diagonal & every
    return distance


def _positions(items: Sequence[str]) -> Mapping[str, int]:
    """Return for each item an integer whose bit j is 1 if items[j] is that item."""
    positions: dict[str, int] = {}
    for j, item in enumerate(items):
        positions[item] = positions.get(item, 0) | 1 << j
    return positions


def _grams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def _mean(
    metric: Callable[[str, str], float],
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
) -> Sums:
    terms = [
        (max(metric(output, text) for text in texts), 1.0)
        for output, texts in zip(outputs, references, strict=True)
    ]
    return Sums(np.array(terms), lambda sums: sums[0] / sums[1])


def _error_rate(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> Sums:
    terms = [
        min(
            ((float(edit_distance(output, text)), float(len(text))) for text in texts),
            key=lambda edits: edits[0] / max(edits[1], 1),
        )
        for output, texts in zip(outputs, references, strict=True)
    ]
    return Sums(np.array(terms), lambda sums: sums[0] / max(sums[1], 1))
