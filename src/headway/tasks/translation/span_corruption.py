"""Span corruption: a model writes the spans of a text that sentinels replace in its input.

A text x_1 ... x_n has k = round(f n) corrupted tokens in s = round(k / m) spans, where f is the
fraction and m the mean length of a span. Span i is replaced by sentinel i in the input; the target
is every sentinel with the tokens of its span. Raffel et al. 2020, section 3.1.4 and released code.

    text    Thank you for inviting me to your party last week
    input   Thank you <extra_id_0> me to your party <extra_id_1> week
    target  <extra_id_0> for inviting <extra_id_1> last

The lengths of the spans, and of the texts before them, are a random division of k, and of n - k,
into s parts of at least one token. A text begins with a part that is kept, and ends with a span.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from headway.base.errors import UsageError
from headway.tasks.translation.config import TranslationDataConfig
from headway.text import TokenizerPair

SENTINELS = 100
"""Number of sentinels in a vocabulary for span corruption, as in T5's."""


@dataclass(frozen=True, kw_only=True)
class SpanCorruption:
    """Corrupts texts, differently in each epoch.

    fraction: f, at most 0.5. mean_length: m. sentinels: their ids, in order; a text has at most as
    many spans. The result depends only on the seed, the epoch and the index of the text, so that a
    resumed run has the same.

    >>> from random import Random
    >>> corruption = SpanCorruption(fraction=0.3, mean_length=2, sentinels=(91, 92), seed=0)
    >>> corruption.corrupt([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], Random(3))
    ([1, 2, 91, 4, 5, 6, 7, 8, 92], [91, 3, 92, 9, 10])
    """

    fraction: float
    mean_length: float
    sentinels: Sequence[int]
    seed: int

    def pair(
        self, source: list[int], target: list[int], epoch: int, index: int
    ) -> tuple[list[int], list[int]]:
        """Return the ids of input and target of text `index` in an epoch; `target` is the text."""
        return self.corrupt(target, Random(f"spans {self.seed} {epoch} {index}"))

    def corrupt(self, ids: Sequence[int], random: Random) -> tuple[list[int], list[int]]:
        """Return (input, target). A text of one token is one span; an empty text stays empty."""
        total = len(ids)
        if not total:
            return [], []
        corrupted = min(max(round(self.fraction * total), 1), max(total - 1, 1))
        kept = total - corrupted
        most = min(corrupted, max(kept, 1), len(self.sentinels))
        spans = min(max(round(corrupted / self.mean_length), 1), most)
        lengths = zip(
            _divided(kept, spans, random), _divided(corrupted, spans, random), strict=True
        )
        source: list[int] = []
        target: list[int] = []
        position = 0
        for sentinel, (before, length) in zip(self.sentinels, lengths, strict=False):
            start = position + before
            source += [*ids[position:start], sentinel]
            position = start + length
            target += [sentinel, *ids[start:position]]
        return source, target


def _divided(total: int, parts: int, random: Random) -> list[int]:
    """Divide a number into `parts` positive ones, every division with the same probability."""
    if parts == 1:
        return [total]
    cuts = sorted(random.sample(range(1, total), parts - 1))
    return [end - start for start, end in pairwise([0, *cuts, total])]


def corruption_of(
    config: TranslationDataConfig, tokenizers: TokenizerPair, seed: int
) -> SpanCorruption | None:
    """Return the span corruption of a run; None if it trains on pairs.

    Raises UsageError for a tokenizer without sentinels, or two vocabularies.
    """
    if not config.corruption:
        return None
    sentinels = tokenizers.target.sentinels
    if not sentinels or not tokenizers.joint:
        raise UsageError(
            "span corruption needs one vocabulary with the sentinels <extra_id_0>, <extra_id_1> "
            "..., and this model has none",
            hint="start from a T5 folder or a run of span-corruption, or train without --from",
        )
    return SpanCorruption(
        fraction=config.corruption,
        mean_length=config.corruption_length,
        sentinels=sentinels,
        seed=seed,
    )
