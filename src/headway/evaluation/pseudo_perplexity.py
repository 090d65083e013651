"""How surprised an encoder is by text: every word guessed from all others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from headway.bundle import EncoderBundle
from headway.data.encoder_batches import FramedBatch, collate_framed
from headway.errors import UsageError

ROWS = 64  # read at once


@dataclass(frozen=True)
class PseudoPerplexity:
    """nats: of all tokens together. words: as spaces part them; what tokens are differs between
    tokenizers, and these do not."""

    nats: float
    tokens: int
    words: int

    @property
    def a_token(self) -> float:
        """exp(nats / tokens)."""
        return math.exp(self.nats / self.tokens)

    @property
    def a_word(self) -> float:
        """exp(nats / words), which may be compared between tokenizers."""
        return math.exp(self.nats / self.words)

    @property
    def fertility(self) -> float:
        """Tokens a word."""
        return self.tokens / self.words


@torch.inference_mode()
def pseudo_perplexity(
    bundle: EncoderBundle,
    texts: Sequence[str],
    progress: Callable[[int], object] = lambda done: None,
) -> PseudoPerplexity:
    """-sum_t log P(w_t | all w but w_t), each token hidden alone. Salazar et al. 2020, section 2.

    A text is read by itself, in parts where it is longer than the model's places. Costs one row
    for each token. progress: called before each batch with the number of tokens processed so far.
    UsageError for a model that guesses no words, or no text.
    """
    if bundle.model.masked_words is None:
        raise UsageError("this model has no head for hidden words: it has no pseudo-perplexity")
    marks, special = bundle.tokenizer.marks, bundle.tokenizer.special_ids
    rows: list[tuple[list[int], int]] = []
    words = 0
    for text, ids in zip(texts, bundle.tokenizer.encode_batch(texts), strict=True):
        room = (bundle.model.max_length or len(ids) + 2) - 2
        for start in range(0, len(ids), room):
            framed, _ = marks.frame(ids[start : start + room])
            rows += [(framed, place) for place, i in enumerate(framed) if i not in special]
        words += len(text.split())
    if not rows:
        raise UsageError("there is no word to guess")
    rows.sort(key=lambda row: len(row[0]))  # stable: little padding
    total = 0.0
    for start in range(0, len(rows), ROWS):
        progress(start)
        chosen = rows[start : start + ROWS]
        batch, places = _hidden(chosen, bundle)
        hidden = bundle.model.encode(batch.tokens, batch.keys, batch.types)
        logits = bundle.model.words(hidden[torch.arange(len(chosen)), places]).float()
        true = torch.tensor([ids[place] for ids, place in chosen], device=logits.device)
        total += F.cross_entropy(logits, true, reduction="sum").item()
    return PseudoPerplexity(total, len(rows), words)


def _hidden(
    chosen: Sequence[tuple[list[int], int]], bundle: EncoderBundle
) -> tuple[FramedBatch, torch.Tensor]:
    marks = bundle.tokenizer.marks
    rows = [[*ids[:place], marks.mask, *ids[place + 1 :]] for ids, place in chosen]
    batch = collate_framed(rows, None, marks.pad).to(str(bundle.device))
    return batch, torch.tensor([place for _, place in chosen], device=bundle.device)
