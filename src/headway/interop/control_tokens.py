"""Distinguishes special tokens that a template writes from texts like them that a user wrote."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeVar, cast

from headway.base.errors import UsageError

S = TypeVar("S")

PRIVATE_USE = range(0xE000, 0xF900)
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")


def strings_in(value: object) -> Iterator[str]:
    """Yield the strings in JSON, without the names of fields."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list | tuple):
            waiting += item


class ControlTokens:
    """Marks the texts of special tokens in the variables of a template.

    A mark is a character of the private use area before such a text and another one after it, which
    occur neither in the template nor in its variables. The template moves them with the text.
    special_texts: the texts of the special tokens. strings: the template and all strings of its
    variables.

    end_mark, generation_marks: further free characters, for the end of a text that is continued,
    and for what stands inside {% generation %}.
    """

    def __init__(self, special_texts: Sequence[str], strings: Sequence[str]) -> None:
        used = {ord(character) for text in strings for character in set(text)}
        used |= {int(code, 16) for text in strings for code in _ESCAPE.findall(text)}
        free = [*islice((chr(code) for code in PRIVATE_USE if code not in used), 5)]
        if len(free) < 5:
            raise UsageError("the messages use all characters of Unicode's private use area")
        self._start, self._end, self.end_mark = free[:3]
        self.generation_marks = (free[3], free[4])
        longest_first = sorted(filter(None, special_texts), key=len, reverse=True)
        self._special = frozenset(longest_first)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        # the filter tojson may write a mark as an escape sequence
        codes = "".join(f"|\\\\u{ord(mark):04x}" for mark in (self._start, self._end))
        self._mark = re.compile(f"[{self._start}{self._end}]{codes}")

    def marked(self, value: S) -> S:
        """Return JSON in which the texts of special tokens have marks around them."""
        try:
            return cast("S", self._marked(value))
        except RecursionError:
            raise UsageError("the messages or tools are nested too deeply") from None

    def _marked(self, value: object) -> object:
        if isinstance(value, str):
            return self._pattern.sub(rf"{self._start}\g<0>{self._end}", value)
        if isinstance(value, dict):
            return {name: self._marked(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._marked(item) for item in value]
        return value

    def unmarked(self, text: str) -> tuple[str, list[tuple[int, int]]]:
        """Return a text without marks, and the spans [start, end) of what the marks were around.

        A mark whose other half the template removed leaves an empty span: no special token spans
        it, so the two texts around it do not join to one.
        """
        pieces: list[str] = []
        spans: list[tuple[int, int]] = []
        begun, length, last = False, 0, 0
        for mark in self._mark.finditer(text):
            piece = text[last : mark.start()]
            pieces.append(piece)
            length, last = length + len(piece), mark.end()
            is_start = mark.group() in (self._start, f"\\u{ord(self._start):04x}")
            if begun and not is_start and piece in self._special:
                spans[-1] = (length - len(piece), length)
            else:
                spans.append((length, length))
            begun = is_start
        return "".join([*pieces, text[last:]]), spans
