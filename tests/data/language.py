"""A tokenizer whose texts begin and end by different tokens, as Llama's do."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from headway.text import Characters


class TwoEnds:
    """Characters, with <s> before and </s> after a text. A `TextTokenizer`."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.inner = Characters.train(texts)
        self.eos = 0
        self.bos = self.inner.size
        self.size = self.inner.size + 1
        self.fingerprint = self.inner.fingerprint + "2"

    def encode(self, text: str) -> list[int]:
        return self.inner.encode(text)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return self.inner.encode_batch(texts)

    def begin(self, text: str) -> list[int]:
        return [self.bos, *self.encode(text)]

    def decode(self, ids: Iterable[int]) -> str:
        return self.inner.decode(i for i in ids if i != self.bos)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return ["<s>" if i == self.bos else self.inner.pieces([i])[0] for i in ids]

    def save(self, folder: Path) -> None:
        self.inner.save(folder)
