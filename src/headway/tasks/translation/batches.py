"""Collates sentence pairs into padded batches of token ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

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
