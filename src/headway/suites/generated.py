"""Suites that are generated: their chance level is exact, and no model has seen their rows.

Agreement, polarity and garden paths are minimal pairs of English, as in BLiMP (Warstadt et al.
2020); induction, copying and arithmetic need no language, and models of any size can be trained for
them.
"""

import hashlib
from collections.abc import Callable
from random import Random

from headway.suites.layouts import Layout
from headway.suites.prompts import minimal_pair
from headway.suites.questions import Choice
from headway.suites.reading import Part, Suite

ROWS = 200
"""Rows of a suite, unless a limit is given."""
EXAMPLES = 400
"""Rows of the training part, of which the examples of prompts are drawn."""
OPTIONS = 4

NOUNS = (
    *("baker", "pilot", "owl", "doctor", "neighbour", "painter", "lawyer", "farmer"),
    *("clerk", "miller", "sailor", "singer", "teacher", "guard", "poet", "cook"),
)
THINGS = ("table", "window", "boat", "garden", "lamp", "bridge", "statue", "kettle", "wagon")
PLACES = ("near", "behind", "beside", "next to", "in front of")
VERBS = ("sleeps", "laughs", "waits", "sings", "works", "smiles", "listens", "arrives")
OBJECTS = ("a boat", "a letter", "the clock", "an old song", "the harbour", "a red kite")
PARTICIPLES = ("painted", "repaired", "found", "described", "sold", "forgotten")
WORDS = (
    *("lamp", "kite", "drum", "moon", "leaf", "stone", "door", "bell", "rope", "coin"),
    *("bread", "chair", "glass", "horse", "river", "cloud", "apple", "shirt", "train", "wheel"),
)
AMBIGUOUS = (
    *("cooked", "painted", "cleaned", "ate", "hunted", "read", "followed", "drew", "washed"),
)


def agreement(random: Random) -> tuple[str, Choice]:
    """The verb agrees with its subject, whatever stands between them (Linzen et al. 2016)."""
    attractors = random.randrange(3)
    singular = random.random() < 0.5
    subject, verb = random.choice(NOUNS), random.choice(VERBS)
    between = "".join(
        f" {random.choice(PLACES)} the {random.choice(THINGS)}{'s' if singular else ''}"
        for _ in range(attractors)
    )
    start = f"The {subject}{'' if singular else 's'}{between}"
    right, wrong = (verb, verb[:-1]) if singular else (verb[:-1], verb)
    name = f"{attractors} attractor{'' if attractors == 1 else 's'}"
    return name, Choice(choices=(f"{start} {right}.", f"{start} {wrong}."), gold=0)


def polarity(random: Random) -> tuple[str, Choice]:
    """ "Ever" needs a negation before it that has scope over it."""
    subject, other = random.sample(NOUNS, 2)
    verb, thing = random.choice(PARTICIPLES), random.choice(OBJECTS)
    if random.random() < 0.5:
        pair = tuple(f"{word} {subject} has ever {verb} {thing}." for word in ("No", "The"))
        return "negated subject", Choice(choices=pair, gold=0)
    ends = f"has ever {verb} {thing}."
    pair = (
        f"No {subject} that the {other} knows {ends}",
        f"The {subject} that no {other} knows {ends}",
    )
    return "scope", Choice(choices=pair, gold=0)


def garden_paths(random: Random) -> tuple[str, Choice]:
    """The verb after a noun is more probable if a comma has kept the noun from being an object.

    The choices are prompts: P(verb | with comma) and P(verb | without), as in Futrell et al. 2019.
    """
    subject, other = random.sample(NOUNS, 2)
    verb, second = random.choice(AMBIGUOUS), random.choice(VERBS)
    word = random.choice(("While", "As", "When", "After"))
    starts = tuple(f"{word} the {subject} {verb}{comma} the {other}" for comma in (",", ""))
    past = {"sleeps": "slept", "sings": "sang"}.get(second, f"{second[:-1]}ed".replace("eed", "ed"))
    return "comma", Choice(choices=starts, ending=f"{past}.", gold=0)


def induction(random: Random) -> tuple[str, Choice]:
    """... A B ... A -> B: what followed a word before follows it again (Olsson et al. 2022)."""
    words = random.sample(WORDS, 8)
    place = random.randrange(len(words) - 1)
    options = random.sample([word for word in words if word != words[place + 1]], OPTIONS - 1)
    prompt = f"{' '.join(words)} {words[place]}"
    return "induction", _shuffled(random, prompt, words[place + 1], options)


def copying(random: Random) -> tuple[str, Choice]:
    """A list of words is repeated in its order."""
    words = random.sample(WORDS, 4)
    orders = {" ".join(words)}
    while len(orders) < OPTIONS:
        orders.add(" ".join(random.sample(words, len(words))))
    right = " ".join(words)
    return "copying", _shuffled(random, f"{right} =", right, sorted(orders - {right}))


def arithmetic(random: Random) -> tuple[str, Choice]:
    """Sums and differences of numbers below 100; wrong answers are near the right one."""
    a, b = sorted((random.randrange(100), random.randrange(100)), reverse=True)
    sign = random.choice("+-")
    right = a + b if sign == "+" else a - b
    near = [right + gap for gap in (-10, -2, -1, 1, 2, 10) if right + gap >= 0]
    options = [str(number) for number in random.sample(near, OPTIONS - 1)]
    name = "sums" if sign == "+" else "differences"
    return name, _shuffled(random, f"{a} {sign} {b} =", str(right), options)


def _shuffled(random: Random, prompt: str, right: str, wrong: list[str]) -> Choice:
    choices = random.sample([right, *wrong], len(wrong) + 1)
    return Choice(prompt=prompt, choices=tuple(choices), gold=choices.index(right))


GENERATED: dict[str, tuple[Callable[[Random], tuple[str, Choice]], str]] = {
    "agreement": (agreement, "agreement of verb and subject: minimal pairs"),
    "polarity": (polarity, "negative polarity: minimal pairs"),
    "garden-paths": (garden_paths, "a comma prevents a garden path"),
    "induction": (induction, "what followed a word before, of 4"),
    "copying": (copying, "a list in its order, of 4 orders"),
    "arithmetic": (arithmetic, "sums and differences below 100, of 4 answers"),
}
"""Name of a generated suite -> what makes a row, and what it measures."""


def generated(name: str, seed: int, rows: int = ROWS, examples: int = EXAMPLES) -> Suite:
    """Generate the suite of that name. Rows of the test part are in the training part only if
    there are not enough different ones."""
    make, about = GENERATED[name]
    layout = Layout(
        about=about,
        files="",
        question=minimal_pair,  # of files only: these rows are made as questions
        metrics=("acc",),
        evaluated=("test",),
    )
    random = Random(f"{name} {seed}")
    distinct: dict[Choice, str] = {}
    for _ in range(50 * (rows + examples)):
        group, question = make(random)
        distinct.setdefault(question, group)
        if len(distinct) == rows + examples:
            break
    parts = [
        Part(question, group, f"{name}, row {number}")
        for number, (question, group) in enumerate(distinct.items(), start=1)
    ]
    digest = hashlib.sha256(repr([part.question for part in parts]).encode()).hexdigest()
    rows_of = {"test": parts[:rows], "train": parts[rows:]}
    return Suite(name, layout, rows_of, {f"{name}, seed {seed}": digest})
