"""Exercise: learning the merges of byte pair encoding."""

from headway.exercises.contract import Case, Exercise, Mistake
from headway.exercises.inputs import integers


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
            "the counts of the words are not used: a word that occurs 5 times counts 5 times",
            {"+= words[word]": "+= 1"},
        ),
        Mistake(
            "of equally frequent pairs the last in alphabetical order is joined; take the first",
            {"min(": "max(", "(-pairs[pair]": "(pairs[pair]"},
        ),
        Mistake(
            "the words are not merged: after each merge count the pairs of the new tokens",
            {
                "if not pairs:": (
                    "for pair in learned:\n        del pairs[pair]\n    if not pairs:"
                ),
                "split[word] = joined": "pass",
            },
        ),
        Mistake(
            "the rarest pair is joined; take the most frequent",
            {"-pairs[pair], pair": "pairs[pair], pair"},
        ),
        Mistake(
            "one merge too many (off by one in the number of merges)",
            {"range(merges)": "range(merges + 1)"},
        ),
        Mistake(
            "one merge too few (off by one in the number of merges)",
            {"range(merges)": "range(merges - 1)"},
        ),
        Mistake(
            "pairs are counted across the border of two words",
            {
                "if not pairs:": (
                    "line = list(split.items())\n"
                    "    for (_, a), (word, b) in zip(line, line[1:]):\n"
                    "        pairs[a[-1], b[0]] += words[word]\n"
                    "    if not pairs:"
                )
            },
        ),
    ),
)
