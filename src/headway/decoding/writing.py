"""Tokens into text while they come: never half a character, never a word that was to stop it."""

from __future__ import annotations

from collections.abc import Sequence

from headway.text import TextTokenizer

CONTEXT = 8  # tokens before the first one: some tokenizers write a piece by what precedes it
PATIENCE = 8  # tokens without a whole character: the bytes are broken, and shown as such
BROKEN = "\ufffd"


class Writer:
    """Turns the tokens of one output into text, piece by piece.

    What `feed` and `finish` return, joined, is the output. Text that may be the beginning of a
    stop string is held back until it is known not to be; from a stop string on nothing is
    returned, and `stopped` is True. Each token costs the same however long the output.
    """

    def __init__(
        self, tokenizer: TextTokenizer, prompt: Sequence[int] = (), stop: Sequence[str] = ()
    ) -> None:
        if not all(stop):
            raise ValueError("a stop string must not be empty")
        self.tokenizer, self.stop = tokenizer, tuple(stop)
        self.stopped = False
        self._window = list(prompt[-CONTEXT:])
        self._shown = len(self._window)  # tokens of the window whose text is out
        self._held = ""

    def feed(self, token: int) -> str:
        """The text that is certain now, which may be none."""
        self._window.append(token)
        text = self._text()
        waiting = len(self._window) - self._shown
        if text.endswith(BROKEN) and waiting <= PATIENCE:
            return ""
        self._window = self._window[self._shown :]
        self._shown = len(self._window)
        return self._released(text)

    def finish(self) -> str:
        """What was held back, when no more tokens come."""
        rest = self._released(self._text())
        held, self._held = self._held, ""
        return "" if self.stopped else rest + held

    def _text(self) -> str:
        """Of the tokens that are not out yet, as they read after those before them."""
        before = self.tokenizer.decode(self._window[: self._shown])
        return self.tokenizer.decode(self._window)[len(before) :]

    def _released(self, text: str) -> str:
        if self.stopped:
            return ""
        text = self._held + text
        places = [place for word in self.stop if (place := text.find(word)) >= 0]
        if places:
            self.stopped, self._held = True, ""
            return text[: min(places)]
        held = max((_overlap(text, word) for word in self.stop), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]


def _overlap(text: str, word: str) -> int:
    """How many last letters of `text` are the first of `word`, but not all of it."""
    most = min(len(text), len(word) - 1)
    return next((n for n in range(most, 0, -1) if text.endswith(word[:n])), 0)
