"""Collates sentence pairs into padded batches of token ids, and finds the largest batch that fits
into memory, from the measured memory of small steps.

    peak(n) = a + b n        n: number of pairs

a is what every step needs (weights, gradients, the state of the optimizer), b what each pair adds.
Steps on 4, 8, 16 ... pairs of the longest lengths are measured, until the pairs take most of the
memory and b no longer changes; a and b follow from the last two. The longest pairs need the most
memory for each token, because attention grows with the square of the length.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from headway.base.config_files import read_yaml
from headway.base.errors import UsageError
from headway.base.memory import USED
from headway.base.settings import BATCH
from headway.base.shapes import Bool, Float, Int, Tensor
from headway.data.padding import padded
from headway.data.stream import Array, Batch
from headway.models import Translator
from headway.tasks.translation.noise import SourceNoise
from headway.tasks.translation.parallel_corpus import Corpus
from headway.tasks.translation.random_splits import RandomSplits
from headway.tasks.translation.span_corruption import SpanCorruption
from headway.tasks.translation.word_alignment import token_alignment, word_of_each_token
from headway.text import SentenceTokenizer, TokenizerPair
from headway.transforms.fast.cross_entropy import CHUNK

TOKENS = 4096
"""Maximum number of source tokens that are decoded together, and of one text.

The time of a search is quadratic in the length.
"""


@dataclass(frozen=True)
class TranslationBatch(Batch):
    """A batch of sentence pairs for teacher forcing: the decoder gets target_in and predicts
    target_out.

    source: tokens, </s>, padding. source_keys: True at tokens, False at padding; None if there is
    no padding, so that attention needs no mask. target_in: <s>, tokens. target_out: tokens, </s>.
    indices: indices of the pairs in the corpus. count: the number of target tokens without padding;
    None if they are to be counted. alignment: `token_alignment` of each pair, 0 at </s> and at
    padding; None if the corpus has no alignments.
    """

    examples = "sentence pairs"
    source: Int[Tensor, "B S"]
    source_keys: Bool[Tensor, "B S"] | None
    target_in: Int[Tensor, "B T"]
    target_out: Int[Tensor, "B T"]
    indices: tuple[int, ...]
    count: int | None = None
    alignment: Float[Tensor, "B T S"] | None = None


def collate(
    corpus: Corpus,
    indices: Array,
    tokenizers: TokenizerPair,
    splits: RandomSplits | SpanCorruption | None = None,
    epoch: int = 0,
    noise: SourceNoise | None = None,
) -> TranslationBatch:
    """Return the pairs at `indices` of the corpus as one batch.

    splits: gives them the tokens of an epoch, if any, at random or by span corruption. noise:
    changes the sources after that.
    """
    positions = [int(i) for i in indices]
    sources = [corpus.source[i].tolist() for i in positions]
    targets = [corpus.target[i].tolist() for i in positions]
    if splits is not None:
        pairs = zip(sources, targets, positions, strict=True)
        split = [splits.pair(source, target, epoch, i) for source, target, i in pairs]
        sources, targets = [source for source, _ in split], [target for _, target in split]
    alignment = None
    if corpus.links is not None:  # before the noise, which hides words but moves none
        links = [[(int(s), int(t)) for s, t in corpus.links[i].reshape(-1, 2)] for i in positions]
        alignment = padded_alignment(links, sources, targets, tokenizers)
    if noise is not None:
        numbered = zip(sources, positions, strict=True)
        sources = [noise.source(source, epoch, i) for source, i in numbered]
    source, keys = collate_sources(sources, tokenizers.source)
    end, start = tokenizers.target.eos, tokenizers.target.bos
    pad = tokenizers.target.pad
    target_out = padded([[*ids, end] for ids in targets], pad)[0]
    return TranslationBatch(
        source,
        keys,
        padded([[start, *ids] for ids in targets], pad)[0],
        target_out,
        tuple(positions),
        int((target_out != pad).sum()),
        alignment,
    )


def longest_batch(
    pairs: int, source: int, target: int, tokenizers: TokenizerPair, *, aligned: bool
) -> TranslationBatch:
    """Return a batch of `pairs` pairs of one token repeated, to measure a step.

    source, target: their lengths, with </s>. aligned: whether it has an alignment.
    """
    side = torch.full((pairs, source), tokenizers.source.eos)
    other = torch.full((pairs, target), tokenizers.target.eos)
    alignment = torch.full((pairs, target, source), 1 / source) if aligned else None
    keys = torch.ones_like(side, dtype=torch.bool)
    indices = tuple(range(pairs))
    return TranslationBatch(side, keys, other, other, indices, pairs * target, alignment)


def padded_alignment(
    links: Sequence[Sequence[tuple[int, int]]],
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    tokenizers: TokenizerPair,
) -> Float[Tensor, "B T S"]:
    """Return the `token_alignment` of pairs, with room for </s> on both sides.

    links: their aligned words. sources, targets: their ids.
    """
    longest = (max(map(len, targets)) + 1, max(map(len, sources)) + 1)
    alignment = torch.zeros(len(links), *longest)
    for row, (words, source, target) in enumerate(zip(links, sources, targets, strict=True)):
        alignment[row, : len(target), : len(source)] = token_alignment(
            words,
            word_of_each_token(tokenizers.source, source),
            word_of_each_token(tokenizers.target, target),
        )
    return alignment


def collate_sources(
    sequences: Sequence[Sequence[int]], tokenizer: SentenceTokenizer
) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"] | None]:
    """Return the padded source ids, with </s> at the end of each sequence, and the padding mask.

    The mask is True at tokens and False at padding; None if there is no padding.
    """
    ended = [[*sequence, tokenizer.eos] for sequence in sequences]
    source, keys = padded(ended, tokenizer.pad)
    return source, None if bool(keys.all()) else keys


def max_source_tokens(model: Translator) -> int:
    """Return the maximum number of tokens of a text that the model translates."""
    limit = model.max_source
    return TOKENS if limit is None else min(TOKENS, limit - 1)


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
