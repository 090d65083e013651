"""Exercise: learning the merges of byte pair encoding."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from headway.exercises.contract import Case, Exercise, Mistake
from headway.exercises.inputs import integers

Merges = list[tuple[str, str]]


def _merged(word: list[str], pair: tuple[str, str]) -> list[str]:
    """The tokens of a word with each occurrence of the pair joined, from left to right."""
    tokens: list[str] = []
    for token in word:
        if tokens and (tokens[-1], token) == pair:
            tokens[-1] += token
        else:
            tokens.append(token)
    return tokens


def _learn(
    words: dict[str, int],
    merges: int,
    *,
    weighted: bool = True,
    last_tie: bool = False,
    update: bool = True,
    rarest: bool = False,
    across: bool = False,
) -> Merges:
    split = {word: list(word) for word in words}
    learned: Merges = []
    for _ in range(merges):
        pairs: Counter[tuple[str, str]] = Counter()
        before = ""
        for word, tokens in split.items():
            if across and before:
                pairs[before, tokens[0]] += words[word]
            for pair in pairwise(tokens):
                pairs[pair] += words[word] if weighted else 1
            before = tokens[-1]
        if not update:
            for pair in learned:
                del pairs[pair]
        if not pairs:
            break
        sign = 1 if rarest else -1
        order = sorted(pairs, key=lambda pair: (sign * pairs[pair], pair))
        ties = [pair for pair in order if pairs[pair] == pairs[order[0]]]
        best = ties[-1] if last_tie else ties[0]
        learned.append(best)
        if update:
            split = {word: _merged(tokens, best) for word, tokens in split.items()}
    return learned


def _reference(words: dict[str, int], merges: int) -> Merges:
    return _learn(words, merges)


def _random(seed: int) -> tuple[dict[str, int], int]:
    letters = integers(seed, 60, 0, 4)
    words = ["".join("aber"[n] for n in letters[i : i + 5]) for i in range(0, 60, 5)]
    counts = integers(seed + 1, len(words), 1, 9)
    return dict(zip(words, counts, strict=True)), 6


EXERCISE = Exercise(
    name="byte-pair-encoding",
    equation="""
Each word is a list of tokens, at first its letters. Repeat: count the pairs of neighbouring tokens
of each word, weighted by the count of the word; join the most frequent pair everywhere.
Of equally frequent pairs the first in alphabetical order is joined (Python's order of tuples).
Stop early if no pair is left.""",
    shapes="words: count of each word\nmerges: how many pairs to join\nresult: the pairs, in order",
    signature="def learn_merges(words: dict[str, int], merges: int) -> list[tuple[str, str]]:",
    body="""
split = {word: list(word) for word in words}
learned = []
for _ in range(merges):
    pairs = Counter()
    for word, tokens in split.items():
        for pair in zip(tokens, tokens[1:]):
            pairs[pair] += words[word]
    if not pairs:
        break
    best = min(pairs, key=lambda pair: (-pairs[pair], pair))
    learned.append(best)
    for word, tokens in split.items():
        joined = []
        for token in tokens:
            if joined and (joined[-1], token) == best:
                joined[-1] += token
            else:
                joined.append(token)
        split[word] = joined
return learned""",
    imports="from collections import Counter",
    hints=(
        "`zip(tokens, tokens[1:])` gives the neighbouring pairs of a word.",
        "A word that occurs 5 times counts each of its pairs 5 times.",
        "`min(pairs, key=lambda pair: (-pairs[pair], pair))`: most frequent, then alphabetical.",
        "After each merge the words have new tokens: count again.",
    ),
    reference=_reference,
    cases=(
        Case(
            rung="worked example",
            arguments=({"low": 5, "lower": 2, "new": 3}, 2),
            expected=[("l", "o"), ("lo", "w")],
            why="l-o and o-w occur 5 + 2 = 7 times: l-o is first; then lo-w occurs 7 times",
        ),
        Case(
            rung="no pair left",
            arguments=({"ab": 1}, 5),
            expected=[("a", "b")],
            why="after one merge the word is one token, and no pair is left",
        ),
    ),
    random=_random,
    mistakes=(
        Mistake(
            lambda w, n: _learn(w, n, weighted=False),
            "the counts of the words are not used: a word that occurs 5 times counts 5 times",
        ),
        Mistake(
            lambda w, n: _learn(w, n, last_tie=True),
            "of equally frequent pairs the last in alphabetical order is joined; take the first",
        ),
        Mistake(
            lambda w, n: _learn(w, n, update=False),
            "the words are not merged: after each merge count the pairs of the new tokens",
        ),
        Mistake(
            lambda w, n: _learn(w, n, rarest=True),
            "the rarest pair is joined; take the most frequent",
        ),
        Mistake(
            lambda w, n: _learn(w, n + 1), "one merge too many (off by one in the number of merges)"
        ),
        Mistake(
            lambda w, n: _learn(w, n - 1), "one merge too few (off by one in the number of merges)"
        ),
        Mistake(
            lambda w, n: _learn(w, n, across=True),
            "pairs are counted across the border of two words",
        ),
    ),
)
