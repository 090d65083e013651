"""A language model for the checks of searches: a table of probabilities, made from a seed."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from headway.base.shapes import Float, Tensor


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
