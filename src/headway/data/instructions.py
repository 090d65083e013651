"""Instructions with exact answers, generated: ten kinds, each in several phrasings.

    kind    an instruction                          its answer
    reverse "Write the letters t a b u backwards."  "u b a t"

The content of an instruction (here t a b u) decides by its hash whether it is held out, and three
phrasings of each kind are never learned. So two things can be measured: known phrasings with new
contents, and new phrasings with new contents. An opposite cannot be computed: held out are some
words in some phrasings. Letters are written apart, because a tokenizer of sub-words would hide them
from the model.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from string import ascii_lowercase

from headway.data.split import is_held_out

HELD_OUT = 0.1
"""Fraction of the contents that are never learned."""

_NOUNS = """
    apple bag ball bear bell bird boat book box bread bridge bus cake car cat chair clock cloud
    coat corn cow cup desk dog door duck egg farm fish flag flower fox frog garden girl goat hat
    hill horse house key king lake lamp leaf lemon letter lion map milk moon mouse nest nut
    ocean park pen pig plate pond queen rain ring river road rose sail salt sea ship shoe snow
    song spoon star stone sun table tent tower train tree wall wheel wind window wolf wood
"""
NOUNS = _NOUNS.split()
VERBS = ("sees", "finds", "likes", "takes", "paints", "carries", "follows", "hears", "keeps")

_PAIRS = """
    hot cold, big small, tall short, fast slow, old new, wet dry, full empty, open closed,
    loud quiet, hard soft, light dark, high low, early late, rich poor, happy sad, good bad,
    near far, left right, up down, in out, day night, hill valley, summer winter, push pull,
    first last, strong weak, clean dirty, deep shallow, thick thin, wide narrow, sweet sour,
    true false, brave afraid, north south, east west, begin end, buy sell, give take, win lose,
    laugh cry
"""
OPPOSITES = {
    word: opposite
    for first, second in (pair.split() for pair in _PAIRS.split(","))
    for word, opposite in ((first, second), (second, first))
}
ORDINALS = ("first", "second", "third", "last")

Values = dict[str, str]
"""The parts of an instruction by name; `answer` is one of them."""


def _letters(random: Random) -> str:
    return " ".join(random.choices(ascii_lowercase, k=random.randint(3, 5)))


def _nouns(random: Random, least: int, most: int) -> list[str]:
    return random.sample(NOUNS, random.randint(least, most))


def _repeat(random: Random) -> Values:
    words = " ".join(_nouns(random, 1, 4))
    return {"words": words, "answer": words}


def _reverse(random: Random) -> Values:
    letters = _letters(random)
    return {"letters": letters, "answer": letters[::-1]}


def _upper(random: Random) -> Values:
    letters = _letters(random)
    return {"letters": letters, "answer": letters.upper()}


def _count(random: Random) -> Values:
    words = _nouns(random, 1, 6)
    return {"words": " ".join(words), "answer": str(len(words))}


def _add(random: Random) -> Values:
    first, second = random.randint(0, 19), random.randint(0, 19)
    return {"first": str(first), "second": str(second), "answer": str(first + second)}


def _sort(random: Random) -> Values:
    digits = random.sample("0123456789", random.randint(3, 4))
    return {"digits": " ".join(digits), "answer": " ".join(sorted(digits))}


def _nth(random: Random) -> Values:
    words = _nouns(random, 3, 5)
    ordinal = random.choice(ORDINALS)
    position = -1 if ordinal == "last" else ORDINALS.index(ordinal)
    return {"ordinal": ordinal, "words": " ".join(words), "answer": words[position]}


def _member(random: Random) -> Values:
    words = _nouns(random, 1, 4)
    is_member = random.random() < 0.5
    word = random.choice(words if is_member else [w for w in NOUNS if w not in words])
    return {"word": word, "words": " ".join(words), "answer": "yes" if is_member else "no"}


def _opposite(random: Random) -> Values:
    word = random.choice(list(OPPOSITES))
    return {"word": word, "answer": OPPOSITES[word]}


def _extract(random: Random) -> Values:
    words = _nouns(random, 2, 5)
    answer = random.choice(words)
    text = " ".join(f"[{word}]" if word == answer else word for word in words)
    return {"words": text, "answer": answer}


@dataclass(frozen=True)
class Kind:
    """A kind of instruction.

    values: draws the content and its answer. phrasings: those that are learned. new_phrasings:
    those that are only tested. facts: sentences that state the answer, for pre-training.
    """

    values: Callable[[Random], Values]
    phrasings: tuple[str, ...]
    new_phrasings: tuple[str, ...]
    facts: tuple[str, ...]


KINDS: Mapping[str, Kind] = {
    "repeat": Kind(
        _repeat,
        (
            "Repeat: {words}",
            "Repeat these words: {words}",
            "Say this: {words}",
            "Say after me: {words}",
            "Write this again: {words}",
            "Copy this text: {words}",
            "Please copy: {words}",
            "Copy the words {words}",
        ),
        ("Please repeat: {words}", "Say again: {words}", "Repeat this text: {words}"),
        (
            "Ann says: {words}. Ben repeats: {answer}.",
            "The words {words} again: {answer}.",
            "Ann writes {words} and Ben copies {answer}.",
        ),
    ),
    "reverse": Kind(
        _reverse,
        (
            "Reverse: {letters}",
            "Reverse the letters {letters}",
            "Reverse the letters: {letters}",
            "Write {letters} backwards",
            "Write the letters {letters} backwards.",
            "Spell {letters} backwards",
            "What is {letters} backwards?",
            "Please reverse {letters}",
        ),
        (
            "Please write {letters} backwards",
            "Reverse these letters: {letters}",
            "Spell backwards: {letters}",
        ),
        (
            "The letters {letters} backwards are {answer}.",
            "From the end, {letters} is {answer}.",
            "Ann spells {letters} and Ben reverses it: {answer}.",
        ),
    ),
    "upper": Kind(
        _upper,
        (
            "In capitals: {letters}",
            "Write {letters} in capitals",
            "Write the letters {letters} in upper case.",
            "Write in upper case: {letters}",
            "Change {letters} to upper case",
            "What is {letters} in upper case?",
            "Put {letters} in capitals",
            "Upper case: {letters}",
        ),
        (
            "Please write {letters} in capitals",
            "Put in upper case: {letters}",
            "What is {letters} in capitals?",
        ),
        (
            "The letters {letters} in capitals are {answer}.",
            "In upper case {letters} is {answer}.",
            "Ann writes {letters} and Ben puts it in capitals: {answer}.",
        ),
    ),
    "count": Kind(
        _count,
        (
            "How many words: {words}",
            "How many words are in: {words}",
            "Count the words: {words}",
            "Count the words in {words}",
            "Count how many words there are: {words}",
            "What is the number of words in: {words}",
            "Number of words: {words}",
            "Please count the words: {words}",
        ),
        (
            "How many words are there: {words}",
            "Tell the number of words: {words}",
            "Please count: {words}",
        ),
        (
            "The number of words in {words} is {answer}.",
            "There are {answer} words: {words}.",
            "Ann says {words} and Ben counts the words: {answer}.",
        ),
    ),
    "add": Kind(
        _add,
        (
            "{first} + {second} =",
            "What is {first} + {second}?",
            "Add {first} and {second}",
            "Add the numbers {first} and {second}.",
            "Sum of {first} and {second}",
            "What is the sum of {first} and {second}?",
            "Compute {first} + {second}",
            "How much is {first} + {second}?",
        ),
        (
            "Compute the sum of {first} and {second}",
            "Please add {first} and {second}",
            "How much is {first} and {second}?",
        ),
        (
            "The sum of {first} and {second} is {answer}: {first} + {second} = {answer}.",
            "Ben adds {first} and {second} and finds {answer}.",
            "{first} + {second} is {answer}, so {answer} is the sum.",
        ),
    ),
    "sort": Kind(
        _sort,
        (
            "Sort: {digits}",
            "Sort the digits {digits}",
            "Sort the numbers: {digits}",
            "Put in order: {digits}",
            "Put these numbers in order: {digits}",
            "Order the digits {digits}",
            "Write in order: {digits}",
            "Please sort {digits}",
        ),
        (
            "Sort these digits: {digits}",
            "Please put in order: {digits}",
            "Write the numbers in order: {digits}",
        ),
        (
            "The digits {digits} in order are {answer}.",
            "Ann sorts {digits} and finds {answer}.",
            "In order the numbers {digits} are {answer}.",
        ),
    ),
    "nth": Kind(
        _nth,
        (
            "The {ordinal} word of: {words}",
            "What is the {ordinal} word of: {words}",
            "What is the {ordinal} word in {words}?",
            "Give the {ordinal} word: {words}",
            "Which word is the {ordinal} one: {words}",
            "Take the {ordinal} word of {words}",
            "Find the {ordinal} word: {words}",
            "{words}: what is the {ordinal} word?",
        ),
        (
            "Which is the {ordinal} word of: {words}",
            "Give the {ordinal} word in {words}",
            "Please find the {ordinal} word: {words}",
        ),
        (
            "In {words} the {ordinal} word is {answer}.",
            "The words are {words}, and the {ordinal} one is {answer}.",
            "Ann says {words}: {answer} is the {ordinal} word.",
        ),
    ),
    "member": Kind(
        _member,
        (
            "Is {word} in: {words}",
            "Is {word} among these: {words}",
            "Is the word {word} in this list: {words}",
            "Does the list have {word}? {words}",
            "Is there a {word} in: {words}",
            "Yes or no: is {word} in {words}",
            "Can you find {word} in: {words}",
            "{words}: is {word} there?",
        ),
        (
            "Is {word} in this list: {words}",
            "Is the word {word} among these: {words}",
            "Yes or no: is there a {word} in {words}",
        ),
        (
            "Is {word} in {words}? {answer}.",
            "Ann looks for {word} in {words}: {answer}.",
            "The list is {words}. Has it {word}? {answer}.",
        ),
    ),
    "opposite": Kind(
        _opposite,
        (
            "Opposite of {word}",
            "What is the opposite of {word}?",
            "The opposite of {word} is",
            "Give the opposite of {word}",
            "Which word is the opposite of {word}?",
            "Write the opposite of {word}.",
            "Name the opposite of {word}",
            "{word}: what is the opposite?",
        ),
        (
            "Please give the opposite of {word}",
            "What word is the opposite of {word}?",
            "Tell the opposite of {word}",
        ),
        (
            "The opposite of {word} is {answer}.",
            "Ann says {word} and Ben the opposite, {answer}.",
            "What is {word} is not {answer}.",
        ),
    ),
    "extract": Kind(
        _extract,
        (
            "Which word is in brackets: {words}",
            "What is in brackets: {words}",
            "Give the word in brackets: {words}",
            "Find the word in brackets: {words}",
            "The word in brackets: {words}",
            "Take the word in brackets from {words}",
            "{words}: what is in brackets?",
            "Write the word in brackets: {words}",
        ),
        (
            "Please give the word in brackets: {words}",
            "What word is in brackets: {words}",
            "Name the word in brackets: {words}",
        ),
        (
            "In {words} the word in brackets is {answer}.",
            "Ann writes {words}, so {answer} is in brackets.",
            "The brackets in {words} are around {answer}.",
        ),
    ),
}
KNOWN_FACTS = ("opposite",)
"""Kinds whose answers cannot be computed from the instruction. A model knows all of them from its
text, so that what is held out is a content in a phrasing, not the content."""


@dataclass(frozen=True)
class Instruction:
    """An instruction of a kind, and its only right answer."""

    kind: str
    question: str
    answer: str


def _held_out(kind: str, values: Values, phrasing: str) -> bool:
    parts = (kind, phrasing) if kind in KNOWN_FACTS else (kind,)
    return is_held_out(" ".join((*parts, *values.values())), HELD_OUT)


def _drawn(
    kind: str, random: Random, phrasings: tuple[str, ...], *, held_out: bool
) -> tuple[str, Values]:
    """Return one of the phrasings, and a content that is held out in it, or is not."""
    while True:
        phrasing, values = random.choice(phrasings), KINDS[kind].values(random)
        if _held_out(kind, values, phrasing) == held_out:
            return phrasing, values


def instruction(
    kind: str, random: Random, *, held_out: bool = False, new_phrasing: bool = False
) -> Instruction:
    """Return a random instruction. held_out: with a content that is not learned. new_phrasing: in a
    phrasing that is not learned."""
    phrasings = KINDS[kind].new_phrasings if new_phrasing else KINDS[kind].phrasings
    phrasing, values = _drawn(kind, random, phrasings, held_out=held_out)
    return Instruction(kind, phrasing.format(**values), values["answer"])


def pretraining_lines(random: Random, count: int) -> Iterator[str]:
    """Yield lines of the same vocabulary, one of four of which tells a little story.

    The others state facts of all kinds, in several forms, but of no content that is held out.
    """
    for number in range(count):
        if number % 4 == 0:
            first, second, third = (random.choice(NOUNS) for _ in range(3))
            yield f"The {first} {random.choice(VERBS)} the {second}. It is near the {third}."
            continue
        kind = random.choice(list(KINDS))
        fact, values = _drawn(kind, random, KINDS[kind].facts, held_out=False)
        yield fact.format(**values)
