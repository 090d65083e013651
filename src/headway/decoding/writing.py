"""From tokens to text while it is written: whole characters only, and never a stop string."""

from __future__ import annotations

from collections.abc import Sequence

from headway.text import TextTokenizer

CONTEXT = 8  # tokens before a piece that may change how it reads: some tokenizers join by them
WINDOW = 24  # tokens read again at each step, at most
BROKEN = "\ufffd"
MOST_BROKEN = 3  # bytes that a character of UTF-8 may still wait for its last one with


class Writer:
    """Turns the tokens of one output into text, piece by piece.

    What `feed` and `finish` return, joined, is the output. Text that may be the beginning of a
    stop string is held back until it is known not to be. From the stop string on that is complete
    first (the longest of those complete at once) nothing is returned, and `stopped` is True. So the
    output does not depend on how the text falls into tokens; each of them costs the same, however
    long the output.
    """

    def __init__(
        self, tokenizer: TextTokenizer, prompt: Sequence[int] = (), stop: Sequence[str] = ()
    ) -> None:
        if not all(stop):
            raise ValueError("a stop string must not be empty")
        self.tokenizer, self.stop = tokenizer, tuple(stop)
        self.stopped = False
        self._window = list(prompt[-CONTEXT:])
        self._shown = len(tokenizer.decode(self._window))  # letters of the window that are out
        self._held = ""

    def feed(self, token: int) -> str:
        """The text that is certain now, which may be none."""
        self._window.append(token)
        text = self.tokenizer.decode(self._window)
        certain = max(self._shown, len(text) - _num_broken(text))
        piece, self._shown = text[self._shown : certain], certain
        if len(self._window) > WINDOW:
            self._forget(text)
        return self._released(piece)

    def finish(self) -> str:
        """What was held back, when no more tokens come."""
        text = self.tokenizer.decode(self._window)
        rest, self._shown = self._released(text[self._shown :]), len(text)
        held, self._held = self._held, ""
        return rest + held

    def _forget(self, text: str) -> None:
        """All but the last tokens, unless what they hold back were lost."""
        last = self._window[-CONTEXT:]
        shorter = self.tokenizer.decode(last)
        waiting = len(text) - self._shown
        if _num_broken(shorter) >= waiting:
            self._window, self._shown = last, len(shorter) - waiting

    def _released(self, piece: str) -> str:
        if self.stopped:
            return ""
        text = self._held + piece
        found = [
            (place + len(word), place) for word in self.stop if (place := text.find(word)) >= 0
        ]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)[1]]
        held = max((_overlap(text, word) for word in self.stop), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]


def _num_broken(text: str) -> int:
    """How many last letters may be parts of one that is not complete yet."""
    return min(len(text) - len(text.rstrip(BROKEN)), MOST_BROKEN)


def _overlap(text: str, word: str) -> int:
    """How many last letters of `text` are the first of `word`, but not all of it."""
    most = min(len(text), len(word) - 1)
    return next((n for n in range(most, 0, -1) if text.endswith(word[:n])), 0)
