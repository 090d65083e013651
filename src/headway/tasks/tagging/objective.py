"""The objective of tagging: cross-entropy of the tags of words."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from headway.base.transfers import positions_where, upload
from headway.data.word_targets import WordBatch
from headway.models import BertTagger
from headway.training.objectives.contract import Loss


@dataclass(frozen=True)
class TaggingObjective:
    """Computes -sum w log P(tag of word) at the first token of every word.

    Other tokens have no targets. The loss counts words. weights: w of each tag; empty: all 1.
    Devlin et al. 2019, section 5.3.
    """

    weights: tuple[float, ...] = ()

    def __call__(self, model: BertTagger, batch: WordBatch) -> Loss:
        texts = batch.texts
        words = positions_where(batch.words, len(batch.targets))
        logits = model(texts.tokens, texts.keys, texts.types).flatten(0, 1)  # BT C
        logits = logits.index_select(0, words).float()  # N C
        losses = F.cross_entropy(logits, batch.targets, reduction="none")
        nats = losses.detach().sum()
        if self.weights:
            weights = upload(torch.tensor(self.weights, dtype=losses.dtype), losses.device)
            losses = losses * weights[batch.targets]
        return Loss(losses.sum(), nats, len(logits))
