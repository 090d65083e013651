"""CIDEr-D: similarity of a caption to human captions of the same image."""

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
    """Return the CIDEr-D score of each output, 0 to 10; the score of a corpus is their mean.

    CIDEr-D(c, S) = 10 / m sum_j 1/4 sum_n exp(-(l(c) - l(s_j))^2 / (2 sigma^2))
                    min(g_n(c), g_n(s_j)) . g_n(s_j) / (|g_n(c)| |g_n(s_j)|)

    g_n: the counts of the n-grams of n words, each times log(images / images with the n-gram in a
    reference). l: the number of words. sigma = 6. Rare n-grams have more weight; repeated n-grams
    and another length lower the score. Vedantam et al. 2015, section 4 and appendix; counts are
    not normalised, as in the released code. Words are runs of letters and digits in lower case;
    the released code uses another tokenizer, so that its scores differ slightly.

    references: at least one caption for each image. An n-gram in the references of every image has
    weight 0; with one image alone all scores are 0. Raises ValueError if the two lists differ in
    length or an image has no reference.
    """
    if len(outputs) != len(references) or not outputs:
        raise ValueError(f"{len(outputs)=} and {len(references)=} must be equal and not 0")
    if not all(references):
        raise ValueError(
            f"the image of output {[bool(texts) for texts in references].index(False)} (from 0) "
            "has no reference; each image needs at least one"
        )
    words_of = [[_words(text) for text in texts] for texts in references]
    weights, rarest = _weights(words_of), math.log(len(words_of))
    return [
        sum(_similarity(_words(output), words, weights, rarest) for words in texts) / len(texts)
        for output, texts in zip(outputs, words_of, strict=True)
    ]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _grams(words: Sequence[str], n: int) -> Counter[Gram]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def _weights(references: Sequence[Sequence[Sequence[str]]]) -> Vector:
    """Return log(images / images with the n-gram in a reference) of every n-gram of a reference."""
    images: Counter[Gram] = Counter()
    for texts in references:
        images.update({gram for words in texts for n in _LENGTHS for gram in _grams(words, n)})
    return {gram: math.log(len(references) / count) for gram, count in images.items()}


def _similarity(
    output: Sequence[str], reference: Sequence[str], weights: Vector, rarest: float
) -> float:
    """Return the similarity of one output to one reference.

    rarest: the weight of n-grams in no reference, the same as of those of one image.
    """
    total = 0.0
    for n in _LENGTHS:
        candidate, target = (
            {gram: count * weights.get(gram, rarest) for gram, count in _grams(words, n).items()}
            for words in (output, reference)
        )
        norms = _norm(candidate) * _norm(target)
        if norms:
            total += (
                sum(min(candidate.get(gram, 0.0), value) * value for gram, value in target.items())
                / norms
            )
    difference = len(output) - len(reference)
    return SCALE / LONGEST * math.exp(-(difference**2) / (2 * SIGMA**2)) * total


def _norm(vector: Vector) -> float:
    return math.sqrt(sum(value * value for value in vector.values()))
