"""CIDEr-D: how far a caption says what people said of the same picture."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

LONGEST = 4
SIGMA = 6.0
SCALE = 10.0
_LENGTHS = range(1, LONGEST + 1)
_WORD = re.compile(r"\w+(?:['’]\w+)*")
Gram = tuple[str, ...]
Vector = dict[Gram, float]


def cider_d(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    """The score of each output, 0 to 10; a corpus' is their mean.

    CIDEr-D(c, S) = 10 / m sum_j 1/4 sum_n exp(-(l(c) - l(s_j))^2 / (2 sigma^2))
                    min(g_n(c), g_n(s_j)) . g_n(s_j) / (|g_n(c)| |g_n(s_j)|)

    with g_n the n-grams of n words, each counted times log(pictures / pictures of whose references
    one holds it), l the number of words and sigma = 6: rare words count, to repeat one gains
    nothing, and neither does another length. Vedantam et al. 2015, section 4 and appendix.
    g counts plainly, as the released code does. Words are runs of letters and digits in lower case;
    theirs come from another tokenizer, so figures for other data agree closely, not exactly.

    references: what people said of each picture, one text at least. What stands in the references
    of every picture has no weight; with one picture alone all scores are 0. ValueError where the
    two differ in number, or a picture has no reference.
    """
    if len(outputs) != len(references) or not outputs:
        raise ValueError(f"{len(outputs)=} and {len(references)=} must be equal and not 0")
    if not all(references):
        raise ValueError("a picture has no reference")
    said = [[_words(text) for text in texts] for texts in references]
    weights, rarest = _weights(said), math.log(len(said))
    return [
        sum(_likeness(_words(output), words, weights, rarest) for words in texts) / len(texts)
        for output, texts in zip(outputs, said, strict=True)
    ]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _grams(words: Sequence[str], n: int) -> Counter[Gram]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def _weights(said: Sequence[Sequence[Sequence[str]]]) -> Vector:
    """log(pictures / pictures whose references hold it) of every n-gram that stands in one."""
    held: Counter[Gram] = Counter()
    for texts in said:
        held.update({gram for words in texts for n in _LENGTHS for gram in _grams(words, n)})
    return {gram: math.log(len(said) / count) for gram, count in held.items()}


def _likeness(
    output: Sequence[str], reference: Sequence[str], weights: Vector, rarest: float
) -> float:
    """Of one output to one reference. rarest: the weight of an n-gram that no reference holds, as
    if those of one picture did."""
    total = 0.0
    for n in _LENGTHS:
        ours, theirs = (
            {gram: count * weights.get(gram, rarest) for gram, count in _grams(words, n).items()}
            for words in (output, reference)
        )
        sizes = _size(ours) * _size(theirs)
        if sizes:
            shared = sum(min(ours.get(gram, 0.0), value) * value for gram, value in theirs.items())
            total += shared / sizes
    apart = len(output) - len(reference)
    return SCALE / LONGEST * math.exp(-(apart**2) / (2 * SIGMA**2)) * total


def _size(vector: Vector) -> float:
    return math.sqrt(sum(value * value for value in vector.values()))
