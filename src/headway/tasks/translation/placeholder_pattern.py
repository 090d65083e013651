"""Placeholders in the texts of programs: found, compared with those of a translation, and repaired.

A placeholder is replaced by a value when the program runs, or is markup: `%(name)s`, `%1$d`, `{0}`,
`{user.name}`, `${x}`, `{{ x }}`, `<b>`, `&nbsp;`. A translation must contain exactly those of its
source.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

_KINDS = {
    "named": r"%\([^()\s]{1,80}\)[#0+-]{0,5}\d{0,5}(?:\.\d{1,5})?[a-zA-Z]|%\{\w{1,80}\}",
    "dollar": r"\$\{[^{}\s]{1,80}\}|\$[A-Za-z_]\w*",
    "brace": r"\{\{[^{}\n]{1,80}\}\}|\{[A-Za-z0-9_.\[\]]{0,80}(?:![rsa])?(?::[^{}\s]{0,20})?\}",
    "style": r"\{\\[A-Za-z0-9\\&(),.]{1,80}\}",
    "printf": r"%(?:\d{1,5}\$)?[#0+'-]{0,5}(?:\*|\d{1,5})?(?:\.(?:\*|\d{1,5}))?(?:hh?|ll?|[Lqjzt])?"
    r"[diouxXeEfFgGcsSpn%]",
    "numbered": r"%L?\d{1,2}",
    "tag": r"</?[A-Za-z][^<>]{0,500}>",
    "reference": r"&(?:[A-Za-z]\w{1,30}|#\d{1,7}|#x[0-9A-Fa-f]{1,6});",
}
# No-break spaces are part of French texts, before a colon or a question mark.
_SPACE = re.compile(r"[^\S\u00a0\u202f]+")
_PATTERN = "|".join(f"(?P<{name}>{pattern})" for name, pattern in _KINDS.items())
_GENERIC = re.compile(_PATTERN)
_ORDERED = re.compile(r"%[^\d(]|%\d+[^\d$]")
_NAME = re.compile(r"</?\s*([\w:-]+)")
_ALONE = {"br", "hr", "img", "input", "wbr", "meta", "link", "x", "ph", "bx", "ex"}


@dataclass(frozen=True)
class Placeholder:
    """A placeholder in a text. kind: those of one kind may replace each other in a repair."""

    text: str
    kind: str
    start: int
    end: int


class Placeholders:
    """Finds the placeholders of texts. protected: further strings that are placeholders."""

    def __init__(self, protected: Iterable[str] = ()) -> None:
        own = sorted({text for text in protected if text}, key=lambda text: (-len(text), text))
        alternatives = "|".join(re.escape(text) for text in own)
        self.pattern = re.compile(f"(?P<own>{alternatives})|{_PATTERN}") if own else _GENERIC

    def find(self, text: str) -> list[Placeholder]:
        """Return the placeholders of a text, in order."""
        return list(map(_placeholder, self.pattern.finditer(text)))

    def faults(self, source: str, translation: str) -> list[str]:
        """Return what is wrong with the placeholders of a translation; [] if they are right.

        They must be as many of each as in the source; those that take their value by position, such
        as `%s`, in the same order; and tags nested as they are in the source.
        """
        expected = [item.text for item in self.find(source)]
        present = [item.text for item in self.find(translation)]
        first, second = Counter(expected), Counter(present)
        faults = [f"{text} is missing" for text in first - second]
        faults += [f"{text} is not in the source" for text in second - first]
        if not faults and _positional(expected) != _positional(present):
            faults.append(f"the order of {', '.join(_positional(expected))} is different")
        if not faults and is_nested(expected) and not is_nested(present):
            faults.append("a closing tag is not after its opening tag")
        return faults

    def copied(self, source: str, translation: str) -> str:
        """Return the translation with wrong placeholders replaced by missing ones of their kind.

        Only if as many are missing as are wrong, such as `%(nom)s` for `%(name)s`; else unchanged.
        """
        expected, present = self.find(source), self.find(translation)
        missing = _surplus(expected, present)
        wrong = _surplus(present, expected)
        for kind in {item.kind for item in wrong}:
            new = [item for item in missing if item.kind == kind]
            old = [item for item in wrong if item.kind == kind]
            if len(new) != len(old):
                return translation
        pools = {item.kind: [m.text for m in missing if m.kind == item.kind] for item in wrong}
        return self.replaced(
            translation, lambda item: pools[item.kind].pop(0) if item in wrong else item.text
        )

    def replaced(self, text: str, new: Callable[[Placeholder], str]) -> str:
        """Return the text with `new(placeholder)` in place of each placeholder, from the start."""
        return self.pattern.sub(lambda match: new(_placeholder(match)), text)

    def removed(self, text: str) -> str:
        """Return the text without its placeholders and without doubled spaces where they were."""
        return single_spaces(self.pattern.sub(" ", text))


def _placeholder(match: re.Match[str]) -> Placeholder:
    return Placeholder(match[0], str(match.lastgroup), match.start(), match.end())


def single_spaces(text: str) -> str:
    """Return a text with single spaces instead of its white space; no-break spaces stay inside."""
    return _SPACE.sub(" ", text).strip()


def _positional(texts: Sequence[str]) -> list[str]:
    """Return the placeholders that take their value by position, in order."""
    return [text for text in texts if text == "{}" or (_ORDERED.match(text) and text != "%%")]


def _surplus(items: Sequence[Placeholder], others: Sequence[Placeholder]) -> list[Placeholder]:
    """Return the items that occur more often than in `others`: the last ones of each text."""
    counts = Counter(item.text for item in others)
    surplus = []
    for item in items:
        counts[item.text] -= 1
        if counts[item.text] < 0:
            surplus.append(item)
    return surplus


def is_nested(placeholders: Sequence[str]) -> bool:
    """Return whether every tag among the placeholders that is closed was opened before, and the
    last one opened is closed first. The brackets of a Markdown link count as tags."""
    opened: list[str] = []
    for text in placeholders:
        if text in ("[", "!["):
            opened.append("[")
        elif text.startswith("]") and (not opened or opened.pop() != "["):
            return False
        name = _NAME.match(text)
        if name is None or text.endswith("/>") or name[1].lower() in _ALONE:
            continue
        if not text.startswith("</"):
            opened.append(name[1])
        elif not opened or opened.pop() != name[1]:
            return False
    return not opened
