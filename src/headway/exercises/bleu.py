"""Exercise: corpus BLEU."""

from headway.exercises.contract import Case, Exercise, Mistake
from headway.exercises.inputs import integers

Texts = list[list[str]]


def _random(seed: int) -> tuple[object, ...]:
    outputs: Texts = []
    references: Texts = []
    for sentence in range(3):
        numbers = integers(seed * 7 + sentence, 14, 0, 5)
        reference = [f"w{number}" for number in numbers]
        output = reference[: 8 + seed] if sentence else ["w0", "w0", *reference[2:9]]
        outputs.append(output)
        references.append(reference if seed % 2 else reference[:8])
    return outputs, references


def _words(text: str) -> list[str]:
    return text.split()


EXERCISE = Exercise(
    name="bleu",
    equation="""
BLEU = 100 BP (p1 p2 p3 p4)^(1/4)
p_n: correct n-grams / n-grams of the outputs, both summed over all sentences. An n-gram of an
output is correct at most as often as its reference has it (clipping).
BP = 1 if the outputs have at least as many words as the references, else exp(1 - r/c), with r
words in the references and c in the outputs. If a p_n is 0, BLEU is 0.""",
    shapes="outputs, references: lists of sentences, each a list of words\nresult: 0 to 100",
    signature="def bleu(outputs: list[list[str]], references: list[list[str]]) -> float:",
    body="""
log_p = 0.0
for n in range(1, 5):
    correct = total = 0
    for output, reference in zip(outputs, references):
        ours, theirs = (
            Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
            for words in (output, reference)
        )
        correct += sum((ours & theirs).values())
        total += sum(ours.values())
    if not correct:
        return 0.0
    log_p += math.log(correct / total) / 4
c, r = sum(map(len, outputs)), sum(map(len, references))
return 100 * math.exp(min(0.0, 1 - r / c) + log_p)""",
    imports="import math\nfrom collections import Counter",
    hints=(
        "`Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))` counts n-grams.",
        "`ours & theirs` of two Counters is the smaller count of each n-gram: clipping.",
        "Sum numerators and denominators over all sentences before dividing.",
        "The geometric mean is exp of the mean of the logarithms.",
    ),
    cases=(
        Case(
            rung="perfect output",
            arguments=([_words("the old dog sleeps well")], [_words("the old dog sleeps well")]),
            expected=100.0,
            why="an output that equals its reference has 100",
        ),
        Case(
            rung="worked example",
            arguments=([_words("a b c d e x")], [_words("a b c d e f")]),
            expected=75.9836,
            why="p = 5/6, 4/5, 3/4, 2/3; product 1/3; (1/3)^(1/4) = 0.7598",
        ),
        Case(
            rung="brevity penalty",
            arguments=([_words("a b c d")], [_words("a b c d e f")]),
            expected=60.6531,
            why="all n-grams are correct, but 4 words instead of 6: exp(1 - 6/4) = 0.6065",
        ),
        Case(
            rung="no correct n-gram",
            arguments=([_words("a b x c d")], [_words("a b y c d")]),
            expected=0.0,
            why="no trigram is correct: BLEU is 0, and the logarithm of 0 must not be taken",
        ),
    ),
    random=_random,
    mistakes=(
        Mistake(
            "clipping is missing: an n-gram counts at most as often as its reference has it",
            {"(ours & theirs).values()": "n for gram, n in ours.items() if gram in theirs"},
        ),
        Mistake("the brevity penalty is missing", {"min(0.0, 1 - r / c) + ": ""}),
        Mistake("r and c of the brevity penalty are swapped: exp(1 - r/c)", {"r / c": "c / r"}),
        Mistake(
            "the precisions are averaged; BLEU has their geometric mean",
            {
                "math.log(correct / total) / 4": "correct / total / 4",
                "math.exp(min(0.0, 1 - r / c) + log_p)": "math.exp(min(0.0, 1 - r / c)) * log_p",
            },
        ),
        Mistake(
            "4-grams are missing (off by one): n is 1, 2, 3, 4",
            {"range(1, 5)": "range(1, 4)", "/ 4": "/ 3"},
        ),
        Mistake(
            "the n-grams of the references are the denominator: that is recall",
            {"sum(ours.values())": "sum(theirs.values())"},
        ),
        Mistake(
            "the scores of sentences are averaged; corpus BLEU sums the counts over all sentences "
            "first",
            {
                "log_p = 0.0": (
                    "if len(outputs) > 1:\n"
                    "    pairs = zip(outputs, references)\n"
                    "    return sum(bleu([o], [r]) for o, r in pairs) / len(outputs)\n"
                    "log_p = 0.0"
                )
            },
        ),
        Mistake("BLEU is from 0 to 100: the factor 100 is missing", {"100 * ": ""}),
        Mistake(
            "long outputs are penalised, too: the brevity penalty is at most 1",
            {"min(0.0, 1 - r / c)": "1 - r / c"},
        ),
        Mistake(
            "the scores with 1 to 4 n-gram orders are averaged; average log p_n once",
            {
                "log_p = 0.0": (
                    "c, r = sum(map(len, outputs)), sum(map(len, references))\nlog_p = score = 0.0"
                ),
                "return 0.0": "break",
                " / 4": ("\n    score += 25 * math.exp(min(0.0, 1 - r / c) + log_p / n)"),
                "100 * math.exp(min(0.0, 1 - r / c) + log_p)": "score",
            },
        ),
    ),
)
