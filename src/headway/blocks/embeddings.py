"""Token ids -> vectors that enter the first block."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import nn

from headway.attention import Documents, positions_after
from headway.blocks.dropout import Dropout
from headway.blocks.positions import Added, Concatenated, NoPositions
from headway.shapes import Float, Int, Tensor


class Embeddings(nn.Module):
    """dropout(positions(E[token] * scale)).

    The scale, sqrt(D) unless given, lets one matrix serve as embedding (entries of size D^-1/2, as
    initialised) and as output projection. Vaswani et al. 2017, section 3.4. GPT's is 1. `tokens`
    may be shared between models' sides: pass the same `nn.Embedding`.
    """

    def __init__(
        self,
        tokens: nn.Embedding,
        positions: Added | Concatenated | NoPositions,
        dropout: float = 0.0,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.dropout = Dropout(dropout)
        self.scale = math.sqrt(tokens.embedding_dim) if scale is None else scale

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        past: Sequence[int] = (0,),
        documents: Documents | None = None,
    ) -> Float[Tensor, "B T D"]:
        """past: how many tokens of each row were seen before these; one number if all agree.
        documents: those of packed rows, each of which counts from 0; there is no past then.
        """
        longest = (max(past) if past else 0) + tokens.shape[1]
        where = positions_after(past, tokens.shape[1], tokens.device)
        if documents is not None:
            longest, where = documents.longest, documents.positions
        if self.positions.max_length is not None and longest > self.positions.max_length:
            raise ValueError(
                f"{longest} positions are more than the learned table's "
                f"max_length={self.positions.max_length}: shorten the text, or train with "
                "sinusoidal positions"
            )
        out: Tensor = self.dropout(self.positions(self.tokens(tokens) * self.scale, where))
        return out


class SegmentEmbeddings(nn.Module):
    """dropout(norm(E[token] + P[place] + S[type])): what a word is, where it stands, in which text.
    Devlin et al. 2019, section 3, figure 2.

    types: S, None for models without. first_place: where the first token stands in P (RoBERTa's
    tables have two rows before it).
    """

    def __init__(
        self,
        words: Embeddings,
        types: nn.Embedding | None,
        norm: nn.Module,
        dropout: float = 0.0,
        first_place: int = 0,
    ) -> None:
        super().__init__()
        self.words = words
        self.types = types
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.first_place = first_place

    def forward(
        self, tokens: Int[Tensor, "B T"], types: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T E"]:
        """types: None where all tokens are of the first text."""
        x: Tensor = self.words(tokens, (self.first_place,))
        if self.types is not None:
            x = x + (self.types.weight[0] if types is None else self.types(types))
        out: Tensor = self.dropout(self.norm(x))
        return out
