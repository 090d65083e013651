"""Spreads the links between words of a sentence pair over their tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from headway.base.shapes import Float, Tensor
from headway.text import SentenceTokenizer


def split_words(text: str) -> list[str]:
    """Return the words that alignments of `text` count: what is between spaces."""
    return [word for word in text.split(" ") if word]


def word_of_each_token(tokenizer: SentenceTokenizer, ids: Sequence[int]) -> list[int | None]:
    """Return, for each token, the number of its word in `split_words` of the text, from 0.

    None for special tokens, such as a language tag, and for spaces without a word.
    """
    special = set(tokenizer.special_ids.values())
    numbers: list[int | None] = [None] * len(ids)
    count = 0
    for word, positions in tokenizer.words(ids):
        if ids[positions[0]] in special or not word.strip(" "):
            continue
        for position in positions:
            numbers[position] = count
        count += 1
    return numbers


def token_alignment(
    links: Iterable[tuple[int, int]],
    source_words: Sequence[int | None],
    target_words: Sequence[int | None],
) -> Float[Tensor, "T S"]:
    """Return G[t, s], the gold fraction of the attention of target token t on source token s.

        G[t, s] = [word(s) is linked to word(t)] / number of tokens of all words linked to word(t)

    Each row sums to 1, or is 0 if the word of the target token has no link. Garg et al. 2019.
    links: positions of a source word and of a target word. source_words, target_words:
    the word of each token (`word_of_each_token`).
    """
    linked = set(links)
    gold = torch.tensor(
        [[float((s, t) in linked) for s in source_words] for t in target_words]
    ).view(len(target_words), len(source_words))
    return gold / gold.sum(-1, keepdim=True).clamp_min(1)
