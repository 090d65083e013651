"""Sharing: sequences that attend to the same source are several queries of its keys.

The beams of a sentence attend to the same keys and values, which are in memory once. Their queries
are brought together, by source, and the contexts go back to the sequences.

>>> import torch
>>> from headway.attention import Sharing
>>> sharing = Sharing.of([0, 1, 0], num_sources=2, device=torch.device("cpu"))  # two beams, and one
>>> queries = torch.tensor([[[5.0]], [[6.0]], [[7.0]]])  # N T D = 3 1 1
>>> by_source = sharing.gather(queries, 2)  # sequences 0 and 2, then 1; its second query is unused
>>> by_source.flatten(1)
tensor([[5., 7.],
        [6., 5.]])
>>> torch.equal(sharing.scatter(by_source, 1), queries)
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from headway.base.shapes import Float, Int, Tensor
from headway.base.transfers import upload


@dataclass(frozen=True, eq=False)
class Sharing:
    """Which of N sequences attend to which of M sources.

    sequences: for each source the W sequences that attend to it, one source after the other; where
    there are fewer, sequence 0 takes the place, and its context there is not used. places: the
    place of each sequence among them. Both are None if the first W sequences attend to the first
    source, the next W to the second, and so on.
    """

    sequences: Int[Tensor, " MW"] | None = None
    places: Int[Tensor, " N"] | None = None

    @classmethod
    def of(
        cls, rows: Sequence[int], num_sources: int, device: torch.device, width: int | None = None
    ) -> Sharing:
        """Return how sequence n attends to source rows[n].

        width: W; as small as possible if unset. Then a regular order needs no `sequences`.
        """
        of_source: list[list[int]] = [[] for _ in range(num_sources)]
        for sequence, source in enumerate(rows):
            of_source[source].append(sequence)
        most = max(map(len, of_source), default=0)
        in_order = [sequence for sequences in of_source for sequence in sequences]
        if width is None and most * num_sources == len(rows) and in_order == sorted(in_order):
            return cls()
        width = most if width is None else width
        sequences, places = [0] * (num_sources * width), [0] * len(rows)
        for source, members in enumerate(of_source):
            for number, sequence in enumerate(members, source * width):
                sequences[number], places[sequence] = sequence, number
        return cls(upload(torch.tensor(sequences), device), upload(torch.tensor(places), device))

    def gather(self, x: Float[Tensor, "N T D"], num_sources: int) -> Float[Tensor, "M WT D"]:
        """Bring the queries of the sequences of each source together."""
        if self.sequences is None and x.shape[0] == num_sources:
            return x
        x = x if self.sequences is None else x.index_select(0, self.sequences)
        return x.view(num_sources, -1, x.shape[-1])

    def scatter(self, x: Float[Tensor, "M WT D"], num_tokens: int) -> Float[Tensor, "N T D"]:
        """Return what belongs to the T tokens of each sequence."""
        if x.shape[1] != num_tokens:
            x = x.reshape(-1, num_tokens, x.shape[-1])
        return x if self.places is None else x.index_select(0, self.places)


IN_ORDER = Sharing()
"""As many sources as sequences, or W sequences in a row for each of them."""
