"""Random inputs of the checks, by seed; and a language model for the checks of searches: a table
of probabilities."""

import random as python_random
from collections.abc import Mapping

import torch

from headway.base.shapes import Bool, Float, Tensor


def normal(seed: int, *shape: int) -> Float[Tensor, "..."]:
    """Normally distributed numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def mask(seed: int, *shape: int) -> Bool[Tensor, "..."]:
    """True with probability 2/3, and always for the first key of a query."""
    allowed = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 2 / 3
    allowed[..., 0] = True
    return allowed


def causal(length: int) -> Bool[Tensor, "T T"]:
    """True where a query may attend: at its own position and before it."""
    return torch.ones(length, length, dtype=torch.bool).tril()


def integers(seed: int, count: int, low: int, high: int) -> list[int]:
    """`count` integers from low to high - 1."""
    generator = python_random.Random(seed)
    return [generator.randrange(low, high) for _ in range(count)]


class TableModel:
    """log P(next token | prefix) for each token; a prefix begins with <s>.

    rows: probabilities of the next token for some prefixes. Other prefixes have random ones, which
    follow from the seed and the prefix.
    """

    def __init__(
        self,
        vocabulary: int,
        seed: int = 0,
        rows: Mapping[tuple[int, ...], list[object]] | None = None,
    ) -> None:
        self.vocabulary, self.seed, self.rows = vocabulary, seed, dict(rows or {})

    def __call__(self, prefix: list[int]) -> Float[Tensor, " V"]:
        if tuple(prefix) in self.rows:
            return torch.tensor(self.rows[tuple(prefix)]).log()
        number = self.seed
        for token in prefix:
            number = (number * 31 + token + 7) % 1_000_003
        logits = torch.randn(self.vocabulary, generator=torch.Generator().manual_seed(number))
        return (1.5 * logits).log_softmax(-1)
