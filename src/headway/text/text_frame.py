"""How a model of short texts frames them: special tokens around each, and the padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TextFrame:
    """[before] text [end], shortened to `length` tokens.

    before: special tokens before each text. end: the token after it. fill: the token that fills
    every text to `length` tokens, as part of it, so that the model attends to it (SigLIP); None for
    texts of different lengths (CLIP). fills_left: whether that precedes the text.
    """

    length: int
    before: tuple[int, ...]
    end: int
    fill: int | None = None
    fills_left: bool = False

    @property
    def room(self) -> int:
        """The maximum number of tokens of a text without special tokens."""
        return self.length - len(self.before) - 1

    def framed(self, ids: Sequence[int]) -> list[int]:
        """Return the ids of a text with special tokens."""
        whole = [*self.before, *ids[: self.room], self.end]
        if self.fill is None:
            return whole
        rest = [self.fill] * (self.length - len(whole))
        return rest + whole if self.fills_left else whole + rest
