"""Who may attend to whom. True = may attend, everywhere in Headway."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from headway.attention.documents import Documents
from headway.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class Mask:
    """What a query may attend to, kept as rules and made dense only where a kernel needs it.

    causal: query t attends to no key after its own position. With fewer queries than keys the
        queries are the *last* ones (the earlier keys came from a cache), so query t of T stands
        at position S - T + t; torch's `is_causal` would count from the first key instead.
    window: query at position p attends to positions p - window + 1 ... p (and, when not causal,
        as far to the right).
    keys: Bool "B S", True where there is a real token; None when nothing is padded.
    past: Int "B", the position of each row's first query, for rows whose caches differ in length;
        None when every row stands at S - T.
    documents: the rows hold several documents, and a query attends to keys of its own only.
    """

    causal: bool = False
    window: int | None = None
    keys: Bool[Tensor, "B S"] | None = None
    past: Int[Tensor, " B"] | None = None
    documents: Documents | None = None

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise ValueError(f"{self.window=} must be at least 1: a token attends to itself")
        if self.past is not None and not self.causal:
            raise ValueError("past is where a decoder's rows stand, and needs causal=True")
        if self.documents is not None and (self.past is not None or self.keys is not None):
            raise ValueError("packed rows are full, and none of them continues another")

    def hides_nothing(self, num_queries: int) -> bool:
        """True when every query may attend to every key, so that no mask need be applied."""
        by_position = (self.causal and num_queries > 1) or self.window is not None
        return not (by_position or self._tells_rows_apart)

    def is_plain_causal(self, num_queries: int, num_keys: int) -> bool:
        """True for the square causal triangle, the one mask that torch's `is_causal` means too."""
        plain = self.window is None and not self._tells_rows_apart
        return self.causal and plain and num_queries == num_keys

    @property
    def _tells_rows_apart(self) -> bool:
        """Whether rows of one batch have masks of their own."""
        return any(rule is not None for rule in (self.keys, self.past, self.documents))

    def dense(
        self, num_queries: int, num_keys: int, device: torch.device | None = None
    ) -> Bool[Tensor, "#B 1 T S"]:
        """The boolean matrix. B is 1 when all rows share it."""
        if self.past is not None:
            device, first = self.past.device, self.past[:, None, None]
        else:
            if self.keys is not None:
                device = self.keys.device
            if self.documents is not None:
                device = self.documents.numbers.device
            first = torch.tensor([[[num_keys - num_queries]]], device=device)
        query = first + torch.arange(num_queries, device=device)[:, None]  # -> #B T 1
        key = torch.arange(num_keys, device=device)
        allowed = torch.ones(1, num_queries, num_keys, dtype=torch.bool, device=device)
        if self.causal:
            allowed = allowed & (key <= query)
        if self.window is not None:
            allowed = allowed & ((key - query).abs() < self.window)
        if self.keys is not None:
            allowed = allowed & self.keys[:, None, :]
        if self.documents is not None:
            number = self.documents.numbers
            allowed = allowed & (number[:, :, None] == number[:, None, :])
        return allowed[:, None]  # #B T S -> #B 1 T S

    def additive(
        self, num_queries: int, num_keys: int, like: Tensor
    ) -> Float[Tensor, "#B 1 T S"] | None:
        """0 where a query may attend and -inf where not, in `like`'s dtype; None if all may."""
        if self.hides_nothing(num_queries):
            return None
        allowed = self.dense(num_queries, num_keys, like.device)
        zeros = torch.zeros(allowed.shape, dtype=like.dtype, device=like.device)
        return zeros.masked_fill_(~allowed, -torch.inf)
