"""Noise on the source sentences of a translator: the model learns to translate damaged input.

The three kinds of Lample et al. 2018, section 2.3, and of Edunov et al. 2018, section 3: tokens are
dropped, replaced by a blank, and moved by a few positions. Targets stay as they are.
"""

from dataclasses import dataclass
from itertools import takewhile
from random import Random


@dataclass(frozen=True, kw_only=True)
class SourceNoise:
    """Changes source sentences at random, differently in each epoch.

    drop: probability with which each token is left out; at least one token remains. mask:
    probability with which each of the others is replaced by `blank`. shuffle: maximum number k of
    positions by which a token moves: the tokens are sorted by i + U(0, k + 1), where i is the
    position. blank: id that replaces masked tokens. kept: ids of the tags that stay in place at the
    start of a sentence. The result depends only on the seed, the epoch and the index
    of the sentence, so that a resumed run has the same.
    """

    drop: float
    mask: float
    shuffle: int
    blank: int
    seed: int
    kept: frozenset[int] = frozenset()

    def source(self, ids: list[int], epoch: int, index: int) -> list[int]:
        """Return the ids of source sentence `index` with the noise of an epoch."""
        random = Random(f"noise {self.seed} {epoch} {index}")
        start = len(list(takewhile(self.kept.__contains__, ids)))
        words = ids[start:]
        if not words:
            return ids
        remaining = [i for i in words if random.random() >= self.drop] or [random.choice(words)]
        masked = [self.blank if random.random() < self.mask else i for i in remaining]
        places = [i + random.random() * (self.shuffle + 1) for i in range(len(masked))]
        order = sorted(range(len(masked)), key=places.__getitem__) if self.shuffle else None
        moved = masked if order is None else [masked[i] for i in order]
        return [*ids[:start], *moved]
