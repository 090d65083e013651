"""Pseudo-perplexity of masked language models: each token is predicted from all others."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from headway.base.chunks import chunks
from headway.base.errors import UsageError
from headway.base.sharing import WHOLE, Share
from headway.bundle import EncoderBundle
from headway.bundle.encoder import FRAME
from headway.data.padding import EncoderBatch, collate_encoder_batch

ROWS = 64  # batch size


@dataclass(frozen=True)
class PseudoPerplexity:
    """The negative log-likelihood of texts, and their lengths.

    nats: total over all tokens. tokens: the number of tokens. words: the number of words separated
    by spaces, which does not depend on the tokenizer.
    """

    nats: float
    tokens: int
    words: int

    @property
    def per_token(self) -> float:
        """Pseudo-perplexity per token: exp(nats / tokens)."""
        return math.exp(self.nats / self.tokens)

    @property
    def per_word(self) -> float:
        """Pseudo-perplexity per word: exp(nats / words). It can be compared between tokenizers."""
        return math.exp(self.nats / self.words)

    @property
    def fertility(self) -> float:
        """Number of tokens per word."""
        return self.tokens / self.words


@torch.inference_mode()
def pseudo_perplexity(
    bundle: EncoderBundle,
    texts: Sequence[str],
    share_of: Callable[[int], Share] = lambda work: WHOLE,
) -> PseudoPerplexity:
    """Compute -sum_t log P(w_t | all w but w_t), masking one token at a time.

    Salazar et al. 2020, section 2. Each text is encoded by itself, in parts if it is longer than
    the model's maximum length. The cost is one sequence per token. share_of: returns the
    share of an evaluation, from the number of tokens. Raises UsageError for a model without a head
    for masked tokens, and if the texts have no tokens.
    """
    if bundle.model.masked_lm_head is None:
        raise UsageError(
            "pseudo-perplexity needs a masked language model, and this model has no head for "
            "masked tokens"
        )
    special_tokens, special = bundle.tokenizer.special_tokens, bundle.tokenizer.special_ids
    rows: list[tuple[list[int], int]] = []
    words = 0
    for text, ids in zip(texts, bundle.tokenizer.encode_batch(texts), strict=True):
        room = bundle.model.max_length - FRAME if bundle.model.max_length else max(1, len(ids))
        for start in range(0, len(ids), room):
            framed, _ = special_tokens.frame(ids[start : start + room])
            rows += [(framed, position) for position, i in enumerate(framed) if i not in special]
        words += len(text.split())
    if not rows:
        raise UsageError("the texts have no tokens, so there is no pseudo-perplexity")
    rows.sort(key=lambda row: len(row[0]))  # stable sort by length: little padding

    def compute(chosen: Sequence[tuple[list[int], int]]) -> float:
        batch, positions = _masked(chosen, bundle)
        hidden = bundle.model.encode(batch.tokens, batch.keys, batch.types)
        logits = bundle.model.words(
            hidden[torch.arange(len(chosen), device=hidden.device), positions]
        ).float()
        true = torch.tensor([ids[position] for ids, position in chosen], device=logits.device)
        return F.cross_entropy(logits, true, reduction="sum").item()

    total = 0.0
    for nats in share_of(len(rows)).each(chunks(rows, ROWS), compute, len):
        total += nats
    return PseudoPerplexity(total, len(rows), words)


def _masked(
    chosen: Sequence[tuple[list[int], int]], bundle: EncoderBundle
) -> tuple[EncoderBatch, torch.Tensor]:
    """Replace one token of each sequence by [MASK]; return the batch and the positions."""
    special_tokens = bundle.tokenizer.special_tokens
    rows = [
        [*ids[:position], special_tokens.mask, *ids[position + 1 :]] for ids, position in chosen
    ]
    batch = collate_encoder_batch(rows, None, special_tokens.pad).to(str(bundle.device))
    return batch, torch.tensor([position for _, position in chosen], device=bundle.device)
