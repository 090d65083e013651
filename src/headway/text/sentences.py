"""Where sentences end: rules for prose, verse and lists of lines."""

from __future__ import annotations

import re
from collections.abc import Iterator

_OPEN = "\"'“”‘’«»„‚([{¿¡_*"
_CLOSE = "\"'”’»«)]}_*"
_END = re.compile(rf"[.!?…]+[{re.escape(_CLOSE)}]*(?=\s)|[。！？]+[{re.escape(_CLOSE)}」』]*")
_WORD = re.compile(r"\S+$")
_TITLES = "mr mrs ms dr prof st sr jr gen col capt lt sgt rev hon messrs mme mlle"
_OTHERS = "vs cf viz fig figs eq eqs vol pp approx dept e.g i.e z.b d.h u.a bzw nr bd ca"
ABBREVIATIONS = frozenset(f"{_TITLES} {_OTHERS}".split(" "))
"""Words whose full stop is their own, in small letters and without it. "No." is one before a
number only."""


def split_sentences(text: str) -> list[str]:
    r"""The sentences of `text` in order, none empty, each on one line; nothing is left out.

    A blank line ends a sentence. So does the end of a line, unless the next one begins with a small
    letter; where a third of a paragraph's lines begin so, it is prose that was broken to fit a
    page, and only punctuation ends its sentences: . ! ? and their kin, with the quotes and brackets
    that close behind them, before a space and anything but a small letter. The full stop of an
    initial ("J. Doe"), of an abbreviation ("Dr. Doe", "e.g. this") and of a number that begins a
    line ("3. Mix") ends nothing. White space becomes single spaces.
    """
    found: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        for run in _runs([" ".join(line.split()) for line in paragraph.split("\n")]):
            found += _cut(run)
    return found


def _runs(lines: list[str]) -> Iterator[str]:
    """The lines of a paragraph, joined where they go on."""
    lines = [line for line in lines if line]
    goes_on = [line.lstrip(_OPEN)[:1].islower() for line in lines]
    broken_prose = 3 * sum(goes_on[1:]) >= max(1, len(lines) - 1)
    held: list[str] = []
    for line, follows in zip(lines, goes_on, strict=True):
        if held and not (follows or broken_prose):
            yield " ".join(held)
            held = []
        held.append(line)
    if held:
        yield " ".join(held)


def _cut(run: str) -> Iterator[str]:
    start = 0
    for end in _END.finditer(run):
        if _ends(run[start : end.start()], end.group(), run[end.end() :].lstrip()):
            yield run[start : end.end()].strip()
            start = end.end()
    if rest := run[start:].strip():
        yield rest


def _ends(before: str, marks: str, after: str) -> bool:
    """Whether the end marks between the two texts end a sentence."""
    if not before.strip() or not after or after.lstrip(_OPEN + " ")[:1].islower():
        return False
    if marks[0] != "." or marks.startswith(".."):
        return True
    found = _WORD.search(before)
    word = found.group().lstrip(_OPEN) if found else ""
    is_initial = len(word) == 1 and word.isalpha() and word.isupper() and word != "I"
    is_number = word == before.strip() and word.isdecimal()
    is_short = word.lower() in ABBREVIATIONS or (word.lower() == "no" and after[0].isdigit())
    return not (is_initial or is_number or is_short)
