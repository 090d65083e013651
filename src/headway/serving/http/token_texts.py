"""The texts of single tokens, as `logprobs` has them."""

from collections.abc import Sequence

from headway.decoding.writing import BROKEN, CONTEXT
from headway.text import TextTokenizer

LEAST = -9999.0
"""Stands for a log-probability of -inf, which JSON does not have."""

Alternatives = Sequence[tuple[int, float]]


class TokenTexts:
    """The text that each token adds after those before it, which may change it (spaces).

    A token that is not a whole number of characters has the name "token_id:17", since several such
    tokens may have the same text.
    """

    def __init__(self, tokenizer: TextTokenizer, before: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._before = list(before[-CONTEXT:])

    def text(self, token: int) -> str:
        """Return what a token would add now."""
        old = self._tokenizer.decode(self._before)
        new = self._tokenizer.decode([*self._before, token])[len(old) :]
        return f"token_id:{token}" if BROKEN in new or BROKEN in old[-3:] or not new else new

    def add(self, token: int) -> None:
        """Go on behind a token."""
        self._before = [*self._before, token][-CONTEXT:]


class LogProbs:
    """The four lists of a completion's `logprobs`, token by token.

    count: number of alternatives of each token; the token itself is one more if it is not among
    them. offset: number of characters before the first token.
    """

    def __init__(self, texts: TokenTexts, count: int, offset: int = 0) -> None:
        self.texts, self.count, self._offset = texts, count, offset
        self.clear()

    def clear(self) -> None:
        """Begin new lists, for the next event of a stream."""
        self.tokens: list[str] = []
        self.token_logprobs: list[float | None] = []
        self.top_logprobs: list[dict[str, float] | None] = []
        self.text_offset: list[int] = []

    def add(self, token: int, log_p: float | None, alternatives: Alternatives) -> None:
        """Append a token; log_p is None for the first token of a prompt."""
        name = self.texts.text(token)
        self.tokens.append(name)
        self.text_offset.append(self._offset)
        self._offset += 0 if name.startswith("token_id:") else len(name)
        if log_p is None:
            self.token_logprobs.append(None)
            self.top_logprobs.append(None)
        else:
            top: dict[str, float] = {}
            for other, value in alternatives:
                text = self.texts.text(other)
                taken = text in top or (text == name and other != token)
                top[f"token_id:{other}" if taken else text] = max(value, LEAST)
            self.token_logprobs.append(max(log_p, LEAST))
            self.top_logprobs.append({**top, name: max(log_p, LEAST)})
        self.texts.add(token)

    @property
    def lists(self) -> dict[str, object]:
        return {
            "tokens": self.tokens,
            "token_logprobs": self.token_logprobs,
            "top_logprobs": self.top_logprobs,
            "text_offset": self.text_offset,
        }
