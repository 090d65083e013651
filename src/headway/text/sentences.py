"""Splits text into sentences by rules for prose, verse and lists of lines."""

import re
from collections.abc import Iterator

_OPEN = "\"'“”‘’«»„‚([{¿¡_*"
_CLOSE = "\"'”’»«)]}_*"
_END = re.compile(rf"[.!?…]+[{re.escape(_CLOSE)}]*(?=\s)|[。！？]+[{re.escape(_CLOSE)}」』]*")
_WORD = re.compile(r"\S+$")
_TITLES = "mr mrs ms dr prof st sr jr gen col capt lt sgt rev hon messrs mme mlle"
_COMMON = "vs cf viz fig figs eq eqs vol pp approx dept e.g i.e z.b d.h u.a bzw nr bd ca"
ABBREVIATIONS = frozenset(f"{_TITLES} {_COMMON}".split(" "))
"""Abbreviations that end in a full stop, in lower case and without it. "No." is an abbreviation
only before a number."""


def split_sentences(text: str) -> list[str]:
    r"""Return the sentences of `text` in order, each on one line; none is empty or left out.

    A blank line ends a sentence. The end of a line does too, unless the next line begins with a
    lower-case letter. If at least a third of a paragraph's lines begin with a lower-case letter,
    the paragraph is line-wrapped prose, and only punctuation ends its sentences: . ! ? and similar
    characters, with the quotes and brackets that close after them, if a space follows and then
    anything but a lower-case letter. The full stop of an initial ("J. Doe"), an abbreviation
    ("Dr. Doe", "e.g. this") or a number that begins a line ("3. Mix") does not end a sentence. Each
    run of whitespace becomes one space.
    """
    sentences: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        for run in _runs([" ".join(line.split()) for line in paragraph.split("\n")]):
            sentences += _cut(run)
    return sentences


def _runs(lines: list[str]) -> Iterator[str]:
    """Yield the lines of a paragraph, joined where a sentence continues on the next line."""
    lines = [line for line in lines if line]
    continues = [line.lstrip(_OPEN)[:1].islower() for line in lines]
    broken_prose = 3 * sum(continues[1:]) >= max(1, len(lines) - 1)
    pending: list[str] = []
    for line, continues_line in zip(lines, continues, strict=True):
        if pending and not (continues_line or broken_prose):
            yield " ".join(pending)
            pending = []
        pending.append(line)
    if pending:
        yield " ".join(pending)


def _cut(run: str) -> Iterator[str]:
    start = 0
    for end in _END.finditer(run):
        if _ends(run[start : end.start()], end.group(), run[end.end() :].lstrip()):
            yield run[start : end.end()].strip()
            start = end.end()
    if rest := run[start:].strip():
        yield rest


def _ends(before: str, punctuation: str, after: str) -> bool:
    """Return whether the punctuation between the texts `before` and `after` ends a sentence."""
    if not before.strip() or not after or after.lstrip(_OPEN + " ")[:1].islower():
        return False
    if punctuation[0] != "." or punctuation.startswith(".."):
        return True
    last_word = _WORD.search(before)
    word = last_word.group().lstrip(_OPEN) if last_word else ""
    is_initial = len(word) == 1 and word.isalpha() and word.isupper() and word != "I"
    is_number = word == before.strip() and word.isdecimal()
    is_short = word.lower() in ABBREVIATIONS or (word.lower() == "no" and after[0].isdigit())
    return not (is_initial or is_number or is_short)
