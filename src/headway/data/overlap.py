"""How many held-out examples occur in the training data: word for word, or nearly so.

Near copies share n-grams of words (Brown et al. 2020, GPT-3, appendix C): 13 words in a row; all
words of a shorter example must occur in a row. Fewer than 8 words in a row are shared by chance
("bird" is in "a bird in the hand"): the paper does not count them, and here an example of so few
words is a near copy only of a text that has no other words.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

WORDS = 13
FEWEST = 8
"""Words in a row below which sharing them is chance."""
_WORD = re.compile(r"\w+")
Example = TypeVar("Example")


@dataclass(frozen=True, kw_only=True)
class Sides:
    """What the training examples and the held-out examples of a run say; each is read once.

    are_texts: whether they have words, which near copies share; False for hashes of images.
    """

    train: Iterable[str]
    held_out: Iterable[str]
    are_texts: bool = True


def sides_of(splits: Iterable[Iterable[Example]], content: Callable[[Example], str]) -> Sides:
    """Return the texts of the training examples and of the held-out examples."""
    train, held_out = splits
    return Sides(train=map(content, train), held_out=map(content, held_out))


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Held-out examples against training examples.

    examples: number of different held-out examples. equal: that of those which occur in the
    training data. near: that of the others whose words occur in a training example (`overlapping`);
    None for examples without words.
    """

    examples: int
    equal: int
    near: int | None


def overlap(sides: Sides) -> Overlap:
    """Count the held-out examples that are in the training data, too."""
    rows = list(dict.fromkeys(sides.held_out))
    if not sides.are_texts:
        return Overlap(examples=len(rows), equal=len({*rows}.intersection(sides.train)), near=None)
    wanted, equal = set(rows), set[str]()

    def watched() -> Iterator[str]:
        for text in sides.train:
            if text in wanted:
                equal.add(text)
            yield text

    near = overlapping(rows, watched())
    shared = sum(is_near and row not in equal for row, is_near in zip(rows, near, strict=True))
    return Overlap(examples=len(rows), equal=len(equal), near=shared)


def overlapping(rows: Sequence[str], texts: Iterable[str], words: int = WORDS) -> list[bool]:
    """Return for each row whether some text has `words` of its words in a row.

    All words of a shorter row must occur in a row; a row of fewer than `FEWEST` words must have
    the words of the whole text. Words are compared in lower case, without punctuation. A row
    without words overlaps nothing.
    """
    wanted: dict[int, dict[tuple[str, ...], list[int]]] = {}
    for number, row in enumerate(rows):
        content = _words(row)
        size = min(words, len(content))
        if size:
            for gram in _grams(content, size):
                wanted.setdefault(size, {}).setdefault(gram, []).append(number)
    overlaps = [False] * len(rows)
    for text in texts:
        content = _words(text)
        for size, grams in wanted.items():
            if size < FEWEST and size != len(content):
                continue
            for gram in _grams(content, size):
                for number in grams.get(gram, ()):
                    overlaps[number] = True
    return overlaps


def passages(text: str, words: int = 2 * WORDS) -> Iterator[str]:
    """Yield the text in parts of `words` words, between which examples of running text are
    distinguished; the rest of a text belongs to its last part."""
    found = text.split()
    last = max(len(found) // words, 1)
    for number in range(last):
        end = None if number == last - 1 else (number + 1) * words
        yield " ".join(found[number * words : end])


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _grams(words: Sequence[str], size: int) -> Iterable[tuple[str, ...]]:
    return zip(*(words[i:] for i in range(size)), strict=False)
