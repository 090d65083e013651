"""The methods of models whose runtime keeps no keys and values between two calls.

CTranslate2's functions and llama.cpp's server return the logits for given tokens. So the decode
state is these tokens, and each step reads all of them again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headway.base.shapes import Bool, Float, Int, Tensor
from headway.exporting.without_weights import Method, language_methods
from headway.models import GPT


@dataclass
class Reread:
    """The decode state of a runtime that reads all tokens again at each step.

    tokens: of each sequence. sources: the tokens of what each one translates.
    """

    tokens: list[list[int]]
    sources: list[list[int]] = field(default_factory=list)

    @property
    def lengths(self) -> list[int]:
        """The number of tokens of each sequence."""
        return [len(row) for row in self.tokens]

    def after(self, new: Int[Tensor, "N T"]) -> Reread:
        """Return the state with new tokens."""
        rows = zip(self.tokens, new.tolist(), strict=True)
        return Reread([[*row, *more] for row, more in rows], self.sources)

    def reorder(self, rows: Sequence[int]) -> Reread:
        """Make sequence i the former sequence rows[i]."""
        self.tokens = [self.tokens[row] for row in rows]
        self.sources = [self.sources[row] for row in rows] if self.sources else []
        return self

    def rewind(self, lengths: Sequence[int]) -> Reread:
        """Take tokens back: sequence n keeps its first lengths[n]."""
        self.tokens = [row[:n] for row, n in zip(self.tokens, lengths, strict=True)]
        return self

    def join(self, other: Reread) -> Reread:
        """Append the sequences of another state."""
        self.tokens, self.sources = self.tokens + other.tokens, self.sources + other.sources
        return self


def real_tokens(tokens: Int[Tensor, "B S"], keys: Bool[Tensor, "B S"] | None) -> list[list[int]]:
    """Return the tokens of each sequence without padding."""
    if keys is None:
        rows: list[list[int]] = tokens.tolist()
        return rows
    return [row[real].tolist() for row, real in zip(tokens, keys, strict=True)]


def gpt_methods(
    model: GPT, read: Callable[[list[list[int]], int], Float[Tensor, "N T V"]]
) -> dict[str, Method]:
    """Return the methods of a language model.

    read: returns the logits of the last T tokens of each sequence, for the sequences and T.
    """

    def step(new: Int[Tensor, "N T"], state: Reread) -> tuple[Float[Tensor, "N T V"], Reread]:
        after = state.after(new)
        return read(after.tokens, new.shape[1]), after

    return {
        **language_methods(model, lambda tokens: read(tokens.tolist(), tokens.shape[1])),
        "start": lambda tokens, keys=None: Reread(real_tokens(tokens, keys)),
        "step": step,
    }
