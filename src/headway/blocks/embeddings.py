"""Embeddings: x_t = E[token_t] * sqrt(D) + PE(t), a vector for what a token is and where it is.

Row v of the matrix E is the learned vector of token v of the vocabulary. Attention does not depend
on the order of its keys, so the position of each token is added to its vector.

>>> import torch
>>> from torch import nn
>>> from headway.blocks import Added, Embeddings, SinusoidalTable
>>> embeddings = Embeddings(nn.Embedding(10, 4), Added(SinusoidalTable(4)))
>>> _ = embeddings.tokens.weight.data.fill_(0.5)  # times sqrt(4) is 1
>>> embeddings(torch.tensor([[7, 7, 7]]))[0].detach().round(decimals=2)  # one word, three positions
tensor([[1.0000, 2.0000, 1.0000, 2.0000],
        [1.8400, 1.5400, 1.0100, 2.0000],
        [1.9100, 0.5800, 1.0200, 2.0000]])
"""

import math

from torch import nn

from headway.attention import Documents, Past, positions_after
from headway.base.shapes import Bool, Float, Int, Tensor
from headway.blocks.dropout import Dropout
from headway.blocks.positions import Added, Concatenated, NoPositions


class Embeddings(nn.Module):
    """dropout(norm(positions(E[token] * scale))).

    tokens: the matrix E; the source and target side share it if both get the same `nn.Embedding`.
    scale: sqrt(D) if None, which lets one matrix be the embedding (entries of size D^-1/2, as
    initialised) and the output projection. Vaswani et al. 2017, section 3.4. GPT uses 1. norm: only
    BART has one (Lewis et al. 2020); None leaves the sum as it is.
    """

    def __init__(
        self,
        tokens: nn.Embedding,
        positions: Added | Concatenated | NoPositions,
        dropout: float = 0.0,
        scale: float | None = None,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.norm = nn.Identity() if norm is None else norm
        self.dropout = Dropout(dropout)
        self.scale = math.sqrt(tokens.embedding_dim) if scale is None else scale

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        past: Past = (0,),
        documents: Documents | None = None,
        places: Bool[Tensor, "B T"] | None = None,
        vectors: Float[Tensor, "*N D"] | None = None,
    ) -> Float[Tensor, "B T E"]:
        """Embed the tokens.

        past: the number of earlier tokens of each sequence. documents: the documents of packed
        sequences, which have no past; positions count from 0 in each. places: True where the next
        of `vectors`, row by row, replaces E[token] * scale. Raises ValueError if a learned position
        table has fewer positions than a sequence has tokens; not if `past` is a tensor, which would
        have to be read.
        """
        longest = 0 if isinstance(past, Tensor) else max(past, default=0) + tokens.shape[1]
        positions = positions_after(past, tokens.shape[1], tokens.device)
        if documents is not None:
            longest, positions = documents.longest, documents.positions
        if self.positions.max_length is not None and longest > self.positions.max_length:
            raise ValueError(
                f"{longest} positions are needed, but the learned position table ends at "
                f"max_length={self.positions.max_length}: shorten the text, or train a model with "
                "sinusoidal, rotary or ALiBi positions"
            )
        embedded: Tensor = self.tokens(tokens) * self.scale
        if places is not None and vectors is not None:
            embedded = embedded.masked_scatter(places[..., None], vectors.to(embedded.dtype))
        return self.dropout(self.norm(self.positions(embedded, positions)))


class SegmentEmbeddings(nn.Module):
    """dropout(norm(E[token] + P[position] + S[segment])), where the segment is text 1 or text 2.

    types: the segment embedding S; None for a model without segments. first_position: the row of P
    that the first token uses (RoBERTa has two unused rows before it). Devlin et al. 2019, section
    3, figure 2.
    """

    def __init__(
        self,
        words: Embeddings,
        types: nn.Embedding | None,
        norm: nn.Module,
        dropout: float = 0.0,
        first_position: int = 0,
    ) -> None:
        super().__init__()
        self.words = words
        self.types = types
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.first_position = first_position

    def forward(
        self, tokens: Int[Tensor, "B T"], types: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T E"]:
        """Embed the tokens. types: the segment of each token; all are in segment 0 if None."""
        x: Tensor = self.words(tokens, (self.first_position,))
        if self.types is not None:
            x = x + (self.types.weight[0] if types is None else self.types(types))
        return self.dropout(self.norm(x))
