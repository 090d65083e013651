"""The largest batch that fits into memory, from the measured memory of small steps.

    peak(n) = a + b n        n: number of pairs

a is what every step needs (weights, gradients, the state of the optimizer), b what each pair adds.
Steps on 4, 8, 16 ... pairs of the longest lengths are measured, until the pairs take most of the
memory and b no longer changes; a and b follow from the last two. The longest pairs need the most
memory for each token, because attention grows with the square of the length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headway.base.config_files import read_yaml
from headway.base.errors import UsageError
from headway.base.memory import USED
from headway.base.settings import BATCH
from headway.transforms.fast.cross_entropy import CHUNK

BATCHES = 100
"""Minimum number of batches of an epoch: larger batches would make too few updates."""

FIRST = 4
"""Number of pairs of the first step that is measured."""

GROWTH = 1.7
"""Steps are measured until twice the pairs take this many times the memory: in smaller ones the
peak is not in the backward pass, but in the update of the weights, whatever the number of pairs."""

STABLE = 0.05
"""And until the memory of a pair changes by less than this fraction, in batches of more tokens than
`CHUNK`: the logits of fewer are computed at once, those of more in parts."""


@dataclass(frozen=True, kw_only=True)
class FittedBatch:
    """A batch size in tokens, and why it was chosen.

    peak: estimated bytes of a step. free: bytes that were free. fills_memory: whether the memory
    limits the batch, or else the number of batches of an epoch.
    """

    tokens: int
    peak: int
    free: int
    fills_memory: bool

    def describe(self) -> str:
        """Describe the batch size for the terminal."""
        reason = (
            f"the largest whose step takes at most {100 * USED:.0f} % of it"
            if self.fills_memory
            else f"a hundredth of an epoch; {100 * USED:.0f} % of it would be enough for more"
        )
        return (
            f"training.tokens={self.tokens}: {self.free / 1e9:.2f} GB of memory are free, a step "
            f"takes up to {self.peak / 1e9:.2f} GB ({reason})"
        )


def fitted_batch(
    peak_of: Callable[[int], int], longest: int, epoch_tokens: int, free: int
) -> FittedBatch:
    """Return the largest batch size in tokens whose step takes at most 80 % of the free memory.

    peak_of: measures the bytes of a step on a number of pairs that have `longest` tokens.
    epoch_tokens: number of tokens of an epoch. Raises UsageError if one pair does not fit.
    """
    by_epoch = max(longest, epoch_tokens // BATCHES)
    pairs, high, of_pair, is_linear = FIRST, peak_of(FIRST), 0.0, False
    while not is_linear and high < USED * free and pairs * longest < by_epoch:
        low, high, before = high, peak_of(2 * pairs), of_pair
        of_pair = max(1.0, (high - low) / pairs)
        is_stable = abs(of_pair - before) <= STABLE * of_pair and pairs * longest >= CHUNK
        is_linear = high >= GROWTH * low and is_stable
        pairs *= 2
    if not of_pair:  # the first step fills the memory or the epoch
        of_pair = max(1.0, (high - peak_of(1)) / (pairs - 1))
    fixed = high - of_pair * pairs
    fitting = int((USED * free - fixed) // of_pair)
    if fitting < 1:
        raise UsageError(
            f"a step on one pair of {longest} tokens needs {(fixed + of_pair) / 1e9:.2f} GB, and "
            f"{100 * USED:.0f} % of {free / 1e9:.2f} GB of free memory may be used",
            hint="a smaller model, a lower --data.max-length, or --training.recompute true",
        )
    tokens = min(fitting * longest, by_epoch, int(BATCH))
    return FittedBatch(
        tokens=tokens,
        peak=int(fixed + of_pair * tokens / longest),
        free=free,
        fills_memory=tokens == fitting * longest,
    )


def recorded_tokens(folder: Path) -> int | None:
    """Return the batch size of the run in a folder, so that it is resumed exactly; None if there is
    no run yet."""
    path = folder / "run.yaml"
    tokens = read_yaml(path).get("training.tokens") if path.is_file() else None
    return tokens if isinstance(tokens, int) else None
