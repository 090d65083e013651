"""All text for users is in the terms of the field: settings, commands, errors and documentation.

`WORDS` lists the words to avoid, with what to write instead. A text that is not a riddle although
it matches belongs to the exceptions in the expression of that word, as narrow as possible.
"""

import re
from collections.abc import Callable

import pytest

from headway.base.settings import fields_of
from headway.runs import configurations
from tests.fixtures.user_texts import (
    ROOT,
    SOURCES,
    Text,
    error_texts,
    every_document,
    every_error,
    every_flag,
    every_setting,
    prose,
)

NOT_YET: set[str] = set()
"""Folders of src/headway, and documents, that are not yet checked; it should become empty."""

WORDS = {
    r"\b(?:word )?pieces?\b": "token, vocabulary size",
    r"(?<!question )(?<!quotation )\bmarks?\b": "special token (or: label, tag)",
    r"(?<!in )(?<!take )(?<!takes )\bplaces?\b(?! holder)": "position, path, device, location",
    r"(?<!two )(?<!three )\bplaces\b": "decimals, positions, paths",
    r"\brows?\b of (?:a |the )?(?:batch|update)": "sequences, examples; batch size",
    r"\b(?:some|any|no)body\b": "name the actor, or use the passive",
    r"\bpictures?\b(?!\.py)": "image (or: plot, figure)",
    r"\bso many\b": "the number of ...",
    r"\b(?:asked|told|said)\b": "requested, configured; name the value",
    r"\b(?:unless|as|one|those|none|what is|what was|are|is|was|were|it was|not) given\b": (
        "If unset, ...; name the value"
    ),
    r"\bstands?\b(?! for)": "is, is listed, is in",
    r"\b(?:go|goes|going|went) on\b": "continue, resume",
    r"\bgoes\b": "is, runs, is written",
    r"\bcomes?\b(?! from)(?! with)(?! first)(?! last)": "occurs, is",
    r"\b(?:sums?|shares?) of\b(?! squares)(?! log)(?! the log)": "total, fraction",
    r"\bnumber (?:type|format)s?\b": "dtype",
    r"\bbegun (?:from|with)\b": "initialised from, resumed, fine-tuned",
    r"\bfrom nothing\b": "from scratch",
    r"\blikeliest\b": "most probable, top-k",
    r"\b(?:drawn )?by chance\b": "sampled, at random",
    r"\blaws?\b": "distribution",
    r"\bby heart\b": "overfitted, memorised",
    r"\bhidden words?\b": "masked tokens",
    r"\bguess(?:es|ed|ing)?\b": "prediction, predict",
    r"\banswerers?\b": "question-answering model",
    r"\b(?:laid|lays?|laying) (?:out|over|side)\b": "arranged, applied",
    r"\b(?:told|tells?|telling) apart\b": "distinguish",
    r"\bheld against\b": "compared with",
    r"\b(?:bolder|wilder)\b": "more random",
    r"\bopens? up\b": "inspect, load",
    r"\b(?:models?|tokens?|quer(?:y|ies)|heads?|encoders?)(?: that| which)? "
    r"(?:sees?|hears?|wants?|knows?|speaks?|looks?|says?)\b": "predict, encode, attend, generate",
    r"\blooks? (?:at|back|across|ahead)\b": "attend to; inspect",
    r"\btaken for\b": "confusion matrix",
    r"\bblotted\b": "random erasing",
    r"\bnone: ": "If unset, ...",
    r"\b(?:unless|nothing) (?:said|told|asked)\b": "If unset, ...",
    r"(?:\A|^\w+\n +)of ": "begin with a noun phrase",
    r"\bnothing unless\b": "If unset, ...",
    r"\blikes?\b(?= (?:to|it))": "models do not like",
    r"\bboth ends\b": "bidirectional",
    r"\bthe same law\b": "the same distribution",
    r"\b(?:anew|aright|thereof|beforehand)\b": "again, correctly, before",
    r"\bis there already\b|\balready there\b": "exists already",
    r"\bwhat is (?=\{|'|\")": "unexpected argument ...",
}
"""Expression of a word to avoid -> what to write instead."""

NAMES = re.compile(r"`[^`\n]*`|--[\w.-]+|(?<!\w)'[\w.\[\]-]+'(?!\w)")
"""Code, flags and quoted names in a text, which are not words of a sentence."""

PATTERNS = {re.compile(word, re.IGNORECASE | re.MULTILINE): use for word, use in WORDS.items()}
ONE_PATTERN = re.compile("|".join(f"(?:{word})" for word in WORDS), re.IGNORECASE | re.MULTILINE)


def faults(texts: list[Text]) -> list[str]:
    """A line for each word to avoid: where it is, the word in its context, and the replacement."""
    lines = []
    for text in texts:
        sentences = NAMES.sub("...", text.text)
        if not ONE_PATTERN.search(sentences):
            continue
        for pattern, use in PATTERNS.items():
            for match in pattern.finditer(sentences):
                context = sentences[max(0, match.start() - 30) : match.end() + 20]
                shown = " ".join(context.split())
                lines.append(f"{text.where}: {match.group().strip()!r} in '{shown}'; write: {use}")
    return lines


def checked(texts: list[Text]) -> list[Text]:
    """The texts of folders that are not in `NOT_YET`."""
    return [text for text in texts if text.source not in NOT_YET]


GATHERED: dict[str, tuple[Callable[[], list[Text]], int]] = {
    "settings": (every_setting, 200),
    "commands and flags": (every_flag, 200),
    "errors": (every_error, 1000),
    "documents": (every_document, 300),
}
"""Kind of text -> how it is gathered, and the least number of texts that there must be."""


@pytest.mark.parametrize("kind", GATHERED)
def test_text_for_users_has_no_word_to_avoid(kind):
    gather, least = GATHERED[kind]
    texts = gather()
    assert len(texts) >= least
    lines = faults(checked(texts))
    assert not lines, f"{len(lines)} words to avoid:\n" + "\n".join(lines)


def test_every_source_in_not_yet_exists_and_has_a_word_to_avoid():
    """A folder that has become clean must leave `NOT_YET`."""
    texts = [text for gather, _ in GATHERED.values() for text in gather()]
    unclean = {text.source for text in texts if faults([text])}
    exist = {path.name for path in [*SOURCES.iterdir(), *ROOT.iterdir()]}
    assert exist >= NOT_YET
    assert not (clean := NOT_YET - unclean), f"take out of NOT_YET: {sorted(clean)}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("so many pieces of a text", {"so many", "pieces"}),
        ("the tokenizer has 300 tokens", set()),
        ("of the tokenizer", {"of"}),
        ("the size; none: all", {"none:"}),
        ("what the model sees of pictures", {"model sees", "pictures"}),
        ("drawn by chance, not the likeliest", {"drawn by chance", "likeliest"}),
        ("the batch stands in place", {"stands"}),
        ("B stands for the batch size; shapes in two places", {"places"}),
        ("rows of a table", set()),
        ("rows of a batch", {"rows of a batch"}),
        ("the file is there already", {"is there already"}),
        ("the sum of squares, the sum of log-probabilities", set()),
        ("key 'image', --position and `guess` are names", set()),
        ("Prints.\n\nruns\n    of all\n    of the runs", {"runs\\n    of"}),
    ],
)
def test_the_checker_reports_planted_words(text, words):
    lines = faults([Text("setting x", "cli", text)])
    assert {re.search(r": '(.+?)' in '", line)[1] for line in lines} == words
    assert all(line.startswith("setting x: ") and "write: " in line for line in lines)


def test_the_checker_reads_errors_and_documents_with_their_lines():
    source = """
def f(place, count):
    why = f"{count} pieces"
    if count:
        raise UsageError(why, hint="go on" if count > 1 else "a picture" + str(place))
    return "nobody is read here"
"""
    texts = list(error_texts(source, "a.py", "cli", {"UsageError"}))
    assert [text.text for text in texts] == ["{} pieces", "go on", "a picture"]
    assert {text.where for text in texts} == {"a.py:5"}
    assert len(faults(texts)) == 3
    page = "# Title\n\nA `picture`\nin a [file](picture.md).\n\n```\npieces\n```\nA guess.\n"
    assert list(prose(page)) == [(1, "# Title"), (3, "A \nin a [file."), (9, "A guess.")]


def test_every_setting_has_a_help_text():
    missing = [
        f"{type(config).__name__}: {key}"
        for config in configurations()
        for key, field in fields_of(config).items()
        if not field.help and key not in {"recipe", "name"}
    ]
    assert not missing
