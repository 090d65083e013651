"""Incremental detokenisation: tokens to text while it is generated, without broken characters and
without stop strings."""

from collections.abc import Iterable, Sequence
from typing import Protocol

CONTEXT = 8  # preceding tokens that may change the text of a token (joiners, spaces)
WINDOW = 16  # maximum number of tokens that are decoded again at each step
BROKEN = "\ufffd"
MOST_BROKEN = 3  # maximum number of bytes of an incomplete UTF-8 character


class Decodes(Protocol):
    """A tokenizer, of which only this method is used."""

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of tokens."""
        ...


class TextStreamer:
    """Turns the tokens of one output into text, token by token.

    The texts that `feed` and `finish` return, joined, are the output. Text that may be the
    beginning of a stop string is held back until it is known not to be. The output ends before the
    stop string that is complete first (the longest of those that are complete at once); from then
    on `stopped` is True. The output does not depend on its tokenisation, and the time per token
    does not depend on the length of the output.

    tokenizer: decodes the tokens. prompt: the tokens before the output, which may change the text
    of its first token. stop: the stop strings. keeps_stop: whether the output ends behind the stop
    string instead of before it.
    """

    def __init__(
        self, tokenizer: Decodes, prompt: Sequence[int] = (), stop: Sequence[str] = ()
    ) -> None:
        if not all(stop):
            raise ValueError("a stop string must not be empty")
        self.tokenizer, self.stop = tokenizer, tuple(stop)
        self.stopped = False
        self.keeps_stop = False
        self._window = list(prompt[-CONTEXT:])
        self._shown = len(
            tokenizer.decode(self._window)
        )  # characters of the window that were returned
        self._held = ""

    def feed(self, token: int) -> str:
        """Add one token; return the text that is certain now, which may be empty."""
        self._window.append(token)
        text = self.tokenizer.decode(self._window)
        certain = max(self._shown, len(text) - _num_broken(text))
        new, self._shown = text[self._shown : certain], certain
        if len(self._window) > WINDOW:
            self._forget(text)
        return self._released(new)

    def finish(self) -> str:
        """Return the text that was held back, after the last token."""
        text = self.tokenizer.decode(self._window)
        rest, self._shown = self._released(text[self._shown :]), len(text)
        held, self._held = self._held, ""
        return rest + held

    def _forget(self, text: str) -> None:
        """Drop all but the last tokens, unless text that is not returned yet would be lost."""
        last = self._window[-CONTEXT:]
        shorter = self.tokenizer.decode(last)
        waiting = len(text) - self._shown
        if _num_broken(shorter) >= waiting:
            self._window, self._shown = last, len(shorter) - waiting

    def _released(self, new: str) -> str:
        if self.stopped:
            return ""
        if not self.stop:
            return new
        text = self._held + new
        matches = [
            (start + len(word), start) for word in self.stop if (start := text.find(word)) >= 0
        ]
        if matches:
            self.stopped, self._held = True, ""
            end, start = min(matches)
            return text[: end if self.keeps_stop else start]
        held = max((_overlap(text, word) for word in self.stop), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]


def _num_broken(text: str) -> int:
    """The number of characters at the end that may be parts of an incomplete one."""
    return min(len(text) - len(text.rstrip(BROKEN)), MOST_BROKEN)


def _overlap(text: str, word: str) -> int:
    """The length of the longest proper prefix of `word` that `text` ends with."""
    most = min(len(text), len(word) - 1)
    return next((n for n in range(most, 0, -1) if text.endswith(word[:n])), 0)
